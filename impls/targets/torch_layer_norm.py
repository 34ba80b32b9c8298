"""PyTorch's own LayerNorm, with its gradients, in float32 and float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="torch.layer_norm",
    # in half precision its gradients are those of `torch.layer_norm_rows`
    dtypes=("float64", "float32"),
    requires={"torch": "torch"},
)


def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> Tensor:
    """`torch.nn.functional.layer_norm`."""
    from torch.nn import functional

    return functional.layer_norm(x, x.shape[-1:], weight, bias, eps)
