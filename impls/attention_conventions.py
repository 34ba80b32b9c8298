"""Attention by other conventions than the default, each as good as any.

`attention_per_query` gives every query its own copy of keys and values, in which those that it
cannot see are zero: so NaN and infinity reach the rows that see them, and no other.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor

from attnspec.impls.attention import (
    Grouped,
    Result,
    Rules,
    finished_scores,
    grouped,
    returned,
    weighted,
    weights_of,
    widened,
)


def attention_by(
    rules: Rules,
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
    """As `attention`, by these rules."""
    call = grouped(
        q,
        k,
        v,
        mask=mask,
        bias=bias,
        causal=causal,
        window=window,
        softcap=softcap,
        scale=scale,
        rules=rules,
    )
    return returned(call, *weighted(call), return_lse=return_lse)


attention_top_left = partial(attention_by, Rules(top_left=True))
attention_total_window = partial(attention_by, Rules(total_window=True))
attention_tiled_heads = partial(attention_by, Rules(tiled_heads=True))
attention_nan_rows = partial(attention_by, Rules(nan_rows=True))


def attention_per_query(
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
    """As `attention`, with what a row does not see taken away from it, whatever it is."""
    call = grouped(
        q, k, v, mask=mask, bias=bias, causal=causal, window=window, softcap=softcap, scale=scale
    )
    keys, values = own_copies(call, call.k), own_copies(call, call.v)
    products = (widened(call.q).unsqueeze(-2) * keys).sum(-1)
    weights, lse = weights_of(finished_scores(call, products))
    output = (weights.unsqueeze(-1) * values).sum(-2)
    return returned(call, output, lse, return_lse=return_lse)


def own_copies(call: Grouped, x: Tensor) -> Tensor:
    """`b g 1 s d` to `b g r t s d`, zero where query t does not see s."""
    return widened(x).unsqueeze(-3).masked_fill(~call.visible.unsqueeze(-1), 0.0)
