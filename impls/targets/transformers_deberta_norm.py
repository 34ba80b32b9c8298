"""The LayerNorm of DeBERTa, which transformers writes out."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.deberta_norm",
    # it computes float64 in float32
    dtypes=("float32", "bfloat16", "float16"),
    requires={"torch": "torch", "transformers": "transformers"},
)


def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> Tensor:
    """`DebertaLayerNorm`, which casts before it multiplies by the weight."""
    from torch.func import functional_call

    given = {
        "weight": x.new_ones(x.shape[-1]) if weight is None else weight,
        "bias": x.new_zeros(x.shape[-1]) if bias is None else bias,
    }
    result: Tensor = functional_call(_module(x.shape[-1], eps), given, (x,))
    return result


@lru_cache(maxsize=256)
def _module(channels: int, eps: float) -> Any:
    from transformers.models.deberta.modeling_deberta import DebertaLayerNorm

    return DebertaLayerNorm(channels, eps)  # type: ignore[no-untyped-call]
