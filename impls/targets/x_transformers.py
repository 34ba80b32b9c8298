"""The attention of x-transformers in its plain form."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

LOW = "Attend hides by the lowest finite score, and this bias has numbers as low"

TARGET = Target(
    name="x-transformers",
    # its softmax is float32 for float64 too
    dtypes=("float32", "bfloat16", "float16"),
    conventions={
        "gqa.head_order": "tiled",
        # zero where the mask hides everything, not where causality does
        "attention.empty_row": "unspecified",
    },
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
    softcap: float | None = None,
    scale: float | None = None,
) -> Tensor:
    """`Attend`, which caps the scores after a bias."""
    from attnspec.impls.targets.torch_masks import with_axes

    if bias is not None and (mask is not None or causal) and as_low_as_hidden(bias):
        raise NotImplementedError(LOW)
    if softcap is not None and bias is not None:
        raise NotImplementedError("Attend adds a bias before its cap")
    output: Tensor = _attend(causal, softcap, scale)(
        q,
        k,
        v,
        mask=None if mask is None else with_axes(mask, 4),
        attn_bias=None if bias is None else with_axes(bias, 4),
    )[0]
    return output


def as_low_as_hidden(bias: Tensor) -> bool:
    """Whether a finite number of a bias is not told apart from what hides a key."""
    import torch

    return bool((bias.isfinite() & (bias < torch.finfo(bias.dtype).min / 4)).any())


@lru_cache(maxsize=64)
def _attend(causal: bool, softcap: float | None, scale: float | None) -> Any:
    from x_transformers.attend import Attend

    cap = {} if softcap is None else {"softclamp_logits": True, "logit_softclamp_value": softcap}
    return Attend(causal=causal, scale=scale, **cap)
