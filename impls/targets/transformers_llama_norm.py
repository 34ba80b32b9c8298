"""The norm of Llama, which most models of transformers have copied."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.llama_norm",
    # it computes float64 in float32
    dtypes=("float32", "bfloat16", "float16"),
    requires={"torch": "torch", "transformers": "transformers"},
)


def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """`LlamaRMSNorm`, which casts before it multiplies by the gain."""
    import torch
    from torch.func import functional_call

    if weight is None:
        weight = torch.ones(x.shape[-1], dtype=x.dtype, device=x.device)
    module = _module(x.shape[-1], eps)
    result: Tensor = functional_call(module, {"weight": weight}, (x,))
    return result


@lru_cache(maxsize=256)
def _module(channels: int, eps: float) -> Any:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    return LlamaRMSNorm(channels, eps=eps)
