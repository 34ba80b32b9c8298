"""The rotation of DeepSeek-V3's position stream: adjacent pairs go in, halves come out."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.deepseek",
    # angle, sine and cosine are formed in float32 for every dtype
    precision={"float64": {"tables": "float32"}},
    requires={"torch": "torch", "transformers": "transformers"},
)


def rope(x: Tensor, positions: Tensor, *, base: float = 10000.0) -> Tensor:
    """`apply_rotary_pos_emb_interleave` with the tables of a rotary module made from a config.

    All channels of the stream turn. The first ones of all pairs come back before the second ones,
    for queries and keys alike, so that scores don't tell; here they are put back.
    """
    from transformers.models.deepseek_v3 import modeling_deepseek_v3

    turned: Callable[..., Any] = modeling_deepseek_v3.apply_rotary_pos_emb_interleave
    tables = _deepseek(x.shape[-1], base)
    cos, sin = tables(x, positions if positions.ndim == 2 else positions.unsqueeze(0))
    halves: Tensor = turned(x, x, cos, sin)[0]
    pairs = halves.reshape(*x.shape[:-1], 2, x.shape[-1] // 2).transpose(-1, -2)
    return pairs.reshape(x.shape)


@lru_cache(maxsize=64)
def _deepseek(channels: int, base: float) -> Any:
    from transformers import DeepseekV3Config
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3RotaryEmbedding

    parameters = {"rope_type": "default", "rope_theta": base}
    config = DeepseekV3Config(qk_rope_head_dim=channels, rope_parameters=parameters)
    return DeepseekV3RotaryEmbedding(config)
