"""LayerNorm whose backward pass is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.layer_norm import Functions, centred
from attnspec.impls.faults.layer_norm_affine import by_whole
from attnspec.impls.faults.views import read_as_contiguous, used_up
from attnspec.impls.layer_norm import affine, widened

TILE = 16


@dataclass
class Saved:
    """What a backward pass reads, in float32 or wider; rows with all their leading axes."""

    upstream: Tensor
    x: Tensor
    hat: Tensor
    """The normalised rows."""
    inverse: Tensor
    """The inverse root of variance and eps."""
    weight: Tensor | None
    dtype: torch.dtype
    """Of the rows as they were given."""


Rule = Callable[[Saved], Tensor]
"""One gradient: that of x of its shape, that of weight or bias as `m`."""


def mean(values: Tensor) -> Tensor:
    """Of each row."""
    return values.mean(dim=-1, keepdim=True)


def weighted(s: Saved) -> Tensor:
    """The gradient of the normalised rows."""
    return affine(s.upstream, s.weight, None)


def over_rows(values: Tensor) -> Tensor:
    """Added up over all leading axes."""
    return values.reshape(-1, values.shape[-1]).sum(dim=0)


def of_x(s: Saved) -> Tensor:
    """The right gradient of the rows."""
    g = weighted(s)
    return s.inverse * (g - mean(g) - s.hat * mean(g * s.hat))


def of_weight(s: Saved) -> Tensor:
    """The right gradient of the weight."""
    return over_rows(s.upstream * s.hat)


def of_bias(s: Saved) -> Tensor:
    """The right gradient of the bias."""
    return over_rows(s.upstream)


Read = Callable[[Tensor], Tensor]


class _LayerNorm(torch.autograd.Function):
    """The right result, and gradients by rules."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float,
        rules: tuple[Rule, Rule, Rule], read: Read,
    ) -> Tensor:  # fmt: skip
        c = centred(widened(x))
        inverse = torch.rsqrt(mean(c.square()) + eps)
        ctx.save_for_backward(x, weight, bias, c * inverse, inverse)
        ctx.rest = rules, read
        return affine(c * inverse, weight, bias).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, hat, inverse = ctx.saved_tensors
        rules, read = ctx.rest
        wide = None if weight is None else weight.to(hat.dtype)
        above = read(upstream[0]).to(hat.dtype)
        saved = Saved(above, x.to(hat.dtype), hat, inverse, wide, x.dtype)
        given = (x, weight, bias)
        found = [
            None if t is None else r(saved).to(t.dtype) for t, r in zip(given, rules, strict=True)
        ]
        return (*found, None, None, None)


def unchanged(x: Tensor) -> Tensor:
    """What reads an upstream gradient rightly."""
    return x


def by_rules(
    x: Rule = of_x, weight: Rule = of_weight, bias: Rule = of_bias, read: Read = unchanged
) -> Functions:
    """A right LayerNorm with gradients by rules, right ones where none are given. `read` is how it
    reads the upstream gradient."""

    def whole(rows: Tensor, w: Tensor | None, b: Tensor | None, eps: float) -> Tensor:
        given = (rows, w, b, eps, (x, weight, bias), read)
        found: Tensor = _LayerNorm.apply(*given)  # type: ignore[no-untyped-call]
        return found

    return by_whole(whole)


def _without_mean(s: Saved) -> Tensor:
    g = weighted(s)
    return s.inverse * (g - s.hat * mean(g * s.hat))


def _mean_twice(s: Saved) -> Tensor:
    g = weighted(s)
    return s.inverse * (g - 2.0 * mean(g) - s.hat * mean(g * s.hat))


def _without_variance(s: Saved) -> Tensor:
    g = weighted(s)
    return s.inverse * (g - mean(g))


def _variance_halved(s: Saved) -> Tensor:
    g = weighted(s)
    return s.inverse * (g - mean(g) - 0.5 * s.hat * mean(g * s.hat))


