"""LayerNorm whose backward pass is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.layer_norm import Functions, centred
from attnspec.impls.faults.layer_norm_affine import by_whole
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


def row(
    name: str, kind: str, reason: str, remedy: str, law: str, functions: Functions, **more: Any
) -> Fault:
    """A fault of a backward pass, whose id and law are told by their last names."""
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


FAULTS = (
    row(
        "without_mean", "K22",
        "leaves out that the mean moves with every entry: the mean of the gradient isn't "
        "subtracted, so that rows don't add up to 0",
        "Subtract the mean of upstream times weight from it.",
        "gradient_rows_vanish",
        by_rules(_without_mean),
    ),
    row(
        "mean_twice", "K22",
        "subtracts the mean of the row's gradient twice",
        "Subtract it once.",
        "gradient_rows_vanish",
        by_rules(_mean_twice),
        report="tenstorrent/tt-metal #53204",
    ),
    row(
        "as_two_axes", "K22",
        "takes any input for two-dimensional, and its means over all axes but the first",
        "Take all leading axes for rows.",
        "gradient_rows_vanish",
        by_rules(_as_two_axes),
        report="flagos-ai/FlagGems #5392",
    ),
    row(
        "of_constant_statistics", "K22",
        "takes mean and variance for constants, so that only the division is differentiated",
        "Add the terms of mean and variance.",
        "gradient_rows_vanish",
        by_rules(_of_normalised),
    ),
    row(
        "without_variance", "K22",
        "leaves out that the variance moves with every entry",
        "Subtract the normalised row times the mean of upstream, weight and normalised row.",
        "gradient_along_row",
        by_rules(_without_variance),
    ),
    row(
        "variance_halved", "K22",
        "subtracts half of the variance's term: the square's factor two is lost",
        "Take the term as a whole.",
        "gradient_along_row",
        by_rules(_variance_halved),
    ),
    row(
        "variance_over_less_one", "K22",
        "divides the variance's term by d-1, the others by d",
        "Divide by d everywhere.",
        "gradient_along_row",
        by_rules(_variance_over_less_one),
    ),
    row(
        "last_block_only", "K25",
        "counts only the last block of sixteen channels in the variance's term",
        "Accumulate over blocks in place of assigning.",
        "gradient_along_row",
        by_rules(_last_block),
        report="tenstorrent/tt-metal #53204",
    ),
    row(
        "unweighted", "K22",
        "hands the upstream gradient on without the weight",
        "Multiply the upstream gradient by the weight first.",
        "gradients_match_oracle",
        by_rules(_unweighted),
    ),
    row(
        "without_eps", "K23",
        "forms the inverse root anew, without eps",
        "Use the same inverse root in both passes.",
        "gradients_match_oracle",
        by_rules(_without_eps),
    ),
    row(
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
    row(
        "cube_overflows", "K13",
        "forms the cube of the inverse root in float16, where it is infinite for variances below "
        "0.0006",
        "Multiply by the inverse root last, or stay in float32.",
        "gradients_match_oracle",
        by_rules(_cube_in_storage),
        dtypes=("float16",),
    ),
)  # fmt: skip
