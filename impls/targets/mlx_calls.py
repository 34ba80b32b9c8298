"""Calls of MLX on NumPy arrays."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

DTYPES = ("float32", "bfloat16", "float16")
"""MLX has float64 arrays on the CPU, but evaluates exp, sin and cos on them in float32."""


def weights(x: Array, dim: int, *, precise: bool = True) -> Array:
    """Softmax along `dim`. Without `precise`, half-precision rows are summed in storage."""
    import mlx.core as mx

    return as_numpy(mx.softmax(mx.array(x), axis=dim, precise=precise), x)


def rotated(
    x: Array, positions: Array, base: float, rotary_dim: int | None, *, traditional: bool
) -> Array:
    """RoPE of `x: b h n d`. MLX counts positions up from an offset, of which it takes one for
    each batch entry: so every token becomes an entry of its own, of length 1."""
    import mlx.core as mx

    batch, heads, length, channels = x.shape
    tokens = np.ascontiguousarray(x.transpose(0, 2, 1, 3))
    offsets = np.broadcast_to(positions, (batch, length)).reshape(-1).astype(np.int32)
    turned = mx.fast.rope(
        mx.array(tokens.reshape(batch * length, heads, 1, channels)),
        channels if rotary_dim is None else rotary_dim,
        traditional=traditional,
        base=base,
        scale=1.0,
        offset=mx.array(offsets),
    )
    return as_numpy(turned, x).reshape(batch, length, heads, channels).transpose(0, 2, 1, 3)


def as_numpy(result: Any, like: Array) -> Array:
    """A copy as NumPy array. MLX exports no bfloat16, but the bits."""
    import mlx.core as mx

    if like.dtype == ml_dtypes.bfloat16:
        return np.array(result.view(mx.uint16)).view(ml_dtypes.bfloat16)
    return np.array(result)
