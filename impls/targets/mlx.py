"""MLX, interleaved: `mx.softmax` and `mx.fast.rope`."""

from __future__ import annotations

from attnspec.impls.targets.mlx_calls import DTYPES, Array, rotated, weights
from attnspec.target import Target

TARGET = Target(name="mlx", dtypes=DTYPES, arrays="numpy", requires={"mlx": "mlx[cpu]"})


def softmax(x: Array, *, dim: int = -1) -> Array:
    """`mx.softmax`, with its sums in float32."""
    return weights(x, dim)


def rope(
    x: Array, positions: Array, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Array:
    """`mx.fast.rope` on adjacent pairs, which MLX calls traditional."""
    return rotated(x, positions, base, rotary_dim, traditional=True)