def _variance_over_less_one(s: Saved) -> Tensor:
    g, d = weighted(s), s.hat.shape[-1]
    return s.inverse * (g - mean(g) - s.hat * mean(g * s.hat) * (d / max(d - 1, 1)))


def _last_block(s: Saved) -> Tensor:
    g, d = weighted(s), s.hat.shape[-1]
    start = (d - 1) // TILE * TILE
    along = (g * s.hat)[..., start:].sum(dim=-1, keepdim=True) / d
    return s.inverse * (g - mean(g) - s.hat * along)


def _as_two_axes(s: Saved) -> Tensor:
    g = weighted(s)
    axes = tuple(range(min(1, g.ndim - 1), g.ndim))
    middle, along = (v.mean(dim=axes, keepdim=True) for v in (g, g * s.hat))
    return s.inverse * (g - middle - s.hat * along)


def _of_normalised(s: Saved) -> Tensor:
    return s.inverse * weighted(s)


def _unweighted(s: Saved) -> Tensor:
    return of_x(Saved(s.upstream, s.x, s.hat, s.inverse, None, s.dtype))


def _without_eps(s: Saved) -> Tensor:
    # 1 / sqrt(variance), which eps had kept finite
    inverse = torch.rsqrt(mean(centred(s.x).square()))
    hat = centred(s.x) * inverse
    return of_x(Saved(s.upstream, s.x, hat, inverse, s.weight, s.dtype))


def _rounded(s: Saved, dtype: torch.dtype) -> Saved:
    """Mean and inverse root as they are saved in another dtype."""
    middle = mean(s.x).to(dtype).to(s.x.dtype)
    inverse = s.inverse.to(dtype).to(s.x.dtype)
    return Saved(s.upstream, s.x, (s.x - middle) * inverse, inverse, s.weight, s.dtype)


def _cube_in_storage(s: Saved) -> Tensor:
    g, c = weighted(s), s.hat / s.inverse
    cube = s.inverse.to(s.dtype).pow(3).to(s.inverse.dtype)
    return s.inverse * (g - mean(g)) - c * cube * mean(g * c)


def _entries_of_first(values: Tensor) -> Tensor:
    """Added up within the first entry of the leading axis alone."""
    return over_rows(values[:1] if values.ndim > 2 else values)


