"""Rotary position embedding in four forms, and the rotation alone for given tables.

Channels are taken in pairs, and pair `i` of a token at position `m` turns in its plane by
`m * base ** (-2 i / r)`, with `r` the number of channels that turn: Su et al., *RoFormer*
(2021), equations 14, 15 and 34. All forms compute in float32, or in the dtype of `x` where that
is wider (angles included), and round once, when they return.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rope(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    """`x: b h n d`, `positions: n` or `b n` to `b h n d`; pairs are the channels 2i and 2i+1.

    Channels from `rotary_dim` on come back as they are. Raises ValueError for a width that is
    odd or too large, and for positions of another shape.
    """
    turning = turning_angles(x, positions, base, rotary_dim)
    return turned(x, turning.cos(), turning.sin())


def rope_half(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    """As `rope`, with the channels i and i + r/2 as pairs."""
    turning = turning_angles(x, positions, base, rotary_dim)
    return turned_halves(x, turning.cos(), turning.sin())


def rope_complex(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    """As `rope`, each pair a complex number that is multiplied by one of modulus 1."""
    turning = turning_angles(x, positions, base, rotary_dim).unsqueeze(-3)
    width = 2 * turning.shape[-1]
    wide = x[..., :width].to(turning.dtype)
    # built from two parts and not by a change of view, which some strides don't allow
    pairs = torch.complex(wide[..., 0::2], wide[..., 1::2])
    pairs = pairs * torch.polar(torch.ones_like(turning), turning)
    # and taken apart again, as the gradient of a change of view needs an upstream at even places
    return _joined(torch.stack((pairs.real, pairs.imag), dim=-1).flatten(-2), x, width)


def rope_matrix(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    """As `rope`, by the rotation matrix with its 2 x 2 blocks on the diagonal."""
    turning = turning_angles(x, positions, base, rotary_dim)
    matrix = rotation_matrix(turning).unsqueeze(-4)
    width = matrix.shape[-1]
    wide = x[..., :width].to(turning.dtype)
    product = torch.zeros_like(wide)
    # column by column: a matrix product may round its operands (TF32)
    for column in range(width):
        product = product + matrix[..., column] * wide[..., column, None]
    return _joined(product, x, width)


def rope_apply(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The rotation alone: `x: b h n d`, `cos`, `sin`: `n d/2` or `b n d/2` to `b h n d`.

    Pairs are the channels 2i and 2i+1. Raises ValueError for tables of another shape.
    """
    _check_tables(x, cos, sin)
    return turned(x, cos, sin)


def rope_apply_half(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """As `rope_apply`, with the channels i and i + d/2 as pairs."""
    _check_tables(x, cos, sin)
    return turned_halves(x, cos, sin)


def frequencies(width: int, base: float, *, dtype: torch.dtype, device: torch.device) -> Tensor:
    """`base ** (-2 i / width)` for each pair i: `width/2`."""
    exponents = torch.arange(0, width, 2, dtype=dtype, device=device) / width
    return torch.pow(base, -exponents)


def turning_angles(x: Tensor, positions: Tensor, base: float, rotary_dim: int | None) -> Tensor:
    """Angle of each token and pair, after a check of the arguments: `n r/2` or `b n r/2`."""
    width = turning_width(x, positions, rotary_dim)
    dtype = torch.promote_types(x.dtype, torch.float32)
    turns = frequencies(width, base, dtype=dtype, device=positions.device)
    return positions.to(dtype).unsqueeze(-1) * turns


def turning_width(x: Tensor, positions: Tensor, rotary_dim: int | None) -> int:
    """Number of channels that turn. Raises ValueError for arguments that don't fit together."""
    _check_heads(x)
    batch, length, channels = x.shape[0], x.shape[-2], x.shape[-1]
    if tuple(positions.shape) not in ((length,), (batch, length)):
        raise ValueError(
            f"positions have shape {tuple(positions.shape)}; expected ({length},) or "
            f"({batch}, {length}) for x of shape {tuple(x.shape)}"
        )
    width = channels if rotary_dim is None else rotary_dim
    if width % 2 or not 0 <= width <= channels:
        raise ValueError(
            f"rotary_dim is {width}; expected an even number from 0 to the {channels} channels of x"
        )
    return width


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Adjacent pairs turned, as many as the tables have columns; other channels as they are."""
    width = 2 * cos.shape[-1]
    wide, cos, sin = _widened(x[..., :width], cos, sin)
    first, second = wide[..., 0::2], wide[..., 1::2]
    pairs = (first * cos - second * sin, first * sin + second * cos)
    return _joined(torch.stack(pairs, -1).flatten(-2), x, width)


def turned_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """As `turned`, for pairs of channels that lie half of the turning width apart."""
    width = 2 * cos.shape[-1]
    wide, cos, sin = _widened(x[..., :width], cos, sin)
    first, second = wide[..., : width // 2], wide[..., width // 2 :]
    pairs = (first * cos - second * sin, first * sin + second * cos)
    return _joined(torch.cat(pairs, -1), x, width)


def rotation_matrix(turning: Tensor) -> Tensor:
    """`... r/2` angles to `... r r`: blocks ((cos, -sin), (sin, cos)) on the diagonal."""
    cos, sin = turning.cos(), turning.sin()
    blocks = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)
    diagonal = torch.eye(turning.shape[-1], dtype=turning.dtype, device=turning.device)
    # axes: pair and member of the row, pair and member of the column
    spread = blocks.unsqueeze(-2) * diagonal[:, None, :, None]
    return spread.flatten(-4, -3).flatten(-2)


def _widened(x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All three in the dtype of the computation, the tables with an axis for the heads."""
    dtype = torch.promote_types(torch.promote_types(x.dtype, cos.dtype), torch.float32)
    return x.to(dtype), cos.to(dtype).unsqueeze(-3), sin.to(dtype).unsqueeze(-3)


def _joined(turned_channels: Tensor, x: Tensor, width: int) -> Tensor:
    """The one rounding, and the channels that don't turn behind those that do."""
    if width == x.shape[-1]:
        return turned_channels.to(x.dtype)
    return torch.cat((turned_channels.to(x.dtype), x[..., width:]), -1)


def _check_heads(x: Tensor) -> None:
    if x.ndim != 4:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected four axes b h n d")
    if x.shape[-1] % 2:
        raise ValueError(f"x has {x.shape[-1]} channels; pairs need an even number")


def _check_tables(x: Tensor, cos: Tensor, sin: Tensor) -> None:
    _check_heads(x)
    batch, _, length, channels = x.shape
    allowed = ((length, channels // 2), (batch, length, channels // 2))
    for name, table in (("cos", cos), ("sin", sin)):
        if tuple(table.shape) not in allowed:
            raise ValueError(
                f"{name} has shape {tuple(table.shape)}; expected {allowed[0]} or {allowed[1]} "
                f"for x of shape {tuple(x.shape)}"
            )
