"""The norm without a gain of DeepSeek-V4."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.deepseek_norm",
    # its mean square is float32 for float64 too
    dtypes=("float32", "bfloat16", "float16"),
    # the inverse root is cast before it meets x
    precision={"statistics": "storage"},
    requires={"torch": "torch", "transformers": "transformers"},
)


def rms_norm(x: Tensor, *, eps: float = 1e-6) -> Tensor:
    """`DeepseekV4UnweightedRMSNorm`."""
    result: Tensor = _module(eps)(x)
    return result


@lru_cache(maxsize=64)
def _module(eps: float) -> Any:
    from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4UnweightedRMSNorm

    return DeepseekV4UnweightedRMSNorm(eps=eps)