def _full_tiles(values: Tensor) -> Tensor:
    rows = values.reshape(-1, values.shape[-1])
    return rows[: len(rows) // TILE * TILE or len(rows)].sum(dim=0)


def _in_storage(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Row after row, each sum rounded."""
    total = torch.zeros_like(values.reshape(-1, values.shape[-1])[0]).to(dtype)
    for row in values.reshape(-1, values.shape[-1]):
        total = (total + row).to(dtype)
    return total


def _rows_of(values: Tensor) -> int:
    return max(values.reshape(-1, values.shape[-1]).shape[0], 1)


def _only_with_x() -> Mapping[str, Callable[..., Any]]:
    right = by_rules()()["layer_norm"]

    def layer_norm(
        x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
    ) -> Tensor:
        if not x.requires_grad:
            # as a kernel that skips its backward pass where the rows need none
            weight = None if weight is None else weight.detach() + 0.0 * weight
        found: Tensor = right(x, weight, bias, eps=eps)
        return found

    return {"layer_norm": layer_norm}


def _one_buffer() -> Mapping[str, Callable[..., Any]]:
    """Normalised rows are saved in one place, which the next call of the same shape overwrites."""
    kept: dict[tuple[object, ...], Tensor] = {}

    def from_buffer(s: Saved) -> Saved:
        hat = kept[s.hat.shape, s.hat.dtype, s.hat.device]
        return Saved(s.upstream, s.x, hat, s.inverse, s.weight, s.dtype)

    right = by_rules(lambda s: of_x(from_buffer(s)), lambda s: of_weight(from_buffer(s)))()[
        "layer_norm"
    ]

    def layer_norm(
        x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
    ) -> Tensor:
        c = centred(widened(x.detach()))
        hat = c * torch.rsqrt(mean(c.square()) + eps)
        kept[hat.shape, hat.dtype, hat.device] = hat
        found: Tensor = right(x, weight, bias, eps=eps)
        return found

    return {"layer_norm": layer_norm}


def _row(
    name: str, kind: str, reason: str, remedy: str, law: str, functions: Functions, **more: Any
) -> Fault:
    return Fault(
        id=f"layer_norm.gradient_{name}",
        component="layer_norm",
        kind=kind,
        reason=reason,
        remedy=remedy,
        law=f"layer_norm.{law}",
        functions=functions,
        **more,
    )


HALF = ("bfloat16", "float16")

FAULTS = (
    _row(
        "without_mean", "K22",
        "leaves out that the mean moves with every entry: the mean of the gradient isn't "
        "subtracted, so that rows don't add up to 0",
        "Subtract the mean of upstream times weight from it.",
        "gradient_rows_vanish",
        by_rules(_without_mean),
    ),
    _row(
        "mean_twice", "K22",
        "subtracts the mean of the row's gradient twice",
        "Subtract it once.",
        "gradient_rows_vanish",
        by_rules(_mean_twice),
        report="tenstorrent/tt-metal #53204",
    ),
    _row(
        "as_two_axes", "K22",
        "takes any input for two-dimensional, and its means over all axes but the first",
        "Take all leading axes for rows.",
        "gradient_rows_vanish",
        by_rules(_as_two_axes),
        report="flagos-ai/FlagGems #5392",
    ),
    _row(
        "of_constant_statistics", "K22",
        "takes mean and variance for constants, so that only the division is differentiated",
        "Add the terms of mean and variance.",
        "gradient_rows_vanish",
        by_rules(_of_normalised),
    ),
    _row(
        "without_variance", "K22",
        "leaves out that the variance moves with every entry",
        "Subtract the normalised row times the mean of upstream, weight and normalised row.",
        "gradient_along_row",
        by_rules(_without_variance),
    ),
    _row(
        "variance_halved", "K22",
        "subtracts half of the variance's term: the square's factor two is lost",
        "Take the term as a whole.",
        "gradient_along_row",
        by_rules(_variance_halved),
    ),
    _row(
        "variance_over_less_one", "K22",
        "divides the variance's term by d-1, the others by d",
        "Divide by d everywhere.",
        "gradient_along_row",
        by_rules(_variance_over_less_one),
    ),
    _row(
        "last_block_only", "K25",
        "counts only the last block of sixteen channels in the variance's term",
        "Accumulate over blocks in place of assigning.",
        "gradient_along_row",
        by_rules(_last_block),
        report="tenstorrent/tt-metal #53204",
    ),
    _row(
        "unweighted", "K22",
        "hands the upstream gradient on without the weight",
        "Multiply the upstream gradient by the weight first.",
        "gradients_match_oracle",
        by_rules(_unweighted),
    ),
    _row(
        "without_eps", "K23",
        "forms the inverse root anew, without eps",
        "Use the same inverse root in both passes.",
        "gradients_match_oracle",
        by_rules(_without_eps),
    ),
    _row(
        "missing", "K21",
        "gives the bias a gradient of zeros, so that it is never learned",
        "Add up the upstream gradient over all rows.",
        "gradients_match_oracle",
        by_rules(bias=lambda s: of_bias(s) * 0.0),
    ),
    _row(
        "statistics_in_bfloat16", "K13",
        "saves mean and inverse root in bfloat16 for the backward pass, although statistics are "
        "promised in float32",
        "Save them in float32, or declare the field statistics as storage.",
        "gradients_match_oracle",
        by_rules(
            lambda s: of_x(_rounded(s, torch.bfloat16)),
            lambda s: of_weight(_rounded(s, torch.bfloat16)),
        ),
    ),
    _row(
        "cube_overflows", "K13",
        "forms the cube of the inverse root in float16, where it is infinite for variances below "
        "0.0006",
        "Multiply by the inverse root last, or stay in float32.",
        "gradients_match_oracle",
        by_rules(_cube_in_storage),
        dtypes=("float16",),
    ),
    _row(
        "of_weight_by_input", "K22",
        "multiplies the upstream gradient by the rows as they came in, not as they were normalised",
        "Multiply by the normalised rows.",
        "gradients_adjoint",
        by_rules(weight=lambda s: over_rows(s.upstream * s.x)),
    ),
    _row(
        "of_weight_by_weight", "K22",
        "multiplies the upstream gradient by the weight in place of the normalised rows",
        "Multiply by the normalised rows.",
        "gradients_adjoint",
        by_rules(weight=lambda s: over_rows(weighted(s))),
        report="pytorch/pytorch #18233",
    ),
    _row(
        "of_weight_unnormalised", "K22",
        "multiplies by the rows less their mean, and forgets to divide them",
        "Multiply by the normalised rows.",
        "gradients_adjoint",
        by_rules(weight=lambda s: over_rows(s.upstream * s.hat / s.inverse)),
    ),
    _row(
        "of_first_entry", "K22",
        "adds up the gradients of weight and bias over the tokens of the first batch entry only",
        "Add up over all leading axes.",
        "gradient_sums_over_rows",
        by_rules(
            weight=lambda s: _entries_of_first(s.upstream * s.hat),
            bias=lambda s: _entries_of_first(s.upstream),
        ),
    ),
    _row(
        "mean_over_rows", "K22",
        "averages the gradients of weight and bias over the rows",
        "Add them up, and don't divide.",
        "gradient_sums_over_rows",
        by_rules(
            weight=lambda s: of_weight(s) / _rows_of(s.hat),
            bias=lambda s: of_bias(s) / _rows_of(s.hat),
        ),
    ),
    _row(
        "partial_tile_of_rows", "K25",
        "adds up full tiles of sixteen rows only",
        "Round the number of tiles up, and mask the rows beyond the end.",
        "gradient_sums_over_rows",
        by_rules(
            weight=lambda s: _full_tiles(s.upstream * s.hat),
            bias=lambda s: _full_tiles(s.upstream),
        ),
    ),
    _row(
        "summed_in_storage", "K13",
        "rounds the running sums of the gradients of weight and bias to half precision after each "
        "row, although it promises sums in float32",
        "Add up in float32 and round once, or declare the field reductions as storage.",
        "gradient_sums_over_rows",
        by_rules(
            weight=lambda s: _in_storage(s.upstream * s.hat, s.dtype),
            bias=lambda s: _in_storage(s.upstream, s.dtype),
        ),
        dtypes=HALF,
    ),
    _row(
        "upstream_ignored", "K22",
        "starts from ones in place of the upstream gradient",
        "Start from the upstream gradient.",
        "zero_upstream",
        by_rules(read=torch.ones_like),
    ),
    _row(
        "upstream_as_contiguous", "K26",
        "takes the strides of a fresh tensor for granted in the upstream gradient",
        "Use the upstream's strides, or copy it when it isn't contiguous.",
        "gradients_of_views",
        by_rules(read=read_as_contiguous),
    ),
    _row(
        "overwrites_upstream", "K20",
        "uses the upstream gradient's memory as a buffer in its backward pass",
        "Leave the upstream gradient as it is.",
        "gradient_leaves_output",
        by_rules(read=used_up),
    ),
    _row(
        "of_weight_only_with_x", "K21",
        "leaves the gradient of the weight out where the rows need none, as in training of the "
        "norms alone",
        "Decide for each argument by itself what it needs.",
        "gradients_of_some",
        _only_with_x,
    ),
    _row(
        "saved_in_one_buffer", "K29",
        "saves the normalised rows in one buffer, which the next call of the shape overwrites",
        "Save them with the call that they belong to.",
        "gradients_between_calls",
        _one_buffer,
    ),
)  # fmt: skip
