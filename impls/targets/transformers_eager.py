"""The eager attention of transformers, as Gemma 2 has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnspec.impls.targets.transformers_attention import module, visible
from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.eager",
    # its softmax is float32 for float64 too
    dtypes=("float32", "bfloat16", "float16"),
    # what is hidden gets the lowest finite score. A bias may be as low, so that beside one it
    # gets -inf here
    conventions={"attention.window": "total", "attention.empty_row": "unspecified"},
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
    softcap: float | None = None,
    scale: float | None = None,
) -> Tensor:
    """`eager_attention_forward`, with masks as its models make them."""
    import torch
    from transformers.models.gemma2 import modeling_gemma2

    from attnspec.impls.targets.torch_masks import both, one_tensor

    seen = both(mask, visible(q, k, causal, window, skip=False))
    hidden = -torch.inf
    if seen is not None and bias is None:
        bias, hidden = torch.zeros((), dtype=q.dtype, device=q.device), torch.finfo(q.dtype).min
    output: Tensor = modeling_gemma2.eager_attention_forward(
        module(q, k, causal=causal),
        q,
        k,
        v,
        one_tensor(seen, bias, hidden),
        scaling=q.shape[-1] ** -0.5 if scale is None else scale,
        softcap=softcap,
    )[0]
    return output.transpose(1, 2)
