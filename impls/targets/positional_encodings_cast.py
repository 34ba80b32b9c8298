"""positional-encodings inside of a model that is cast to the dtype: `PositionalEncoding1D`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnspec.impls.targets.table_rows import rows_of
from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor, dtype

TARGET = Target(
    name="positional-encodings.cast",
    precision={"float64": {"tables": "float32"}},
    requires={"torch": "torch", "positional_encodings": "positional-encodings"},
)


def sinusoidal(positions: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """As the target `positional-encodings`, with the module in the dtype of the sequence."""
    import torch
    from positional_encodings.torch_encodings import PositionalEncoding1D

    def table(rows: int) -> Tensor:
        sequence = torch.zeros(1, rows, dim, dtype=dtype, device=positions.device)
        encoded: Tensor = PositionalEncoding1D(dim).to(sequence)(sequence)
        return encoded[0]

    return rows_of(positions, dim, table)
