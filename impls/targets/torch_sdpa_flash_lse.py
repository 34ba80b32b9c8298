"""The operator of torch's own tiled kernel, with the log-sum-exp that it saves."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnspec.impls.targets.torch_masks import both, lower_right, one_tensor, with_axes
from attnspec.impls.targets.torch_sdpa import FLASH
from attnspec.impls.targets.torch_sdpa_flash import as_kernel_wants
from attnspec.target import Target

OPERATOR = "_scaled_dot_product_flash_attention_for_cpu"

TARGET = Target(
    name="torch.sdpa_flash_lse",
    devices=("cpu",),
    gradients=False,
    # without the checks before it, it divides by zero
    limits={"b": (1, 8192), "h": (1, 8192), "t": (1, 8192)},
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
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """What autograd gets from the kernel."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    visible = both(mask, lower_right(q, k) if causal else None)
    if visible is not None and bias is None:
        # it takes masks as biases only
        bias = torch.zeros_like(visible, dtype=q.dtype)
    one = one_tensor(visible, bias)
    one = None if one is None else with_axes(one, 4)
    wanted = v.shape[-1]
    q, k, v = as_kernel_wants(q, k, v)
    operator: Any = getattr(torch.ops.aten, OPERATOR)
    output, lse = operator(q, k, v, attn_mask=one, scale=scale)
    output = output[..., :wanted]
    return (output, lse) if return_lse else output
