"""positional-encodings: `PositionalEncoding1D`, which fills a table from position 0 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnspec.impls.targets.table_rows import rows_of
from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor, dtype

TARGET = Target(
    name="positional-encodings",
    # angle, sine and cosine are formed in float32 for every dtype
    precision={"float64": {"tables": "float32"}},
    requires={"torch": "torch", "positional_encodings": "positional-encodings"},
)


def sinusoidal(positions: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """The encodings of a sequence up to the largest position, and of these the rows asked for."""
    import torch
    from positional_encodings.torch_encodings import PositionalEncoding1D

    def table(rows: int) -> Tensor:
        # made anew: one that is kept gives a second dtype what it gave the first
        sequence = torch.zeros(1, rows, dim, dtype=dtype, device=positions.device)
        encoded: Tensor = PositionalEncoding1D(dim).to(positions.device)(sequence)
        return encoded[0]

    return rows_of(positions, dim, table)
