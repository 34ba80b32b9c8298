"""The decoder layer of Mistral, with attention step by step and a mask."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.impls.targets.transformers_layer import called, sizes_of
from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.mistral_layer",
    # its norms compute float64 in float32
    dtypes=("float32", "bfloat16", "float16"),
    conventions={"rope.layout": "half"},
    requires={"torch": "torch", "transformers": "transformers"},
)


def transformer_layer(
    x: Tensor,
    weights: Mapping[str, Tensor],
    *,
    n_heads: int,
    n_kv_heads: int | None = None,
    rope_base: float | None = 10000.0,
    eps: float = 1e-6,
) -> Tensor:
    """`MistralDecoderLayer`, with the mask that its model makes: the lowest number above the
    diagonal."""
    import torch

    asked = tuple(sizes_of(weights, n_heads, n_kv_heads).items())
    layer, rotary = _modules(asked, rope_base, eps)
    lowest = torch.full((x.shape[1], x.shape[1]), torch.finfo(x.dtype).min, device=x.device)
    mask = lowest.to(x.dtype).triu(1).expand(x.shape[0], 1, -1, -1)
    return called(layer, rotary, x, weights, mask)


@lru_cache(maxsize=256)
def _modules(asked: tuple[tuple[str, int], ...], base: float | None, eps: float) -> tuple[Any, Any]:
    from transformers import MistralConfig
    from transformers.models.mistral.modeling_mistral import (
        MistralDecoderLayer,
        MistralRotaryEmbedding,
    )

    sizes: dict[str, Any] = {**dict(asked), "attn_implementation": "eager"}
    width = sizes.pop("hidden_size")
    # a configuration wants a width that heads share, which its layers do not need
    config = MistralConfig(
        **sizes,
        hidden_size=sizes["num_attention_heads"] * sizes["head_dim"],
        rms_norm_eps=eps,
        rope_parameters={"rope_type": "default", "rope_theta": base or 10000.0},
        sliding_window=None,
    )
    config.hidden_size = width
    layer = MistralDecoderLayer(config, 0).eval()
    return layer, None if base is None else MistralRotaryEmbedding(config)
