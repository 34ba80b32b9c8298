"""PyTorch's own LayerNorm with its gradients in half precision, on the CPU. It saves mean and
inverse root in half precision for the backward pass, which is declared; and it stores the running
sums of the gradients of weight and bias there after every row, of which they stop growing."""

from __future__ import annotations

from attnspec.impls.targets.torch_layer_norm import layer_norm
from attnspec.target import Target

__all__ = ["TARGET", "layer_norm"]

TARGET = Target(
    name="torch.layer_norm_rows",
    dtypes=("bfloat16", "float16"),
    precision={"statistics": "storage", "reductions": "storage"},
    requires={"torch": "torch"},
)
