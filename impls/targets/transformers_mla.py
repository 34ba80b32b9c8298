"""DeepSeek-V2's latent attention: `DeepseekV2Attention` of transformers, by its eager attention.

Keys and values are built, in prefill and in decoding alike. The norms of both latents, which the
contract does not have, are left out.
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
    name="transformers.mla",
    # softmax and rotations are formed in float32 whatever the dtype
    dtypes=("float32", "bfloat16", "float16"),
    # two channels are viewed as one complex number, which must lie at an even place: after the
    # content of a head, and after the latent
    limits={"d": (2, 1024, 2), "c": (2, 1024, 2)},
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
    tables = rotary("DeepseekV2", sizes, rope_base)(x, placed(0, x.shape[1], x))
    module = made("DeepseekV2", sizes)
    return attended(module, x, weights, n_heads, mask=masked(x, causal=causal), tables=tables)


def mla_cache(
    x: Tensor, weights: Mapping[str, Tensor], *, rope_base: float = 10000.0
) -> tuple[Tensor, Tensor]:
    """What the module puts into its cache."""
    own = caching(weights)
    sizes = sizes_of(x, own, 1)
    tables = rotary("DeepseekV2", sizes, rope_base)(x, placed(0, x.shape[1], x))
    cache = Latent()
    attended(made("DeepseekV2", sizes), x, own, 1, mask=masked(x, causal=True), tables=tables,
             cache=cache)  # fmt: skip
    latent, key = cache.stored
    return latent.squeeze(1), key.squeeze(1)


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
    length = cache[0].shape[1]
    tables = rotary("DeepseekV2", sizes, rope_base)(x, placed(length - 1, length, x))
    held = Latent((cache[0].unsqueeze(1), cache[1].unsqueeze(1)))
    module = made("DeepseekV2", sizes)
    return attended(module, x, weights, n_heads, mask=None, tables=tables, cache=held)
