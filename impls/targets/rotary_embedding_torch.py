"""rotary-embedding-torch, its angles and its rotation called one after the other."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor, device

TARGET = Target(
    name="rotary-embedding-torch",
    # angle, sine and cosine are formed in float32 for every dtype; backward, what comes from each
    # of the two products is rounded to the dtype of x, and so is their sum
    precision={"tables": "float32"},
    # it raises ZeroDivisionError for two channels
    limits={"d": (4, 1024)},
    requires={"torch": "torch", "rotary_embedding_torch": "rotary-embedding-torch"},
)


def rope(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    """`apply_rotary_emb` with the angles of `RotaryEmbedding.forward` at the given positions."""
    from rotary_embedding_torch import apply_rotary_emb

    width = x.shape[-1] if rotary_dim is None else rotary_dim
    turning = embedding(width, base, x.device)(positions)
    if positions.ndim == 2:
        turning = turning.unsqueeze(1)
    result: Tensor = apply_rotary_emb(turning, x)
    return result


@lru_cache(maxsize=64)
def embedding(width: int, base: float, place: device) -> Any:
    """The library's module for one width and base."""
    from rotary_embedding_torch import RotaryEmbedding

    if width == 2:
        # it raises theta_rescale_factor to the power width / (width - 2), also where that is 1
        raise NotImplementedError("RotaryEmbedding(dim=2) divides by zero")
    return RotaryEmbedding(dim=width, theta=base).to(place)
