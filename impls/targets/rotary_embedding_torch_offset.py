"""rotary-embedding-torch by its method for queries and keys, which takes an offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnspec.impls.targets.rotary_embedding_torch import embedding
from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="rotary-embedding-torch.offset",
    precision={"float64": {"tables": "float32"}},
    # one call for every token
    limits={"b": (0, 4), "n": (1, 64), "d": (4, 1024)},
    requires={"torch": "torch", "rotary_embedding_torch": "rotary-embedding-torch"},
)


def rope(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    """`rotate_queries_or_keys` for one token at a time, its position as the offset."""
    import torch

    width = x.shape[-1] if rotary_dim is None else rotary_dim
    module = embedding(width, base, x.device)
    offsets = positions.expand(x.shape[0], x.shape[-2]).tolist()
    if not offsets:
        return x.clone()
    rows = [
        torch.cat(
            [
                module.rotate_queries_or_keys(row[:, token : token + 1].unsqueeze(0), offset=at)
                for token, at in enumerate(places)
            ],
            dim=-2,
        )
        for row, places in zip(x, offsets, strict=True)
    ]
    return torch.cat(rows)
