"""Attention over parts of the keys, each on its own, merged by the parts' log-sum-exps.

Kernels that decode one token divide its keys in this way: Dao et al., *Flash-Decoding for
long-context inference* (2023).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from attnspec.impls.attention import (
    Grouped,
    Result,
    grouped,
    returned,
    weighted,
    weights_of,
)
from attnspec.impls.attention_tiled import recomputed

PART = 16
"""Keys of a part: few, so that short sequences have several."""


def attention_split(
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
) -> Result:
    """As `attention`. A part of which a row sees nothing has weight 0 for that row."""
    call = grouped(
        q, k, v, mask=mask, bias=bias, causal=causal, window=window, softcap=softcap, scale=scale
    )
    output, lse = recomputed(call, forward_pass)
    return returned(call, output, lse, return_lse=return_lse)


def forward_pass(call: Grouped) -> tuple[Tensor, Tensor]:
    """Output `b g r t e`, rounded to storage, and log-sum-exp `b g r t`.

    Differentiated step by step, the parts' own row sums would cancel against each other, so the
    backward pass is that of the whole row.
    """
    output, lse = merged([weighted(part) for part in parts_of_keys(call)])
    return output.to(call.q.dtype), lse


def parts_of_keys(call: Grouped) -> Iterator[Grouped]:
    """The call on `PART` keys at a time; one part where there is no key."""
    keys = call.k.shape[-2]
    for start in range(0, max(keys, 1), PART):
        columns = slice(start, start + PART)
        bias = call.bias
        yield replace(
            call,
            k=call.k[..., columns, :],
            v=call.v[..., columns, :],
            visible=call.visible[..., columns],
            bias=bias if bias is None or bias.shape[-1] == 1 else bias[..., columns],
        )


def merged(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Outputs `... e` and log-sum-exps `...` of disjoint sets of keys, as of all their keys."""
    outputs, lses = zip(*parts, strict=True)
    # the weight of a part is the softmax of its log-sum-exp among all parts
    weights, lse = weights_of(torch.stack(lses, -1))
    return (weights.unsqueeze(-2) @ torch.stack(outputs, -2)).squeeze(-2), lse
