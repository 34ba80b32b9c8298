"""`torch.nn.functional.scaled_dot_product_attention` over a cache, with a mask of each entry's
valid slots."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnspec.impls.targets.torch_sdpa import FLASH
from attnspec.target import Target

TARGET = Target(
    name="torch.sdpa_decode",
    precision={"bfloat16": FLASH, "float16": FLASH},
    requires={"torch": "torch"},
)


def decode_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    lengths: Tensor,
    *,
    window: int | None = None,
    scale: float | None = None,
) -> Tensor:
    """It weighs what a mask hides by zero, so that NaN there has to be replaced first."""
    slots = torch.arange(k_cache.shape[2], device=q.device)
    ends = lengths[:, None]
    valid = slots < ends
    shown = valid if window is None else valid & (slots >= ends - 1 - window)
    held = valid[:, None, :, None]
    k, v = (torch.where(held, cache, 0) for cache in (k_cache, v_cache))
    grouped = q.shape[1] != k.shape[1]
    mask = shown[:, None, None]
    return scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=grouped)
