"""LayerNorm, and batch normalisation beside it, in plain PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor


def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """Each row of `x: ... m` less its mean, over the root of its variance and eps, times `weight:
    m`, plus `bias: m`. Statistics are formed in float32 or wider, in two passes, and nothing is
    rounded before the result leaves."""
    wide = widened(x)
    centred = wide - wide.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return affine(centred * torch.rsqrt(variance + eps), weight, bias).to(x.dtype)


def layer_norm_outside(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """As `layer_norm`, with eps added to the root: (x - mean) / (sqrt(variance) + eps). A constant
    row has no gradient: the root has no derivative at 0."""
    wide = widened(x)
    centred = wide - wide.mean(dim=-1, keepdim=True)
    below = centred.square().mean(dim=-1, keepdim=True).sqrt() + eps
    return affine(centred / below, weight, bias).to(x.dtype)


def layer_norm_updated(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """As `layer_norm`, by Welford's update, channel by channel: the mean so far, and the squares of
    the differences to it."""
    wide = widened(x)
    mean = torch.zeros_like(wide[..., 0])
    squares = torch.zeros_like(mean)
    for count, column in enumerate(wide.unbind(-1), start=1):
        step = column - mean
        mean = mean + step / count
        squares = squares + step * (column - mean)
    variance = squares / wide.shape[-1]
    normalised = (wide - mean.unsqueeze(-1)) / (variance + eps).sqrt().unsqueeze(-1)
    return affine(normalised, weight, bias).to(x.dtype)


def batch_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """Batch normalisation in training, of `x: ... m`: mean and variance of each channel over all
    rows. Not a component: it is what `layer_norm` is not, as a row changes with the others."""
    rows = x.reshape(-1, x.shape[-1])
    normalised = layer_norm(rows.mT, eps=eps).mT.reshape(x.shape)
    return affine(normalised, weight, bias)


def widened(x: Tensor) -> Tensor:
    """In float32, or wider where `x` is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def affine(normalised: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Times the weight, plus the bias, each where it is given."""
    if weight is not None:
        normalised = normalised * weight
    return normalised if bias is None else normalised + bias
