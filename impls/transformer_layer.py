"""A Llama-style layer: two pre-norm residual blocks, attention and a gated feed-forward network.

RMSNorm, causal attention with rotated queries and keys and, where asked for, fewer key heads than
query heads, a sum; RMSNorm, (silu(x w_gate) * (x w_up)) w_down, a sum: Touvron et al., *LLaMA*
(2023), section 2.2, and Shazeer, *GLU Variants Improve Transformer* (2020), equation 6. Computes in
float32, or in the dtype of `x` where that is wider, and rounds once, when it returns.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from attnspec.impls.attention import attention
from attnspec.impls.rms_norm import rms_norm
from attnspec.impls.rope import rope

Weights = Mapping[str, Tensor]
"""`w_q: m (h d)`, `w_k: m (g d)`, `w_v: m (g e)`, `w_o: (h e) m`, `norm_attention: m`,
`norm_feed_forward: m`, `w_gate: m f`, `w_up: m f`, `w_down: f m`."""


def transformer_layer(
    x: Tensor,
    weights: Weights,
    *,
    n_heads: int,
    n_kv_heads: int | None = None,
    rope_base: float | None = 10000.0,
    eps: float = 1e-6,
) -> Tensor:
    """`x: b n m` to `b n m`; tokens sit at the positions 0 to n - 1.

    Without `rope_base` nothing is rotated; `n_kv_heads` is `n_heads` where it is left out. Raises
    ValueError for weights that don't fit together.
    """
    groups = n_heads if n_kv_heads is None else n_kv_heads
    check_shapes(x, weights, n_heads, groups)
    dtype = torch.promote_types(x.dtype, torch.float32)
    wide, w = x.to(dtype), {name: weight.to(dtype) for name, weight in weights.items()}
    normed = rms_norm(wide, w["norm_attention"], eps=eps)
    query, key = by_head(normed @ w["w_q"], n_heads), by_head(normed @ w["w_k"], groups)
    if rope_base is not None:
        places = torch.arange(x.shape[1], device=x.device)
        query, key = (rope(part, places, base=rope_base) for part in (query, key))
    heads = attention(query, key, by_head(normed @ w["w_v"], groups), causal=True)
    assert isinstance(heads, Tensor)
    middle = wide + side_by_side(heads) @ w["w_o"]
    return (middle + network(rms_norm(middle, w["norm_feed_forward"], eps=eps), w)).to(x.dtype)


def network(x: Tensor, w: Weights) -> Tensor:
    """`b n m` to `b n m`: (silu(x w_gate) * (x w_up)) w_down."""
    hidden: Tensor = torch.nn.functional.silu(x @ w["w_gate"]) * (x @ w["w_up"])
    return hidden @ w["w_down"]


def by_head(x: Tensor, n_heads: int) -> Tensor:
    """`b n (h w)` to `b h n w`."""
    return x.reshape(*x.shape[:-1], n_heads, x.shape[-1] // n_heads).transpose(1, 2)


def side_by_side(heads: Tensor) -> Tensor:
    """`b h n w` to `b n (h w)`."""
    return heads.transpose(1, 2).flatten(2)


def check_shapes(x: Tensor, weights: Weights, n_heads: int, groups: int) -> None:
    """Raises ValueError for weights that don't fit x, each other, or the numbers of heads."""
    m, queries, values = x.shape[-1], weights["w_q"].shape[-1], weights["w_v"].shape[-1]
    if groups < 1 or n_heads % groups or queries % n_heads or values % groups:
        raise ValueError(
            f"{n_heads} heads over {groups} of keys, w_q with {queries} columns, w_v with {values}:"
            " expected multiples"
        )
    f = weights["w_gate"].shape[-1]
    due = {
        "w_q": (m, queries), "w_k": (m, queries // n_heads * groups), "w_v": (m, values),
        "w_o": (values // groups * n_heads, m), "norm_attention": (m,), "norm_feed_forward": (m,),
        "w_gate": (m, f), "w_up": (m, f), "w_down": (f, m),
    }  # fmt: skip
    for name, shape in due.items():
        if tuple(weights[name].shape) != shape:
            raise ValueError(
                f"{name} has shape {tuple(weights[name].shape)}; expected {shape} for x of shape "
                f"{tuple(x.shape)}, {n_heads} heads and {groups} of keys"
            )
