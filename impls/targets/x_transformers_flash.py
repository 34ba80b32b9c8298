"""The attention of x-transformers over torch's own."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.impls.targets.x_transformers import LOW, as_low_as_hidden
from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="x-transformers.flash",
    # a row without keys is zero, as it says
    conventions={"gqa.head_order": "tiled"},
    # a scale of its own is multiplied into the queries
    precision={"bfloat16": {"reductions": "storage"}, "float16": {"reductions": "storage"}},
    requires={"torch": "torch", "x_transformers": "x-transformers"},
)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """`Attend(flash=True)`."""
    from attnspec.impls.targets.torch_masks import with_axes

    if bias is not None and (mask is not None or causal) and as_low_as_hidden(bias):
        raise NotImplementedError(LOW)

    output: Tensor = _attend(causal, scale)(
        q,
        k,
        v,
        mask=None if mask is None else with_axes(mask, 4),
        attn_bias=None if bias is None else with_axes(bias, 4),
    )[0]
    return output


@lru_cache(maxsize=64)
def _attend(causal: bool, scale: float | None) -> Any:
    from x_transformers.attend import Attend

    return Attend(causal=causal, scale=scale, flash=True)
