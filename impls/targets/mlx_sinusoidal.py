"""MLX: `nn.SinusoidalPositionalEncoding`."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.target import Target

Array = np.ndarray[Any, Any]

TARGET = Target(
    name="mlx.sinusoidal",
    conventions={"sinusoidal.layout": "concatenated"},
    arrays="numpy",
    # the exponent comes from a difference of logarithms, with an error of the larger one: float32
    # angles allow it in narrow rows with this base
    limits={"dim": (2, 80)},
    requires={"mlx": "mlx[cpu]"},
)


def sinusoidal(positions: Array, dim: int) -> Array:
    """The module with the frequencies of the base 10000."""
    return encoded(positions, dim, 10000.0)


def encoded(positions: Array, dim: int, base: float) -> Array:
    """The module with its frequencies from 1 down to that of the last pair. Left to its defaults
    it goes down to 1/10000 at any width, and scales by sqrt(2/dim)."""
    import mlx.core as mx
    from mlx.nn.layers import positional_encoding

    slowest = base ** -((dim - 2) / dim)
    module = positional_encoding.SinusoidalPositionalEncoding(dim, slowest, scale=1.0)
    return np.array(module(mx.array(positions)))
