"""ALiBi of x-transformers, its module in float32."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.impls.targets.x_transformers import attention
from attnspec.target import Target

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["TARGET", "alibi_bias", "alibi_slopes", "attention", "module"]

TARGET = Target(
    name="x-transformers.alibi",
    dtypes=("float32",),
    conventions={"gqa.head_order": "tiled", "attention.empty_row": "unspecified"},
    requires={"torch": "torch", "x_transformers": "x-transformers"},
)


def alibi_slopes(n_heads: int, *, device: torch.device | str | None = None) -> Tensor:
    """The module's buffer of slopes."""
    slopes: Tensor = module(n_heads, device).slopes
    return slopes.flatten().clone()


def alibi_bias(n_heads: int, t: int, s: int, *, device: torch.device | str | None = None) -> Tensor:
    """What the module adds to the scores of t queries and s keys; it keeps the longest."""
    bias: Tensor = module(n_heads, device)(t, s)
    return bias


@lru_cache(maxsize=256)
def module(n_heads: int, device: torch.device | str | None) -> Any:
    """The library's module for one number of heads."""
    from x_transformers.x_transformers import AlibiPositionalBias

    return AlibiPositionalBias(n_heads).to(device)
