"""The rotation of DeepSeek-V2's position stream, by complex numbers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.deepseek_complex",
    # float64 channels turn in float32 too
    dtypes=("float32", "bfloat16", "float16"),
    # its backward pass raises for an upstream that doesn't lie at even places
    gradients=False,
    # it raises where there is nothing to turn
    limits={"b": (1, 64), "h": (1, 64), "n": (1, 1024)},
    requires={"torch": "torch", "transformers": "transformers"},
)


def rope(x: Tensor, positions: Tensor, *, base: float = 10000.0) -> Tensor:
    """`apply_rotary_emb` with the angles of a rotary module made from a config.

    It raises for pairs that don't lie side by side in memory, from an even place on; the model
    hands it no others.
    """
    import torch
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import apply_rotary_emb

    turning = _deepseek(x.shape[-1], base)(
        x, positions if positions.ndim == 2 else positions.unsqueeze(0)
    )
    dense = x.clone(memory_format=torch.contiguous_format)
    result: Tensor = apply_rotary_emb(dense, dense, turning)[0]
    return result


@lru_cache(maxsize=64)
def _deepseek(channels: int, base: float) -> Any:
    from transformers import DeepseekV2Config
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2RotaryEmbedding

    parameters = {"rope_type": "default", "rope_theta": base}
    config = DeepseekV2Config(qk_rope_head_dim=channels, rope_parameters=parameters)
    return DeepseekV2RotaryEmbedding(config)
