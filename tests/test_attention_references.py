"""The references of attention against loops over queries and keys in float64, and at the edges.

Their roundings are the suite's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnspec.impls import attention_conventions as conventions
from attnspec.impls.attention import attention
from attnspec.impls.attention_split import PART, attention_split
from attnspec.impls.attention_tiled import KEY_TILE, attention_tiled

Reference = Callable[..., Any]
Array = np.ndarray[Any, Any]

PLAIN: Reference = attention
REFERENCES: list[Reference] = [
    attention,
    attention_tiled,
    attention_split,
    conventions.attention_per_query,
]
VARIANTS: dict[str, Reference] = {
    "top_left": conventions.attention_top_left,
    "total": conventions.attention_total_window,
    "tiled": conventions.attention_tiled_heads,
}
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
CLOSE = 1e-10

OPTIONS: list[dict[str, Any]] = [
    {},
    {"causal": True},
    {"causal": True, "window": 3, "scale": -0.5},
    {"window": 0},
    {"window": 17, "softcap": 0.5},
    {"causal": True, "softcap": 2.0},
]
SHAPES = [
    (1, 1, 1, 1, 1, 1, 1),
    (2, 6, 2, 5, 9, 4, 3),
    (1, 2, 1, KEY_TILE + 2, 2 * PART + 1, 3, 5),
    (1, 3, 3, 20, 7, 2, 2),
]
"""b, h, g, t, s, d, e"""
RANK_OF_MASK = [None, 1, 2, 4]


def by_loops(
    q: Array,
    k: Array,
    v: Array,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    top_left: bool = False,
    total: bool = False,
    tiled: bool = False,
) -> tuple[Array, Array]:
    """Output and log-sum-exp, one pair of query and key at a time."""
    full = (*q.shape[:3], k.shape[2])
    heads, groups, (t, s) = q.shape[1], k.shape[1], full[2:]
    masks = np.broadcast_to(True if mask is None else mask, full)
    biases = np.broadcast_to(0.0 if bias is None else bias, full)
    output, lse = np.zeros((*full[:3], v.shape[3])), np.full(full[:3], -np.inf)
    backward = causal or (total and window is not None)
    for b, h, i in np.ndindex(full[:3]):
        reads = h % groups if tiled else h // (heads // groups)
        place = i if top_left else i + s - t
        scores: dict[int, float] = {}
        for j in range(s):
            first = place - math.inf if window is None else place - window + total
            last = place if backward else place + (math.inf if window is None else window)
            if not first <= j <= last or not masks[b, h, i, j]:
                continue
            score = q[b, h, i] @ k[b, reads, j] * (q.shape[3] ** -0.5 if scale is None else scale)
            if softcap is not None:
                score = softcap * math.tanh(score / softcap)
            if biases[b, h, i, j] > -math.inf:
                scores[j] = score + biases[b, h, i, j]
        if scores:
            lse[b, h, i] = np.logaddexp.reduce(list(scores.values()))
            for j, score in scores.items():
                output[b, h, i] += math.exp(score - lse[b, h, i]) * v[b, reads, j]
    return output, lse


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def inputs_of(shape: tuple[int, ...], rank: int | None) -> dict[str, Any]:
    b, h, g, t, s, d, e = shape
    found: dict[str, Any] = {
        "q": numbers(b, h, t, d, seed=1),
        "k": numbers(b, g, s, d, seed=2),
        "v": numbers(b, g, s, e, seed=3),
    }
    if rank is not None:
        over = (b, h, t, s)[4 - rank :]
        found["mask"] = numbers(*over, seed=4) > -0.7
        # every row of keys the same, some of it hidden
        bias = numbers(*over[:-1], 1, seed=5)
        found["bias"] = np.where(bias > 1.0, -np.inf, bias)
    return found


def tensors(arrays: dict[str, Any], dtype: torch.dtype = torch.float64) -> dict[str, Any]:
    return {
        name: torch.tensor(array, dtype=None if array.dtype == bool else dtype)
        for name, array in arrays.items()
    }


def leaves(given: dict[str, Any]) -> dict[str, Any]:
    """Copies that want gradients, the mask aside."""
    return {
        name: x.clone() if x.dtype == torch.bool else x.clone().requires_grad_()
        for name, x in given.items()
    }


def gradients(
    reference: Reference, given: dict[str, Any], **options: Any
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Output, log-sum-exp, and the gradients of a sum over both."""
    given = leaves(given)
    output, lse = reference(**given, **options, return_lse=True)
    weights = torch.linspace(-1.0, 1.0, output.numel(), dtype=output.dtype).view_as(output)
    finite = lse.masked_fill(lse == -torch.inf, 0.0)
    loss = (weights * output).sum() + (finite * finite.cos().detach()).sum()
    wanted = {name: x for name, x in given.items() if x.requires_grad}
    found = torch.autograd.grad(loss, list(wanted.values()))
    return output.detach(), lse.detach(), dict(zip(wanted, found, strict=True))


