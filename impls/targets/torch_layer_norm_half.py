"""PyTorch's own LayerNorm forward, in half precision: float32 up to its result."""

from __future__ import annotations

from attnspec.impls.targets.torch_layer_norm import layer_norm
from attnspec.target import Target

__all__ = ["TARGET", "layer_norm"]

TARGET = Target(
    name="torch.layer_norm_half",
    dtypes=("bfloat16", "float16"),
    gradients=False,
    precision="strict",
    requires={"torch": "torch"},
)
