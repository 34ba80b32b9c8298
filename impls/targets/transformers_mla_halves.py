"""DeepSeek-V3's latent attention: `DeepseekV3Attention` of transformers, by torch's scaled dot
product attention.

Rotated channels leave in halves, first ones before second ones, for queries and cached keys alike,
so that scores don't tell; what is cached is put back into neighbours here. The norms of both
latents, which the contract does not have, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attnspec.impls.targets.transformers_latent import (
    Latent,
    attended,
    caching,
    made,
    masked,
    placed,
    rotary,
    sizes_of,
)
from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.mla_halves",
    # sines and cosines are formed in float32 whatever the dtype
    precision={"float64": {"tables": "float32"}},
    # heads are counted by what is left of a tensor's size, which nothing does not tell
    limits={"b": (1, 1024)},
    requires={"torch": "torch", "transformers": "transformers"},
)


def mla(
    x: Tensor,
    weights: Mapping[str, Tensor],
    *,
    n_heads: int,
    causal: bool = True,
    rope_base: float = 10000.0,
) -> Tensor:
    """Prefill without a cache."""
    sizes = sizes_of(x, weights, n_heads)
    tables = rotary("DeepseekV3", sizes, rope_base)(x, placed(0, x.shape[1], x))
    module = made("DeepseekV3", sizes, attention="sdpa")
    return attended(module, x, weights, n_heads, mask=masked(x, causal=causal), tables=tables)


def mla_cache(
    x: Tensor, weights: Mapping[str, Tensor], *, rope_base: float = 10000.0
) -> tuple[Tensor, Tensor]:
    """What the module puts into its cache, with pairs put back beside each other."""
    own = caching(weights)
    sizes = sizes_of(x, own, 1)
    tables = rotary("DeepseekV3", sizes, rope_base)(x, placed(0, x.shape[1], x))
    cache = Latent()
    attended(made("DeepseekV3", sizes, attention="sdpa"), x, own, 1,
             mask=masked(x, causal=True), tables=tables, cache=cache)  # fmt: skip
    latent, key = (part.squeeze(1) for part in cache.stored)
    pairs = key.reshape(*key.shape[:-1], 2, key.shape[-1] // 2).transpose(-1, -2)
    return latent, pairs.reshape(key.shape)


def mla_decode(
    x: Tensor,
    cache: tuple[Tensor, Tensor],
    weights: Mapping[str, Tensor],
    *,
    n_heads: int,
    rope_base: float = 10000.0,
) -> Tensor:
    """The newest token beside a cache that has it already."""
    sizes = sizes_of(x, weights, n_heads)
    latent, key = cache
    length = latent.shape[1]
    halves = key.reshape(*key.shape[:-1], key.shape[-1] // 2, 2).transpose(-1, -2)
    held = Latent((latent.unsqueeze(1), halves.reshape(key.shape).unsqueeze(1)))
    tables = rotary("DeepseekV3", sizes, rope_base)(x, placed(length - 1, length, x))
    module = made("DeepseekV3", sizes, attention="sdpa")
    return attended(module, x, weights, n_heads, mask=None, tables=tables, cache=held)
