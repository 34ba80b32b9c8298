"""The attention of transformers over torch's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnspec.impls.targets.transformers_attention import module, visible
from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

# of the kernel that torch chooses
_FLASH = {"scores": "float32", "reductions": "storage"}

TARGET = Target(
    name="transformers.sdpa",
    conventions={"attention.window": "total"},
    # it raises RuntimeError where a result has no entries
    limits={"b": (1, 8192), "h": (1, 8192), "t": (1, 8192)},
    precision={"bfloat16": _FLASH, "float16": _FLASH},
    requires={"torch": "torch", "transformers": "transformers"},
)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
) -> Tensor:
    """`sdpa_attention_forward`, with masks as its models make them."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    from attnspec.impls.targets.torch_masks import both, one_tensor, with_axes

    seen = both(mask, visible(q, k, causal, window, skip=mask is None and bias is None))
    if bias is not None:
        # given both, it hides by the lowest finite number, which a bias may have too
        bias, seen, causal = one_tensor(seen, bias), None, False
    output: Tensor = sdpa_attention_forward(
        module(q, k, causal=causal),
        q,
        k,
        v,
        None if seen is None else with_axes(seen, 4),
        scaling=scale,
        is_causal=causal,
        position_bias=None if bias is None else with_axes(bias, 4),
    )[0]
    return output.transpose(1, 2)
