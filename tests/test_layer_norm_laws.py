"""The laws of layer_norm on functions that are in no catalogue: right ones of other styles, which
pass, and wrong ones, which don't."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnspec.impls import layer_norm as references
from attnspec.oracle import LAWS
from attnspec.subject import Subject
from attnspec.target import DTYPES
from tests import stubs
from tests.rejecting import rejections

Norm = Callable[..., Any]
Array = np.ndarray[Any, Any]
ROWS = {row.id.split(".")[1]: row for row in LAWS if row.component == "layer_norm"}
CONVENTIONS: dict[str, tuple[Norm, dict[str, str]]] = {
    "inside": (references.layer_norm, {}),
    "updated": (references.layer_norm_updated, {}),
    "outside": (references.layer_norm_outside, {"layer_norm.eps": "outside"}),
}


def subject(function: Norm, dtype: str = "float32", **declared: Any) -> Subject:
    return stubs.subject(function, "layer_norm", dtype=dtype, **declared)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_reference_keeps_every_law_under_its_convention(name: str, dtype: str) -> None:
    function, conventions = CONVENTIONS[name]
    narrow = {"m": (1, 33)} if name == "updated" else {}
    mine = subject(function, dtype, conventions=conventions, precision="strict", limits=narrow)
    assert rejections(mine, 6) == {}


# -- right ones of other styles --------------------------------------------------------------------


def folded(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> Tensor:
    """Weight and inverse root as one factor."""
    wide = references.widened(x)
    mean = wide.mean(-1, keepdim=True)
    factor = (wide.var(-1, correction=0, keepdim=True) + eps).pow(-0.5)
    if weight is not None:
        factor = factor * weight
    return references.affine((wide - mean) * factor, None, bias).to(x.dtype)


def by_matrices(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> Tensor:
    """The mean by a product with a vector of ones, the squares by one of a row with itself."""
    wide = references.widened(x)
    d = x.shape[-1]
    c = wide - torch.einsum("...c,c->...", wide, wide.new_full((d,), 1.0)).unsqueeze(-1) / d
    squares = torch.einsum("...c,...c->...", c, c).unsqueeze(-1)
    return references.affine(c / torch.sqrt(squares / d + eps), weight, bias).to(x.dtype)


def row_by_row(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> Tensor:
    rows = references.widened(x).reshape(-1, x.shape[-1])
    found = [references.layer_norm(row.flip(0), eps=eps).flip(0) for row in rows]
    hat = torch.stack(found) if found else rows
    return references.affine(hat.reshape(x.shape), weight, bias).to(x.dtype)


def by_halves(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> Tensor:
    """Mean and squares of two parts of the row, merged (Chan)."""
    wide, d = references.widened(x), x.shape[-1]
    parts = [part for part in torch.tensor_split(wide, 2, dim=-1) if part.shape[-1]]
    mean, squares, seen = wide[..., :1] * 0.0, wide[..., :1] * 0.0, 0
    for part in parts:
        size = part.shape[-1]
        own = part.mean(-1, keepdim=True)
        step = own - mean
        squares = squares + (part - own).square().sum(-1, keepdim=True)
        squares = squares + step.square() * (seen * size / (seen + size))
        mean = mean + step * (size / (seen + size))
        seen += size
    return references.affine((wide - mean) * torch.rsqrt(squares / d + eps), weight, bias).to(
        x.dtype
    )


def without_options(x: Tensor) -> Tensor:
    return references.layer_norm(x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("right", [folded, by_matrices, row_by_row, by_halves, without_options])
def test_right_functions_in_other_styles_pass(right: Norm, dtype: str) -> None:
    assert rejections(subject(right, dtype), 8) == {}


def in_numpy(
    x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5
) -> Array:
    kind = np.result_type(x.dtype, np.float32)
    c = x.astype(kind) - x.astype(kind).mean(axis=-1, keepdims=True)
    hat = c / np.sqrt(np.mean(c * c, axis=-1, keepdims=True) + kind.type(eps))
    hat = hat if weight is None else hat * weight.astype(kind)
    found: Array = (hat if bias is None else hat + bias.astype(kind)).astype(x.dtype)
    return found


def in_numpy_backward(
    upstream: Array,
    x: Array,
    *,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> tuple[Array, ...]:
    """The closed formula."""
    kind = np.result_type(x.dtype, np.float32)
    wide, above = x.astype(kind), upstream.astype(kind)
    c = wide - wide.mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt(np.mean(c * c, axis=-1, keepdims=True) + kind.type(eps))
    hat = c * r
    g = above if weight is None else above * weight.astype(kind)
    dx = r * (g - g.mean(axis=-1, keepdims=True) - hat * np.mean(g * hat, axis=-1, keepdims=True))
    found = [dx.astype(x.dtype)]
    rows = tuple(range(x.ndim - 1))
    if weight is not None:
        found.append((above * hat).sum(axis=rows).astype(x.dtype))
    if bias is not None:
        found.append(above.sum(axis=rows).astype(x.dtype))
    return tuple(found)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_numpy_with_the_closed_gradient_passes(dtype: str) -> None:
    beside = {"layer_norm_backward": in_numpy_backward}
    mine = subject(in_numpy, dtype, arrays="numpy", gradients=True, others=beside)
    assert rejections(mine, 8) == {}


def test_limits_narrow_what_is_drawn() -> None:
    def only_64(
        x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
    ) -> Tensor:
        assert x.shape[-1] == 64
        return references.layer_norm(x, weight, bias, eps=eps)

    assert rejections(subject(only_64, limits={"m": {64}}), 6) == {}


# -- wrong ones ------------------------------------------------------------------------------------


def _around(
    change: Callable[[Tensor, float], tuple[Tensor, float]],
) -> Norm:
    """The reference of other rows or another eps."""

    def wrong(
        x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
    ) -> Tensor:
        rows, small = change(x, eps)
        return references.layer_norm(rows, weight, bias, eps=small)

    return wrong


def bias_flipped(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> Tensor:
    return references.layer_norm(x, weight, None if bias is None else bias.flip(0), eps=eps)


def shifted_pass(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> Tensor:
    """One pass over rows less 512: right for some rows, no better for others."""
    wide = references.widened(x) - 512.0
    mean = wide.mean(-1, keepdim=True)
    spread = (wide.square().mean(-1, keepdim=True) - mean.square()).clamp_min(0.0)
    return references.affine((wide - mean) * torch.rsqrt(spread + eps), weight, bias).to(x.dtype)


def clamped(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> Tensor:
    hat = references.layer_norm(references.widened(x), eps=eps).clamp(-4.0, 4.0)
    return references.affine(hat, weight, bias).to(x.dtype)


def median_for_mean(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> Tensor:
    c = references.widened(x) - references.widened(x).median(-1, keepdim=True).values
    hat = c * torch.rsqrt(c.square().mean(-1, keepdim=True) + eps)
    return references.affine(hat, weight, bias).to(x.dtype)


def detached_statistics(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> Tensor:
    wide = references.widened(x)
    mean = wide.detach().mean(-1, keepdim=True)
    spread = (wide.detach() - mean).square().mean(-1, keepdim=True)
    return references.affine((wide - mean) * torch.rsqrt(spread + eps), weight, bias).to(x.dtype)


@pytest.mark.parametrize(
    ("wrong", "laws"),
    [
        (_around(lambda x, eps: (x, 2.0 * eps)), {"eps_read_off"}),
        (_around(lambda x, eps: (x, eps + 1e-7)), {"scale_invariance", "eps_read_off"}),
        (bias_flipped, {"channels_permuted", "affine_is_last"}),
        (shifted_pass, {"shift_invariance"}),
        (clamped, {"matches_oracle"}),
        (median_for_mean, {"moments", "matches_oracle"}),
        (
            detached_statistics,
            {"gradient_rows_vanish", "gradient_along_row", "gradients_match_oracle"},
        ),
    ],
)
def test_wrong_functions_of_no_catalogue_are_rejected(wrong: Norm, laws: set[str]) -> None:
    found = rejections(subject(wrong), 20)
    assert laws <= found.keys(), found
    assert all(found[name] >= 2 for name in laws), found


def test_where_only_gradients_are_wrong_no_other_law_complains() -> None:
    assert all(ROWS[name].gradients for name in rejections(subject(detached_statistics), 20))


# -- batch normalisation, the contrast -------------------------------------------------------------


def test_batch_normalisation_is_not_independent_of_the_batch() -> None:
    found = rejections(subject(references.batch_norm), 12)
    assert {"others_change_nothing", "row_alone"} <= found.keys()
