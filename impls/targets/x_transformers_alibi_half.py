"""ALiBi of x-transformers, its module cast with the model to half precision."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    import torch
    from torch import Tensor

TARGET = Target(
    name="x-transformers.alibi_half",
    dtypes=("bfloat16", "float16"),
    # distances meet slopes that are stored
    precision={"angles": "storage"},
    requires={"torch": "torch", "x_transformers": "x-transformers"},
)


def alibi_bias(
    n_heads: int,
    t: int,
    s: int,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """What the module adds to the scores of t queries and s keys; it keeps the longest."""
    bias: Tensor = _module(n_heads, dtype, device)(t, s)
    return bias


@lru_cache(maxsize=256)
def _module(n_heads: int, dtype: torch.dtype | None, device: torch.device | str | None) -> Any:
    from x_transformers.x_transformers import AlibiPositionalBias

    return AlibiPositionalBias(n_heads).to(device=device, dtype=dtype)
