"""`scaled_dot_product_attention` by torch's own tiled kernel, which CPUs have too."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention

from attnspec.impls.targets.torch_masks import with_axes
from attnspec.impls.targets.torch_sdpa import FLASH, sdpa_options
from attnspec.target import Target

TARGET = Target(
    name="torch.sdpa_flash",
    # on a GPU the same name is another kernel, with other limits
    devices=("cpu",),
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
    """The backend FLASH_ATTENTION."""
    if bias is not None and bias.requires_grad:
        raise NotImplementedError("the flash kernel has no gradient of its mask")
    options = sdpa_options(q, k, mask, bias, causal)
    if mask is not None or bias is not None:
        # it takes masks of two or of four axes
        options["attn_mask"] = with_axes(options["attn_mask"], 4)
    options["scale"] = q.shape[-1] ** -0.5 if scale is None else scale
    grouped, wanted = q.shape[1] != k.shape[1], v.shape[-1]
    q, k, v = as_kernel_wants(q, k, v)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        output = scaled_dot_product_attention(q, k, v, enable_gqa=grouped, **options)
    return output[..., :wanted]


def as_kernel_wants(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of one head size, the smaller one filled up with zeros, as DeepSeek's models do it for
    such kernels; and with their last axis contiguous in memory."""
    width = max(q.shape[-1], v.shape[-1])
    filled = (pad(x, (0, width - x.shape[-1])) if x.shape[-1] < width else x for x in (q, k, v))
    q, k, v = (x if x.stride(-1) == 1 else _copied(x) for x in filled)
    return q, k, v


def _copied(x: Tensor) -> Tensor:
    # an axis of size 1 is contiguous whatever its stride, so that `contiguous` would do nothing,
    # but the kernel is only chosen where the stride is 1
    return x.clone(memory_format=torch.contiguous_format)
