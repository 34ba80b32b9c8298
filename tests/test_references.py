"""The references: what they refuse, that gradients flow, that nothing leaves the device.

Their values are the suite's business.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from attnspec.impls import rope as ropes
from attnspec.impls.softmax import BLOCK, softmax, softmax_online

Reference = Callable[..., Tensor]

SOFTMAXES = [softmax, softmax_online]
ROPES = [ropes.rope, ropes.rope_half, ropes.rope_complex, ropes.rope_matrix]
ROTATIONS = [ropes.rope_apply, ropes.rope_apply_half]
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def numbers(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize("reference", SOFTMAXES)
class TestSoftmax:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_shape_and_dtype_along_every_axis(
        self, reference: Reference, dtype: torch.dtype
    ) -> None:
        x = numbers(2, 3, 2 * BLOCK + 1, dtype=dtype).mT
        for dim in range(-3, 3):
            y = reference(x, dim=dim)
            assert (y.shape, y.dtype) == (x.shape, dtype)

    def test_leading_block_of_minus_infinity(self, reference: Reference) -> None:
        x = numbers(2, 3 * BLOCK)
        x[:, : BLOCK + 3] = -torch.inf
        y = reference(x)
        assert torch.equal(y == 0, x == -torch.inf)
        torch.testing.assert_close(y[:, BLOCK + 3 :], reference(x[:, BLOCK + 3 :]))

    def test_only_the_last_entry_is_finite(self, reference: Reference) -> None:
        x = torch.full((2 * BLOCK,), -torch.inf)
        x[-1] = -1000.0
        assert reference(x).tolist() == [0.0] * (2 * BLOCK - 1) + [1.0]

    @pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0,), (2, 0, 3)])
    def test_empty(self, reference: Reference, shape: tuple[int, ...]) -> None:
        for dim in range(len(shape)):
            assert reference(torch.zeros(shape), dim=dim).shape == shape

    def test_gradients(self, reference: Reference) -> None:
        x = numbers(2, BLOCK + 2).requires_grad_()
        assert torch.autograd.gradcheck(reference, (x,))

    def test_gradient_is_zero_at_minus_infinity(self, reference: Reference) -> None:
        x = numbers(2, BLOCK + 2)
        x[:, :BLOCK] = -torch.inf
        x.requires_grad_()
        (gradient,) = torch.autograd.grad(reference(x)[:, -1].sum(), x)
        assert bool(gradient.isfinite().all())
        assert not gradient[:, :BLOCK].any()

    def test_input_unchanged(self, reference: Reference) -> None:
        x = numbers(3, 4)
        before = x.clone()
        reference(x)
        assert torch.equal(x, before)

    def test_stays_on_the_device(self, reference: Reference) -> None:
        # a meta tensor has no values: whatever fetches one to the host raises
        x = torch.empty(2, 3, 40, device="meta")
        assert reference(x, dim=1).device.type == "meta"


@pytest.mark.parametrize("reference", ROPES)
class TestRope:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("rotary_dim", [None, 0, 2, 6, 8])
    def test_position_zero_and_untouched_channels(
        self, reference: Reference, dtype: torch.dtype, rotary_dim: int | None
    ) -> None:
        x = numbers(2, 3, 4, 8, dtype=dtype).transpose(1, 2).contiguous().transpose(1, 2)
        before = x.clone()
        y = reference(x, torch.tensor([0, 1, 7, 0]), rotary_dim=rotary_dim)
        assert (y.shape, y.dtype) == (x.shape, dtype)
        assert torch.equal(y[:, :, [0, 3]], x[:, :, [0, 3]])
        if rotary_dim is not None:
            assert torch.equal(y[..., rotary_dim:], x[..., rotary_dim:])
        assert torch.equal(x, before)

    @pytest.mark.parametrize("rotary_dim", [None, 4])
    def test_rows_of_positions(self, reference: Reference, rotary_dim: int | None) -> None:
        x, positions = numbers(2, 3, 5, 8), torch.tensor([[5, 0, 9, 2, 2], [7, 1000, 1, 0, 3]])
        together = reference(x, positions, base=500.0, rotary_dim=rotary_dim)
        for row in range(2):
            for given in (positions[row], positions[row : row + 1]):
                alone = reference(x[row : row + 1], given, base=500.0, rotary_dim=rotary_dim)
                assert torch.equal(alone[0], together[row])

    def test_empty_batch(self, reference: Reference) -> None:
        x = torch.zeros(0, 3, 4, 8)
        for positions in (torch.arange(4), torch.zeros(0, 4, dtype=torch.int64)):
            assert reference(x, positions, rotary_dim=4).shape == x.shape

    def test_gradients(self, reference: Reference) -> None:
        x = numbers(2, 1, 3, 6).requires_grad_()
        positions = torch.tensor([[0, 3, 1], [2, 2, 90]])
        assert torch.autograd.gradcheck(
            lambda x: reference(x, positions, base=50.0, rotary_dim=4), (x,)
        )

    @pytest.mark.parametrize(
        ("shape", "positions", "rotary_dim", "message"),
        [
            ((1, 1, 2, 7), (2,), None, "x has 7 channels"),
            ((1, 2, 8), (2,), None, r"x has shape \(1, 2, 8\); expected four axes b h n d"),
            ((1, 1, 2, 8), (2,), 3, "rotary_dim is 3; expected an even number from 0 to the 8"),
            ((1, 1, 2, 8), (2,), 10, "rotary_dim is 10; expected an even number from 0 to the 8"),
            ((1, 1, 2, 8), (2,), -2, "rotary_dim is -2; expected"),
            ((1, 1, 2, 8), (3,), None, r"positions have shape \(3,\); expected \(2,\) or \(1, 2\)"),
            ((2, 1, 2, 8), (1, 2), None, r"positions have shape \(1, 2\); expected"),
        ],
    )
    def test_refuses(
        self,
        reference: Reference,
        shape: tuple[int, ...],
        positions: tuple[int, ...],
        rotary_dim: int | None,
        message: str,
    ) -> None:
        with pytest.raises(ValueError, match=message):
            reference(
                torch.zeros(shape),
                torch.zeros(positions, dtype=torch.int64),
                rotary_dim=rotary_dim,
            )

    @pytest.mark.parametrize("shape", [(5,), (2, 5)])
    def test_stays_on_the_device(self, reference: Reference, shape: tuple[int, ...]) -> None:
        x = torch.empty(2, 3, 5, 8, device="meta")
        positions = torch.empty(shape, dtype=torch.int64, device="meta")
        assert reference(x, positions, rotary_dim=4).device.type == "meta"


@pytest.mark.parametrize("reference", ROTATIONS)
class TestRotation:
    @pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3)])
    def test_gradients_of_all_three(self, reference: Reference, shape: tuple[int, ...]) -> None:
        inputs = (numbers(2, 2, 4, 6), numbers(*shape), numbers(*shape) + 1.0)
        assert torch.autograd.gradcheck(reference, [t.requires_grad_() for t in inputs])

    @pytest.mark.parametrize("shape", [(4, 6), (3, 3), (1, 4, 3), (4,)])
    def test_refuses_tables_of_another_shape(
        self, reference: Reference, shape: tuple[int, ...]
    ) -> None:
        x, right, wrong = numbers(2, 2, 4, 6), numbers(4, 3), torch.zeros(shape)
        with pytest.raises(ValueError, match=r"cos has shape .*expected \(4, 3\) or \(2, 4, 3\)"):
            reference(x, wrong, right)
        with pytest.raises(ValueError, match="sin has shape"):
            reference(x, right, wrong)

    def test_dtype_of_x_whatever_the_tables_have(self, reference: Reference) -> None:
        for dtype, tables in itertools.product(DTYPES, DTYPES):
            x, cos = numbers(1, 2, 4, 6, dtype=dtype), numbers(4, 3, dtype=tables)
            assert reference(x, cos, cos).dtype == dtype

    def test_empty_batch(self, reference: Reference) -> None:
        x, cos = torch.zeros(0, 2, 4, 6), numbers(4, 3)
        assert reference(x, cos, cos).shape == x.shape

    def test_stays_on_the_device(self, reference: Reference) -> None:
        x, cos = torch.empty(1, 2, 4, 6, device="meta"), torch.empty(4, 3, device="meta")
        assert reference(x, cos, cos).device.type == "meta"
