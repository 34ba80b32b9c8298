"""PyTorch's table lookup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="torch.embedding",
    # the gradient's running sums are rounded to the table's dtype
    precision={"bfloat16": {"reductions": "storage"}, "float16": {"reductions": "storage"}},
    requires={"torch": "torch"},
)


def learned_positions(positions: Tensor, table: Tensor) -> Tensor:
    """`torch.nn.functional.embedding`."""
    from torch.nn import functional

    return functional.embedding(positions, table)
