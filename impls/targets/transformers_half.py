"""The rotation of Llama, and of GPT-NeoX where only a part of the channels turns."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.half",
    conventions={"rope.layout": "half"},
    # angle, sine and cosine are formed in float32 for every dtype
    precision={"float64": {"tables": "float32"}},
    requires={"torch": "torch", "transformers": "transformers"},
)


def rope(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    """`apply_rotary_pos_emb` with the tables of a rotary module made from a config."""
    from transformers.models.gpt_neox import modeling_gpt_neox
    from transformers.models.llama import modeling_llama

    channels = x.shape[-1]
    if rotary_dim is None:
        tables, turned = _llama(channels, base), modeling_llama.apply_rotary_pos_emb
    else:
        tables = _gpt_neox(channels, base, rotary_dim)
        turned = modeling_gpt_neox.apply_rotary_pos_emb
    cos, sin = tables(x, positions if positions.ndim == 2 else positions.unsqueeze(0))
    result: Tensor = turned(x, x, cos, sin)[0]
    return result


@lru_cache(maxsize=64)
def _llama(channels: int, base: float) -> Any:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    parameters = {"rope_type": "default", "rope_theta": base}
    config = LlamaConfig(
        hidden_size=channels, num_attention_heads=1, head_dim=channels, rope_parameters=parameters
    )
    return LlamaRotaryEmbedding(config)


@lru_cache(maxsize=64)
def _gpt_neox(channels: int, base: float, rotary_dim: int) -> Any:
    from transformers import GPTNeoXConfig
    from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding

    parameters = {
        "rope_type": "default",
        "rope_theta": base,
        # the model cuts channels * factor down to an integer
        "partial_rotary_factor": min(1.0, (rotary_dim + 0.5) / channels),
    }
    config = GPTNeoXConfig(hidden_size=channels, num_attention_heads=1, rope_parameters=parameters)
    return GPTNeoXRotaryEmbedding(config)
