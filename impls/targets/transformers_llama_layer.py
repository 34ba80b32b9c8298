"""The decoder layer of Llama, with attention by torch's fused function."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.impls.targets.transformers_layer import called, sizes_of
from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.llama_layer",
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
    """`LlamaDecoderLayer`, without a mask: causality is an option of the fused function."""
    asked = tuple(sizes_of(weights, n_heads, n_kv_heads).items())
    layer, rotary = _modules(asked, rope_base, eps)
    return called(layer, rotary, x, weights, None)


@lru_cache(maxsize=256)
def _modules(asked: tuple[tuple[str, int], ...], base: float | None, eps: float) -> tuple[Any, Any]:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    sizes: dict[str, Any] = {**dict(asked), "attn_implementation": "sdpa"}
    width = sizes.pop("hidden_size")
    # a configuration wants a width that heads share, which its layers do not need
    config = LlamaConfig(
        **sizes,
        hidden_size=sizes["num_attention_heads"] * sizes["head_dim"],
        rms_norm_eps=eps,
        rope_parameters={"rope_type": "default", "rope_theta": base or 10000.0},
    )
    config.hidden_size = width
    layer = LlamaDecoderLayer(config, 0).eval()
    return layer, None if base is None else LlamaRotaryEmbedding(config)
