"""ALiBi of MLX in float32: `mlx.nn.ALiBi`."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.impls.targets.mlx_attention import attended as attention
from attnspec.target import Target

__all__ = ["TARGET", "alibi_bias", "alibi_slopes", "attention", "matrix"]

Array = np.ndarray[Any, Any]

TARGET = Target(
    name="mlx.alibi",
    dtypes=("float32",),
    conventions={"attention.empty_row": "unspecified"},
    arrays="numpy",
    gradients=False,
    requires={"mlx": "mlx[cpu]"},
)


def alibi_slopes(n_heads: int) -> Array:
    """`ALiBi.create_alibi_slope`."""
    from mlx.nn.layers.positional_encoding import ALiBi

    return np.array(ALiBi.create_alibi_slope(n_heads)).reshape(n_heads)


def alibi_bias(n_heads: int, t: int, s: int) -> Array:
    """`ALiBi.create_alibi_matrix`."""
    import mlx.core as mx

    return np.array(matrix(n_heads, t, s, mx.float32))


def matrix(n_heads: int, t: int, s: int, dtype: Any) -> Any:
    """The matrix that `ALiBi.__call__` adds to the scores of t queries after s - t others."""
    from mlx.nn.layers.positional_encoding import ALiBi

    past = s - t
    return ALiBi.create_alibi_matrix(t + past, s, n_heads, past, dtype)[0]
