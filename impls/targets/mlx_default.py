"""MLX's softmax as it comes, without `precise`."""

from __future__ import annotations

from attnspec.impls.targets.mlx_calls import DTYPES, Array, weights
from attnspec.target import Target

TARGET = Target(name="mlx.default", dtypes=DTYPES, arrays="numpy", requires={"mlx": "mlx[cpu]"})


def softmax(x: Array, *, dim: int = -1) -> Array:
    """`mx.softmax` with its default `precise=False`."""
    return weights(x, dim, precise=False)
