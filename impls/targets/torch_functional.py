"""PyTorch's own operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(name="torch.functional", requires={"torch": "torch"})


def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """`torch.nn.functional.rms_norm`."""
    from torch.nn import functional

    return functional.rms_norm(x, x.shape[-1:], weight, eps)


def softmax(x: Tensor, *, dim: int = -1) -> Tensor:
    """`torch.nn.functional.softmax`."""
    from torch.nn import functional

    return functional.softmax(x, dim=dim)
