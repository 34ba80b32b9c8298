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
    requires={"mlx": "mlx[cpu]"},
)


def sinusoidal(positions: Array, dim: int, *, base: float = 10000.0) -> Array:
    """The module with its frequencies from 1 down to that of the last pair. Left to its defaults
    it goes down to 1/10000 at any width, and scales by sqrt(2/dim)."""
    import mlx.core as mx
    from mlx import nn

    slowest = base ** -((dim - 2) / dim)
    return np.array(nn.SinusoidalPositionalEncoding(dim, slowest, scale=1.0)(mx.array(positions)))
