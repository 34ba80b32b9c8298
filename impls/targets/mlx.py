"""MLX, interleaved: `mx.softmax`, `mx.fast.rope`, `mx.fast.scaled_dot_product_attention`."""

from __future__ import annotations

from attnspec.impls.targets.mlx_attention import attended as attention
from attnspec.impls.targets.mlx_attention import gradients as attention_backward
from attnspec.impls.targets.mlx_calls import DTYPES, Array, rotated, weights
from attnspec.impls.targets.mlx_layer_norm import layer_norm, layer_norm_backward
from attnspec.impls.targets.mlx_rms import gradients as rms_norm_backward
from attnspec.impls.targets.mlx_rms import normalised as rms_norm
from attnspec.target import Target

__all__ = [
    "TARGET",
    "attention",
    "attention_backward",
    "layer_norm",
    "layer_norm_backward",
    "rms_norm",
    "rms_norm_backward",
    "rope",
    "softmax",
]

TARGET = Target(
    name="mlx",
    dtypes=DTYPES,
    conventions={"attention.empty_row": "unspecified"},
    arrays="numpy",
    requires={"mlx": "mlx[cpu]"},
)


def softmax(x: Array, *, dim: int = -1) -> Array:
    """`mx.softmax`, with its sums in float32."""
    return weights(x, dim)


def rope(
    x: Array, positions: Array, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Array:
    """`mx.fast.rope` on adjacent pairs, which MLX calls traditional."""
    return rotated(x, positions, base, rotary_dim, traditional=True)
