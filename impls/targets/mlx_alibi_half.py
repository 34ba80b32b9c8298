"""ALiBi of MLX in half precision: `mlx.nn.ALiBi` for scores of that dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.impls.targets.mlx_alibi import matrix
from attnspec.impls.targets.mlx_calls import as_numpy
from attnspec.target import Target

Array = np.ndarray[Any, Any]

TARGET = Target(
    name="mlx.alibi_half",
    dtypes=("bfloat16", "float16"),
    # distances meet slopes that are stored
    precision={"angles": "storage"},
    arrays="numpy",
    gradients=False,
    requires={"mlx": "mlx[cpu]"},
)


def alibi_bias(n_heads: int, t: int, s: int, *, dtype: Any = np.float32) -> Array:
    """`ALiBi.create_alibi_matrix`."""
    import mlx.core as mx

    asked = np.dtype(dtype)
    return as_numpy(matrix(n_heads, t, s, getattr(mx, asked.name)), np.empty(0, asked))
