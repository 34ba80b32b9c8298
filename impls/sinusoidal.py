"""Sinusoidal positions in plain PyTorch: the reference, and two that come about in another way.

Source: document 004 (3.3, the formula).
"""

from __future__ import annotations

import torch
from torch import Tensor


def sinusoidal(
    positions: Tensor,
    dim: int,
    *,
    base: float = 10000.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Encodings of integer positions: `n` to `n dim`, sines and cosines by turns.

    Without `dtype` they are float32, without `device` where the positions are. Raises ValueError
    for positions with another number of axes, and for a `dim` that is no even number of channels.
    """
    turned = encoding_angles(positions, dim, base, dtype=dtype, device=device)
    pairs = torch.stack((turned.sin(), turned.cos()), dim=-1)
    return pairs.flatten(-2).to(dtype or torch.float32)


def sinusoidal_concatenated(
    positions: Tensor,
    dim: int,
    *,
    base: float = 10000.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """As `sinusoidal`, with all sines first and then all cosines."""
    turned = encoding_angles(positions, dim, base, dtype=dtype, device=device)
    return torch.cat((turned.sin(), turned.cos()), dim=-1).to(dtype or torch.float32)


def sinusoidal_complex(
    positions: Tensor,
    dim: int,
    *,
    base: float = 10000.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """As `sinusoidal`, each pair from the complex number of modulus 1 at its angle."""
    turned = encoding_angles(positions, dim, base, dtype=dtype, device=device)
    points = torch.view_as_real(torch.polar(torch.ones_like(turned), turned))
    # the real part is the cosine, which stands second
    return points.flip(-1).flatten(-2).to(dtype or torch.float32)


def encoding_angles(
    positions: Tensor,
    dim: int,
    base: float,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Angle of each position and pair, in float32 or wider: `n dim/2`. Raises ValueError for
    arguments that `sinusoidal` does not take."""
    if positions.ndim != 1:
        raise ValueError(f"positions have shape {tuple(positions.shape)}; expected one axis")
    if dim <= 0 or dim % 2:
        raise ValueError(f"dim is {dim}; pairs of channels need an even number, 2 or more")
    wide = torch.promote_types(dtype or torch.float32, torch.float32)
    place = positions.device if device is None else torch.device(device)
    return positions.to(place, wide).unsqueeze(-1) * encoding_frequencies(
        dim, base, dtype=wide, device=place
    )


def encoding_frequencies(
    dim: int, base: float, *, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """`base ** (-2 i / dim)` for each pair i: `dim/2`."""
    exponents = torch.arange(0, dim, 2, dtype=dtype, device=device) / dim
    return torch.pow(base, -exponents)