def same(found: Tensor, expected: Array) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("reference", REFERENCES)
def test_values(reference: Reference, shape: tuple[int, ...], options: dict[str, Any]) -> None:
    for rank in RANK_OF_MASK:
        given = inputs_of(shape, rank)
        output, lse = reference(**tensors(given), **options, return_lse=True)
        expected = by_loops(**given, **options)
        same(output, expected[0])
        same(lse, expected[1])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", VARIANTS)
def test_values_by_other_conventions(
    name: str, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    if name == "total" and "window" in options:
        options = {**options, "causal": True, "window": options["window"] + 1}
    given = inputs_of(shape, 4)
    output, lse = VARIANTS[name](**tensors(given), **options, return_lse=True)
    options = {**options, name: True}
    expected = by_loops(**given, **options)
    same(output, expected[0])
    same(lse, expected[1])


@pytest.mark.parametrize("reference", REFERENCES[1:])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_gradients_agree_with_those_of_the_plain_form(
    reference: Reference, options: dict[str, Any]
) -> None:
    for shape in SHAPES:
        for rank in RANK_OF_MASK:
            given = tensors(inputs_of(shape, rank))
            expected = gradients(PLAIN, given, **options)[2]
            found = gradients(reference, given, **options)[2]
            for name, gradient in found.items():
                torch.testing.assert_close(gradient, expected[name], rtol=CLOSE, atol=CLOSE)


def test_gradients_of_the_plain_form_are_those_of_finite_differences() -> None:
    given = tensors(inputs_of((1, 4, 2, 3, 5, 2, 3), None))
    bias = torch.tensor(numbers(4, 1, 5))
    wanted = [x.requires_grad_() for x in (*given.values(), bias)]

    def call(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Any:
        return attention(q, k, v, bias=bias, causal=True, softcap=3.0, return_lse=True)

    assert torch.autograd.gradcheck(call, wanted)


@pytest.mark.parametrize("softcap", [None, 1.0])
@pytest.mark.parametrize("reference", REFERENCES)
def test_rows_without_a_visible_key(reference: Reference, softcap: float | None) -> None:
    given = inputs_of((2, 2, 1, 4, 2 * PART, 3, 3), None)
    given["mask"] = np.arange(4)[:, None] != np.arange(2 * PART) * 0 + 2
    given["bias"] = np.where(np.arange(4)[:, None] == 3, -np.inf, np.zeros(2 * PART))
    output, lse, found = gradients(reference, tensors(given), softcap=softcap)
    assert not output[:, :, 2:].any()
    assert bool((lse[:, :, 2:] == -torch.inf).all())
    assert all(bool(gradient.isfinite().all()) for gradient in found.values())
    assert not found["q"][:, :, 2:].any()
    assert not found["bias"][2:].any()
    assert found["q"][:, :, :2].all()


def test_rows_without_a_visible_key_as_nan() -> None:
    given = tensors(inputs_of((1, 2, 1, 4, 2, 3, 3), None))
    reference: Reference = conventions.attention_nan_rows
    output = reference(**given, causal=True)
    assert torch.equal(output.isnan().all(-1), (torch.arange(4) < 2).expand(1, 2, 4))
    assert torch.equal(output[:, :, 2:], PLAIN(**given, causal=True)[:, :, 2:])


@pytest.mark.parametrize("softcap", [None, 1.0])
@pytest.mark.parametrize("reference", REFERENCES)
def test_hidden_content_changes_no_bit(reference: Reference, softcap: float | None) -> None:
    given = tensors(inputs_of((1, 2, 1, 20, 20, 3, 3), 2), torch.float32)
    del given["bias"]
    given["mask"][:, 7] = False
    before = gradients(reference, given, softcap=softcap)
    # large enough for products to overflow
    given["k"][:, :, 7], given["v"][:, :, 7] = 3e38, -3e38
    after = gradients(reference, given, softcap=softcap)
    assert torch.equal(before[0], after[0])
    assert all(torch.equal(before[2][name], after[2][name]) for name in before[2])
    assert not after[2]["k"][:, :, 7].any()
    assert not after[2]["v"][:, :, 7].any()


@pytest.mark.parametrize("softcap", [None, 1.0])
def test_hidden_nan_changes_no_bit_and_visible_nan_comes_through(softcap: float | None) -> None:
    reference: Reference = conventions.attention_per_query
    given = tensors(inputs_of((1, 1, 1, 9, 9, 3, 3), None))
    before = reference(**given, causal=True, softcap=softcap)
    given["k"][:, :, 6, 1], given["v"][:, :, 6] = torch.nan, torch.inf
    after = reference(**given, causal=True, softcap=softcap)
    assert torch.equal(before[:, :, :6], after[:, :, :6])
    assert bool(after[:, :, 6:].isnan().all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reference", REFERENCES)
def test_dtypes_and_inputs_unchanged(reference: Reference, dtype: torch.dtype) -> None:
    given = tensors(inputs_of(SHAPES[1], 4), dtype)
    before = {name: x.clone() for name, x in given.items()}
    output, lse, found = gradients(reference, given, causal=True, softcap=2.0)
    assert (output.dtype, lse.dtype) == (dtype, torch.promote_types(dtype, torch.float32))
    assert {gradient.dtype for gradient in found.values()} == {dtype}
    assert {name: x.shape for name, x in found.items()} == {
        name: x.shape for name, x in given.items() if name in found
    }
    assert all(torch.equal(before[name], given[name]) for name in given)


@pytest.mark.parametrize(
    "shape",
    [(0, 2, 1, 3, 4, 2, 2), (1, 2, 1, 0, 4, 2, 2), (1, 2, 1, 3, 0, 2, 2), (1, 0, 1, 3, 4, 2, 2)],
)
@pytest.mark.parametrize("reference", [*REFERENCES, *VARIANTS.values()])
def test_empty(reference: Reference, shape: tuple[int, ...]) -> None:
    given = tensors(inputs_of(shape, 4))
    output, lse, found = gradients(reference, given, causal=True)
    assert (output.shape, lse.shape) == ((*shape[:2], shape[3], shape[6]), (*shape[:2], shape[3]))
    assert not any(gradient.any() for gradient in found.values())


def test_no_heads_at_all() -> None:
    given = tensors(inputs_of((2, 1, 1, 3, 4, 2, 2), None))
    given = {name: x[:, :0] for name, x in given.items()}
    assert all(reference(**given).shape == (2, 0, 3, 2) for reference in REFERENCES)


@pytest.mark.parametrize("reference", [*REFERENCES, *VARIANTS.values()])
def test_stays_on_the_device(reference: Reference) -> None:
    # a meta tensor has no values: whatever fetches one to the host raises
    given = tensors(inputs_of(SHAPES[2], 2))
    given = leaves({name: x.to("meta") for name, x in given.items()})
    output = reference(**given, causal=True, window=4, softcap=2.0)
    output.sum().backward()
    assert {x.grad.device.type for x in given.values() if x.grad is not None} == {"meta"}


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"q": (1, 2, 8)}, "expected four axes each"),
        ({"k": (1, 2, 5, 7)}, "expected b h t d, b g s d and b g s e"),
        ({"v": (1, 2, 4, 8)}, "expected b h t d, b g s d and b g s e"),
        ({"q": (1, 3, 4, 8)}, "the 3 query heads are no multiple of 2 key heads"),
        ({"mask": (3, 5)}, r"mask has shape \(3, 5\), which does not broadcast .* \(1, 2, 4, 5\)"),
        ({"bias": (1, 1, 2, 4, 5)}, "bias has shape"),
    ],
)
def test_refuses(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    fitting = {"q": (1, 2, 4, 8), "k": (1, 2, 5, 8), "v": (1, 2, 5, 8)}
    given = {name: torch.zeros(shape) for name, shape in {**fitting, **shapes}.items()}
    with pytest.raises(ValueError, match=message):
        PLAIN(**given)
