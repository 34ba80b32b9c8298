"""`torch.nn.attention.flex_attention`, not compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, flex_attention

from attnspec.target import Target

TARGET = Target(
    name="torch.flex",
    devices=("cpu",),
    # on CPUs it has a forward pass only
    gradients=False,
    # it widens queries and keys, and rounds the weights
    precision={"bfloat16": {"scores": "float32"}, "float16": {"scores": "float32"}},
    # a number of heads, a head size, or an axis of size 1, that is new is traced anew
    limits={"b": (2, 4), "h": {4}, "g": {2, 4}, "t": (2, 64), "s": (2, 64), "d": {8}, "e": {8}},
    requires={"torch": "torch"},
)

Modified = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


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
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """All options are written as a change of one score."""
    output, aux = flex_attention(
        q,
        k,
        v,
        score_mod=_modified(*_tensors(q, k, mask, bias, causal, window), _cap(q, softcap)),
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
        return_aux=AuxRequest(lse=True),
    )
    lse: Any = aux.lse
    return (output, lse) if return_lse else output


def _tensors(
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    causal: bool,
    window: int | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Who may see whom, a bias, and how far a query looks back and ahead: as tensors, because
    every new number would be traced anew."""
    full = (*q.shape[:3], k.shape[2])
    visible = torch.ones(full, dtype=torch.bool) if mask is None else mask.expand(full).contiguous()
    added = torch.zeros(full, dtype=q.dtype) if bias is None else bias.expand(full).contiguous()
    reach = full[2] + full[3] if window is None else window
    return visible, added, torch.tensor([full[3] - full[2], reach, 0 if causal else reach])


def _cap(q: Tensor, softcap: float | None) -> Tensor | None:
    return None if softcap is None else torch.tensor(softcap, dtype=_wide(q))


def _wide(q: Tensor) -> torch.dtype:
    return torch.promote_types(q.dtype, torch.float32)


def _modified(visible: Tensor, bias: Tensor, reach: Tensor, cap: Tensor | None) -> Modified:
    """The change of one score of entry b, head h, query i and key j."""

    def modified(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if cap is not None:
            score = cap * torch.tanh(score / cap)
        back = i + reach[0] - j
        seen = visible[b, h, i, j] & (back <= reach[1]) & (-back <= reach[2])
        return torch.where(seen, score + bias[b, h, i, j], -torch.inf)

    return modified
