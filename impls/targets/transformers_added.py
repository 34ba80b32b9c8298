"""transformers: the encoding that SpeechT5 adds to embeddings, read off with embeddings of 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnspec.impls.targets.table_rows import rows_of
from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.added", requires={"torch": "torch", "transformers": "transformers"}
)


def sinusoidal(positions: Tensor, dim: int) -> Tensor:
    """`SpeechT5ScaledPositionalEncoding` without dropout, as long as the largest position needs.
    Its scale is learned, and starts at 1."""
    import torch
    from transformers.models.speecht5.modeling_speecht5 import SpeechT5ScaledPositionalEncoding

    def table(rows: int) -> Tensor:
        made: Any = SpeechT5ScaledPositionalEncoding
        module = made(0.0, dim, max_len=rows).to(positions.device)
        embeddings = torch.zeros(1, rows, dim, device=positions.device)
        added: Tensor = module(embeddings)
        return added[0].detach()

    return rows_of(positions, dim, table)
