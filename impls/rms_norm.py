"""RMSNorm with eps in four places and the gain as it is or beside one.

A row is divided by its root mean square, and no mean is subtracted: Zhang and Sennrich, *Root Mean
Square Layer Normalization* (2019), equation 4, which has no eps. All forms compute in float32, or
in the dtype of `x` where that is wider, and round once, when they return.
"""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 16
"""Channels whose squares `rms_norm_by_blocks` adds up at a time."""


def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """`x: ... m`, `weight: m` to `... m`: x / sqrt(mean square + eps), times the weight.

    Raises ValueError for a weight of another shape.
    """
    wide = widened(x)
    return gained(wide * torch.rsqrt(mean_square(wide) + eps), weight, x)


def rms_norm_by_blocks(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """As `rms_norm`: squares are added up block by block, and the gain of a channel is multiplied
    by the row's factor before a channel is."""
    wide = widened(x)
    total = torch.zeros_like(wide[..., :1])
    for block in torch.split(wide, BLOCK, -1):
        total = total + (block * block).sum(-1, keepdim=True)
    factor = 1.0 / (total / x.shape[-1] + eps).sqrt()
    if weight is not None:
        factor = factor * checked(weight, x).to(wide.dtype)
    return (wide * factor).to(x.dtype)


def rms_norm_outside(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """As `rms_norm`, with eps added to the root: x / (root mean square + eps)."""
    wide = widened(x)
    return gained(wide / (mean_square(wide).sqrt() + eps), weight, x)


def rms_norm_clamped(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """As `rms_norm`, with eps in the place of mean squares that are smaller."""
    wide = widened(x)
    return gained(wide * torch.rsqrt(mean_square(wide).clamp_min(eps)), weight, x)


def rms_norm_without_eps(x: Tensor, weight: Tensor | None = None) -> Tensor:
    """As `rms_norm`, without eps: a row of zeros gives NaN."""
    wide = widened(x)
    return gained(wide / mean_square(wide).sqrt(), weight, x)


def rms_norm_one_plus(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """As `rms_norm`, times 1 + weight."""
    wide = widened(x)
    gain = None if weight is None else 1.0 + weight.to(wide.dtype)
    return gained(wide * torch.rsqrt(mean_square(wide) + eps), gain, x)


def widened(x: Tensor) -> Tensor:
    """In the dtype of the computation."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def mean_square(wide: Tensor) -> Tensor:
    """Of each row: `... m` to `... 1`."""
    return (wide * wide).mean(-1, keepdim=True)


def gained(normalised: Tensor, gain: Tensor | None, x: Tensor) -> Tensor:
    """The normalised value times the gain, in the dtype of `x`. Raises ValueError for a gain of
    another shape."""
    if gain is not None:
        normalised = normalised * checked(gain, x).to(normalised.dtype)
    return normalised.to(x.dtype)


def checked(weight: Tensor, x: Tensor) -> Tensor:
    """The weight, if it has one entry for each channel. Raises ValueError else."""
    if tuple(weight.shape) != (x.shape[-1],):
        raise ValueError(
            f"weight has shape {tuple(weight.shape)}; expected ({x.shape[-1]},) for x of shape "
            f"{tuple(x.shape)}"
        )
    return weight
