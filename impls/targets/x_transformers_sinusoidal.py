"""x-transformers: `ScaledSinusoidalEmbedding`, with a scale of 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="x-transformers.sinusoidal",
    conventions={"sinusoidal.layout": "concatenated"},
    requires={"torch": "torch", "x_transformers": "x-transformers"},
)


def sinusoidal(positions: Tensor, dim: int, *, base: float = 10000.0) -> Tensor:
    """The module at given positions. Its scale is learned, and starts at 1/sqrt(dim)."""
    from x_transformers.x_transformers import ScaledSinusoidalEmbedding

    embedding = ScaledSinusoidalEmbedding(dim, theta=base).to(positions.device)
    embedding.scale.data.fill_(1.0)
    encoded: Tensor = embedding(positions.unsqueeze(0), pos=positions)
    return encoded.detach()
