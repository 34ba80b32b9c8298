"""Multi-head attention, also with fewer heads of keys than of queries (MQA, GQA) and with RoPE.

Vaswani et al., *Attention Is All You Need* (2017), section 3.2.2; Shazeer, *Fast Transformer
Decoding* (2019); Ainslie et al., *GQA* (2023). Heads are the outer factor of packed columns.
Computes in float32, or in the dtype of `x` where that is wider, and rounds once, when it returns.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnspec.impls.attention import attention
from attnspec.impls.rope import rope


def multi_head_attention(
    x: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    *,
    n_heads: int,
    n_kv_heads: int | None = None,
    causal: bool = False,
    rope_base: float | None = None,
) -> Tensor:
    """`x: b n m`, `w_q: m (h d)`, `w_k: m (g d)`, `w_v: m (g e)`, `w_o: (h e) m` to `b n m`.

    With `rope_base` queries and keys turn by the positions 0 to n - 1; `n_kv_heads` is `n_heads`
    where it is left out. Raises ValueError for weights that don't fit together.
    """
    groups = n_heads if n_kv_heads is None else n_kv_heads
    check_shapes(x, w_q, w_k, w_v, w_o, n_heads, groups)
    dtype = torch.promote_types(x.dtype, torch.float32)
    wide = x.to(dtype)
    query = by_head(wide @ w_q.to(dtype), n_heads)
    key, value = (by_head(wide @ weight.to(dtype), groups) for weight in (w_k, w_v))
    if rope_base is not None:
        places = torch.arange(x.shape[1], device=x.device)
        query, key = (rope(part, places, base=rope_base) for part in (query, key))
    heads = attention(query, key, value, causal=causal)
    assert isinstance(heads, Tensor)
    return (side_by_side(heads) @ w_o.to(dtype)).to(x.dtype)


def by_head(x: Tensor, heads: int) -> Tensor:
    """`b n (h w)` to `b h n w`."""
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads).transpose(1, 2)


def side_by_side(heads: Tensor) -> Tensor:
    """`b h n w` to `b n (h w)`."""
    return heads.transpose(1, 2).flatten(2)


def check_shapes(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, n_heads: int, groups: int
) -> None:
    """Raises ValueError for weights that don't fit x, each other, or the numbers of heads."""
    m, queries, values = x.shape[-1], w_q.shape[-1], w_v.shape[-1]
    if groups < 1 or n_heads % groups or queries % n_heads or values % groups:
        raise ValueError(
            f"{n_heads} heads over {groups} of keys, w_q with {queries} columns, w_v with {values}:"
            " expected multiples"
        )
    due = (
        ("w_q", w_q, (m, queries)), ("w_k", w_k, (m, queries // n_heads * groups)),
        ("w_v", w_v, (m, values)), ("w_o", w_o, (values // groups * n_heads, m)),
    )  # fmt: skip
    for name, weight, shape in due:
        if tuple(weight.shape) != shape:
            raise ValueError(
                f"{name} has shape {tuple(weight.shape)}; expected {shape} for x of shape "
                f"{tuple(x.shape)}, {n_heads} heads and {groups} of keys"
            )
