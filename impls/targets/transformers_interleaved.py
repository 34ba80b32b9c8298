"""The rotation of GLM: adjacent pairs, of all channels or a part of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.interleaved",
    # angle, sine and cosine are formed in float32 for every dtype
    precision={"float64": {"tables": "float32"}},
    requires={"torch": "torch", "transformers": "transformers"},
)


def rope(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    """`apply_rotary_pos_emb` with the tables of a rotary module made from a config."""
    from transformers.models.glm import modeling_glm

    turned: Callable[..., Any] = modeling_glm.apply_rotary_pos_emb
    channels = x.shape[-1]
    tables = _glm(channels, base, channels if rotary_dim is None else rotary_dim)
    cos, sin = tables(x, positions if positions.ndim == 2 else positions.unsqueeze(0))
    result: Tensor = turned(x, x, cos, sin)[0]
    return result


@lru_cache(maxsize=64)
def _glm(channels: int, base: float, rotary_dim: int) -> Any:
    from transformers import GlmConfig
    from transformers.models.glm.modeling_glm import GlmRotaryEmbedding

    parameters = {
        "rope_type": "default",
        "rope_theta": base,
        # the model cuts channels * factor down to an integer
        "partial_rotary_factor": min(1.0, (rotary_dim + 0.5) / channels),
    }
    config = GlmConfig(
        hidden_size=channels,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=channels,
        rope_parameters=parameters,
    )
    return GlmRotaryEmbedding(config)
