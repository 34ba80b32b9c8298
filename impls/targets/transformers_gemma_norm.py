"""The norm of Gemma, whose gain is 1 + weight."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.gemma_norm",
    # it computes float64 in float32
    dtypes=("float32", "bfloat16", "float16"),
    conventions={"rms_norm.gain": "one-plus"},
    precision="strict",
    requires={"torch": "torch", "transformers": "transformers"},
)


def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """`Gemma3RMSNorm`."""
    import torch
    from torch.func import functional_call

    if weight is None:
        weight = torch.zeros(x.shape[-1], dtype=x.dtype, device=x.device)
    module = _module(x.shape[-1], eps)
    result: Tensor = functional_call(module, {"weight": weight}, (x,))
    return result


@lru_cache(maxsize=256)
def _module(channels: int, eps: float) -> Any:
    from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm

    return Gemma3RMSNorm(channels, eps=eps)
