"""The norm of T5."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.t5_norm",
    # its mean square is float32 for float64 too
    dtypes=("float32", "bfloat16", "float16"),
    requires={"torch": "torch", "transformers": "transformers"},
)


def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """`T5LayerNorm`, which is no LayerNorm."""
    import torch
    from torch.func import functional_call

    if weight is None:
        weight = torch.ones(x.shape[-1], dtype=x.dtype, device=x.device)
    module = _module(x.shape[-1], eps)
    result: Tensor = functional_call(module, {"weight": weight}, (x,))
    return result


@lru_cache(maxsize=256)
def _module(channels: int, eps: float) -> Any:
    from transformers.models.t5.modeling_t5 import T5LayerNorm

    made: Any = T5LayerNorm
    return made(channels, eps=eps)
