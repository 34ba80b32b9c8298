"""Wrong implementations of layer_norm: what a row is normalised by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.layer_norm import affine, widened

Functions = Callable[[], Mapping[str, Callable[..., Any]]]
Normalise = Callable[[Tensor, float], Tensor]
"""The normalised rows, from rows in float32 or wider and eps."""

TILE = 16


def by_normalised(normalise: Normalise) -> Functions:
    """With the right weight and bias after it, and one rounding at the end."""

    def layer_norm(
        x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
    ) -> Tensor:
        return affine(normalise(widened(x), eps), weight, bias).to(x.dtype)

    return lambda: {"layer_norm": layer_norm}


def by_inverse(inverse: Callable[[Tensor, float], Tensor]) -> Functions:
    """The right differences to the mean, times what comes of the variance and eps."""

    def normalise(x: Tensor, eps: float) -> Tensor:
        c = centred(x)
        return c * inverse(c.square().mean(dim=-1, keepdim=True), eps)

    return by_normalised(normalise)


def centred(x: Tensor) -> Tensor:
    """Rows less their mean."""
    return x - x.mean(dim=-1, keepdim=True)


def normalised(x: Tensor, eps: float, *axes: int) -> Tensor:
    """Normalised over some axes, by two passes."""
    c = x - x.mean(dim=axes, keepdim=True)
    return c * torch.rsqrt(c.square().mean(dim=axes, keepdim=True) + eps)


def _one_pass(x: Tensor, eps: float) -> Tensor:
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.square().mean(dim=-1, keepdim=True) - mean.square()
    return (x - mean) * torch.rsqrt(variance.clamp_min(0.0) + eps)


def _over_less_one(x: Tensor, eps: float) -> Tensor:
    c = centred(x)
    squares = c.square().sum(dim=-1, keepdim=True)
    return c * torch.rsqrt(squares / max(x.shape[-1] - 1, 1) + eps)


def _mean_not_subtracted(x: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)


def _mean_left_in(x: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(centred(x).square().mean(dim=-1, keepdim=True) + eps)


def _absolute(x: Tensor, eps: float) -> Tensor:
    c = centred(x)
    return c * torch.rsqrt(c.abs().mean(dim=-1, keepdim=True).square() + eps)


def _last_left_out(x: Tensor, eps: float) -> Tensor:
    kept = x[..., : max(x.shape[-1] - 1, 1)]
    mean = kept.mean(dim=-1, keepdim=True)
    variance = (kept - mean).square().mean(dim=-1, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + eps)


def _full_tiles(x: Tensor, eps: float) -> Tensor:
    width = x.shape[-1] // TILE * TILE or x.shape[-1]
    kept = x[..., :width]
    mean = kept.mean(dim=-1, keepdim=True)
    variance = (kept - mean).square().mean(dim=-1, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + eps)


def _missing(width: int) -> int:
    """Channels up to the next multiple of a tile."""
    return -width % TILE


def _padding_counted(x: Tensor, eps: float) -> Tensor:
    width = x.shape[-1]
    padded = torch.nn.functional.pad(x, (0, _missing(width)))
    return normalised(padded, eps, -1)[..., :width]


def _padding_in_variance(x: Tensor, eps: float) -> Tensor:
    width = x.shape[-1]
    mean = x.mean(dim=-1, keepdim=True)
    padded = torch.nn.functional.pad(x, (0, _missing(width))) - mean
    variance = padded.square().sum(dim=-1, keepdim=True) / width
    return (x - mean) * torch.rsqrt(variance + eps)


def _partial_tile_of_rows(x: Tensor, eps: float) -> Tensor:
    found = normalised(x, eps, -1).reshape(-1, x.shape[-1])
    rows = torch.arange(len(found), device=x.device)
    full = len(found) // 4 * 4 or len(found)
    return found.where(rows.unsqueeze(-1) < full, 0.0).reshape(x.shape)


def _over_batch(x: Tensor, eps: float) -> Tensor:
    rows = x.reshape(-1, x.shape[-1])
    return normalised(rows, eps, 0).reshape(x.shape)


def _over_tokens(x: Tensor, eps: float) -> Tensor:
    return normalised(x, eps, -2 if x.ndim > 1 else -1)


def _over_all(x: Tensor, eps: float) -> Tensor:
    return normalised(x, eps, *range(min(1, x.ndim - 1), x.ndim))


FAULTS = (
    Fault(
        id="layer_norm.one_pass",
        component="layer_norm",
        kind="K14",
        reason="forms the variance as the mean of the squares less the square of the mean, which "
        "leaves nothing of it where the mean is large",
        remedy="Subtract the mean first and square the differences, or update both (Welford).",
        law="layer_norm.shift_invariance",
        functions=by_normalised(_one_pass),
    ),
    Fault(
        id="layer_norm.over_d_minus_one",
        component="layer_norm",
        kind="K30",
        reason="divides the squares by d-1, as `std` and `var` do by default; the variance of a "
        "row is over d",
        remedy="Divide by d: unbiased=False, correction=0.",
        law="layer_norm.moments",
        functions=by_normalised(_over_less_one),
        report="FluxML/Flux.jl #529",
    ),
    Fault(
        id="layer_norm.no_root",
        component="layer_norm",
        kind="K30",
        reason="divides by the variance and eps, without the root",
        remedy="Take the square root of the variance and eps.",
        law="layer_norm.scale_invariance",
        functions=by_inverse(lambda variance, eps: 1.0 / (variance + eps)),
        report="131250208/TPlinker-joint-extraction #37",
    ),
    Fault(
        id="layer_norm.mean_not_subtracted",
        component="layer_norm",
        kind="K30",
        reason="divides by the root mean square and subtracts no mean: that is RMSNorm",
        remedy="Subtract the mean of the row first.",
        law="layer_norm.shift_invariance",
        functions=by_normalised(_mean_not_subtracted),
    ),
    Fault(
        id="layer_norm.mean_left_in",
        component="layer_norm",
        kind="K30",
        reason="divides the row itself by its deviation, so that the mean stays in",
        remedy="Divide the differences to the mean.",
        law="layer_norm.bounded",
        functions=by_normalised(_mean_left_in),
    ),
    Fault(
        id="layer_norm.absolute_deviation",
        component="layer_norm",
        kind="K30",
        reason="divides by the mean of the absolute differences in place of the root of their "
        "mean square",
        remedy="Square the differences, and take the root of the mean.",
        law="layer_norm.bounded",
        functions=by_normalised(_absolute),
    ),
    Fault(
        id="layer_norm.last_channel_left_out",
        component="layer_norm",
        kind="K25",
        reason="leaves the last channel out of mean and variance",
        remedy="Let the loop run over all d channels.",
        law="layer_norm.channels_permuted",
        functions=by_normalised(_last_left_out),
    ),
    Fault(
        id="layer_norm.full_tiles_only",
        component="layer_norm",
        kind="K25",
        reason="takes mean and variance over full tiles of sixteen channels; those past the last "
        "one are normalised, but not counted",
        remedy="Round the number of tiles up, and mask the channels beyond the end.",
        law="layer_norm.channels_permuted",
        functions=by_normalised(_full_tiles),
    ),
    Fault(
        id="layer_norm.padding_counted",
        component="layer_norm",
        kind="K25",
        reason="takes mean and variance over the zeros too that fill a row up to a multiple of "
        "sixteen",
        remedy="Divide by d, and leave the channels beyond it out of the variance.",
        law="layer_norm.moments",
        functions=by_normalised(_padding_counted),
    ),
    Fault(
        id="layer_norm.padding_in_variance",
        component="layer_norm",
        kind="K25",
        reason="subtracts the mean from the zeros too that fill a row up to a multiple of sixteen, "
        "so that the variance gets the square of the mean for each of them",
        remedy="Mask the differences to the mean, not only what is loaded.",
        law="layer_norm.shift_invariance",
        functions=by_normalised(_padding_in_variance),
    ),
    Fault(
        id="layer_norm.partial_tile_of_rows",
        component="layer_norm",
        kind="K25",
        reason="normalises full tiles of four rows; those past the last one stay zero",
        remedy="Round the number of tiles up, and mask the rows beyond the end.",
        law="layer_norm.matches_oracle",
        functions=by_normalised(_partial_tile_of_rows),
    ),
    Fault(
        id="layer_norm.over_batch",
        component="layer_norm",
        kind="K30",
        reason="normalises each channel over all rows, so that a token changes with the others: "
        "that is batch normalisation",
        remedy="Take mean and variance of each row over its channels.",
        law="layer_norm.others_change_nothing",
        functions=by_normalised(_over_batch),
    ),
    Fault(
        id="layer_norm.over_tokens",
        component="layer_norm",
        kind="K30",
        reason="normalises along the axis before the last, over the tokens of a sequence",
        remedy="Normalise along the last axis.",
        law="layer_norm.row_alone",
        functions=by_normalised(_over_tokens),
    ),
    Fault(
        id="layer_norm.over_all_tokens",
        component="layer_norm",
        kind="K30",
        reason="normalises over all axes but the first, tokens and channels together",
        remedy="Normalise over the last axis alone.",
        law="layer_norm.others_change_nothing",
        functions=by_normalised(_over_all),
    ),
)
