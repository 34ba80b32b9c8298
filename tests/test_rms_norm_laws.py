"""The laws of rms_norm on functions that are in no catalogue: right ones of other styles, which
pass, and wrong ones, which don't."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import Tensor

from attnspec.driving import scope_of
from attnspec.impls import rms_norm as references
from attnspec.impls.layer_norm import layer_norm
from attnspec.oracle.inputs import families, sampled
from attnspec.target import DTYPES
from tests.rejecting import rejections
from tests.rms_norm_subjects import CONVENTIONS, ROWS, Array, Norm, subject


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_reference_keeps_every_law_under_its_convention(name: str, dtype: str) -> None:
    function, conventions = CONVENTIONS[name]
    mine = subject(function, dtype, conventions=conventions, precision="strict")
    assert rejections(mine, 6) == {}


# -- right ones of other styles --------------------------------------------------------------------


def by_vector_norm(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    wide = references.widened(x)
    square = torch.linalg.vector_norm(wide, dim=-1, keepdim=True) ** 2 / x.shape[-1]
    return references.gained(wide / torch.sqrt(square + eps), weight, x)


def by_matrices(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """The sum of squares as a product of a row with itself, the gain as a diagonal matrix's."""
    wide = references.widened(x)
    total = torch.einsum("...c,...c->...", wide, wide).unsqueeze(-1)
    hat = wide * (total / x.shape[-1] + eps).pow(-0.5)
    return (hat if weight is None else torch.einsum("...c,c->...c", hat, weight.to(hat))).to(x)


def row_by_row(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """Every row alone, its squares from the last channel to the first."""
    rows = x.reshape(-1, x.shape[-1])
    found = [references.rms_norm(row.flip(0), eps=eps).flip(0) for row in references.widened(rows)]
    hat = torch.stack(found) if found else references.widened(rows)
    return references.gained(hat.reshape(x.shape), weight, x)


def without_options(x: Tensor) -> Tensor:
    return references.rms_norm(x)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("right", [by_vector_norm, by_matrices, row_by_row, without_options])
def test_right_functions_in_other_styles_pass(right: Norm, dtype: str) -> None:
    assert rejections(subject(right, dtype), 8) == {}


def test_an_option_that_is_missing_is_not_tested() -> None:
    mine = subject(without_options)
    for family in families("rms_norm"):
        if family not in ("rms_norm_weighted", "rms_norm_many"):
            for inputs in sampled(family, scope_of(mine), 20, 0):
                assert not inputs.options
                assert [*inputs.arrays] == ["x"]


def in_numpy(x: Array, weight: Array | None = None, *, eps: float = 1e-6) -> Array:
    wide = x.astype(np.result_type(x.dtype, np.float32))
    hat = wide / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + wide.dtype.type(eps))
    found: Array = hat if weight is None else hat * weight.astype(wide.dtype)
    return found.astype(x.dtype)


def in_numpy_backward(
    upstream: Array, x: Array, weight: Array | None = None, *, eps: float = 1e-6
) -> tuple[Array, ...]:
    """The closed formula."""
    kind = np.result_type(x.dtype, np.float32)
    wide, above = x.astype(kind), upstream.astype(kind)
    r = 1 / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + wide.dtype.type(eps))
    hat = wide * r
    g = above if weight is None else above * weight.astype(kind)
    dx = (r * (g - hat * np.mean(g * hat, axis=-1, keepdims=True))).astype(x.dtype)
    if weight is None:
        return (dx,)
    dw = (above * hat).reshape(-1, x.shape[-1]).sum(axis=0)
    return dx, dw.astype(weight.dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_numpy_with_the_closed_gradient_passes(dtype: str) -> None:
    beside = {"rms_norm_backward": in_numpy_backward}
    mine = subject(in_numpy, dtype, arrays="numpy", gradients=True, others=beside)
    assert rejections(mine, 8) == {}


def test_numpy_bfloat16_passes() -> None:
    assert np.dtype(ml_dtypes.bfloat16) == np.dtype("bfloat16")
    assert rejections(subject(in_numpy, "bfloat16", arrays="numpy"), 8) == {}


def test_limits_narrow_what_is_drawn() -> None:
    def only_64(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
        assert x.shape[-1] == 64
        return references.rms_norm(x, weight, eps=eps)

    assert rejections(subject(only_64, limits={"m": {64}}), 8) == {}


# -- wrong ones ------------------------------------------------------------------------------------


def largest_for_root(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    wide = references.widened(x)
    return references.gained(wide / (wide.abs().amax(-1, keepdim=True) + eps), weight, x)


def eps_twice(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    return references.rms_norm(x, weight, eps=2.0 * eps)


def weight_backwards(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    return references.rms_norm(x, None if weight is None else weight.flip(0), eps=eps)


def tiny_rows_zero(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    found = references.rms_norm(x, weight, eps=eps)
    return found.masked_fill(x.abs().amax(-1, keepdim=True) < 1e-3, 0.0)


def first_row_for_all(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """The factor of the first row of each entry, as where it is kept in one place."""
    wide = references.widened(x)
    square = references.mean_square(wide)
    if x.ndim > 1:
        square = square[..., :1, :].expand_as(square)
    return references.gained(wide * (square + eps).rsqrt(), weight, x)


class _FirstEntryOnly(torch.autograd.Function):
    """A right result; the gradient of the weight is summed over the first entry alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return references.rms_norm(x, weight, eps=eps)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        with torch.enable_grad():
            whole = references.rms_norm(x, weight, eps=ctx.eps)
            first = references.rms_norm(x[:1], weight, eps=ctx.eps)
        (dx,) = torch.autograd.grad(whole, x, upstream[0])
        (dw,) = torch.autograd.grad(first, weight, upstream[0][:1])
        return dx, dw, None


def first_entry_only(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    if weight is None or x.ndim == 1:
        return references.rms_norm(x, weight, eps=eps)
    found: Tensor = _FirstEntryOnly.apply(x, weight, eps)  # type: ignore[no-untyped-call]
    return found


def constant_factor(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    wide = references.widened(x)
    factor = (references.mean_square(wide.detach()) + eps).rsqrt()
    return references.gained(wide * factor, weight, x)


@pytest.mark.parametrize(
    ("wrong", "laws"),
    [
        (largest_for_root, {"mean_square", "matches_oracle"}),
        (eps_twice, {"eps_read_off"}),
        (weight_backwards, {"gain_read_off", "permuted_channels"}),
        (tiny_rows_zero, {"eps_read_off", "small_numbers"}),
        (first_row_for_all, {"row_alone", "others_change_nothing", "leading_axes"}),
        (first_entry_only, {"weight_adjoint", "weight_gradient_counts_rows"}),
        (constant_factor, {"gradient_orthogonal_to_x", "gradients_match_oracle"}),
    ],
)
def test_wrong_functions_of_no_catalogue_are_rejected(wrong: Norm, laws: set[str]) -> None:
    found = rejections(subject(wrong), 20)
    assert laws <= found.keys(), found


@pytest.mark.parametrize("wrong", [first_entry_only, constant_factor])
def test_where_only_gradients_are_wrong_no_other_law_complains(wrong: Norm) -> None:
    assert all(ROWS[name].gradients for name in rejections(subject(wrong), 20))


def test_beside_another_eps_layer_norm_tells() -> None:
    beside = {"layer_norm": layer_norm}
    assert "eq_layer_norm_of_centred" not in rejections(subject(by_vector_norm, others=beside), 12)
    found = rejections(subject(largest_for_root, others=beside), 12)
    assert "eq_layer_norm_of_centred" in found
