"""PyTorch's own operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(name="torch.functional", requires={"torch": "torch"})


def softmax(x: Tensor, *, dim: int = -1) -> Tensor:
    """`torch.nn.functional.softmax`."""
    from torch.nn import functional

    return functional.softmax(x, dim=dim)
