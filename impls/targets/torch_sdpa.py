"""`torch.nn.functional.scaled_dot_product_attention`, as torch dispatches it."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from attnspec.impls.targets.torch_masks import both, lower_right, one_tensor, with_axes
from attnspec.target import Target

FLASH = {"scores": "float32", "reductions": "storage"}
"""The kernel for CPUs keeps scores in float32, and weights in storage. Backward it adds the
gradients of the heads of a group, and of the blocks of a sequence, in storage."""

TARGET = Target(
    name="torch.sdpa",
    precision={"bfloat16": FLASH, "float16": FLASH},
    requires={"torch": "torch"},
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
    """Its own causality is `top-left`, so it has that only where queries are as many as keys."""
    options = sdpa_options(q, k, mask, bias, causal)
    grouped = q.shape[1] != k.shape[1]
    return scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=grouped, **options)


def sdpa_options(
    q: Tensor, k: Tensor, mask: Tensor | None, bias: Tensor | None, causal: bool
) -> dict[str, Any]:
    """What says who sees whom: it takes one tensor, or causality, but not both."""
    if causal and mask is None and bias is None:
        t, s = q.shape[-2], k.shape[-2]
        return {"is_causal": True} if t == s else {"attn_mask": causal_lower_right(t, s)}
    one = one_tensor(both(mask, lower_right(q, k) if causal else None), bias)
    # a mask of keys alone, which broadcasts by the documentation, raises IndexError
    return {} if one is None else {"attn_mask": with_axes(one, 2)}
