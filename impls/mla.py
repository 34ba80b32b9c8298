"""Multi-head latent attention: with every key and value built, absorbed, cached, and decoding.

Keys and values of all heads come from one latent a token; p further channels carry RoPE, of which
the key is shared by the heads: DeepSeek-AI, *DeepSeek-V2* (2024), section 2.1. All forms compute in
float32, or in the dtype of `x` where that is wider, and round once, when they return.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from attnspec.impls.rope import frequencies, turned

Weights = Mapping[str, Tensor]
"""`w_dq: m r`, `w_uq: r (h d)`, `w_qr: r (h p)`, `w_dkv: m c`, `w_uk: c (h d)`, `w_uv: c (h e)`,
`w_kr: m p`, `w_o: (h e) m`."""
Rotation = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Turns the pairs of `... n p` by tables `n p/2` of cosines and sines."""


def mla(
    x: Tensor,
    weights: Weights,
    *,
    n_heads: int,
    causal: bool = True,
    rope_base: float = 10000.0,
) -> Tensor:
    """`x: b n m` to `b n m`, by every head's keys and values.

    Raises ValueError for weights that don't fit together.
    """
    check_shapes(x, weights, n_heads)
    wide, w = widened(x), all_widened(weights, x)
    places = torch.arange(x.shape[1], device=x.device)
    asking, latent = wide @ w["w_dq"], wide @ w["w_dkv"]
    query, key = by_head(asking @ w["w_uq"], n_heads), by_head(latent @ w["w_uk"], n_heads)
    query_r = rotated(by_head(asking @ w["w_qr"], n_heads), places, rope_base)
    key_r = rotated(wide @ w["w_kr"], places, rope_base)
    scores = query @ key.mT + over_tokens(query_r, key_r)
    shares = weighed(scores * scale_of(query, query_r), causal=causal)
    heads = shares @ by_head(latent @ w["w_uv"], n_heads)
    return (side_by_side(heads) @ w["w_o"]).to(x.dtype)


def mla_absorbed(
    x: Tensor,
    weights: Weights,
    *,
    n_heads: int,
    causal: bool = True,
    rope_base: float = 10000.0,
) -> Tensor:
    """As `mla`, without building keys or values: queries are turned into the latent's space, and
    the weighted latents out of it."""
    check_shapes(x, weights, n_heads)
    wide, w = widened(x), all_widened(weights, x)
    places = torch.arange(x.shape[1], device=x.device)
    asking, latent = wide @ w["w_dq"], wide @ w["w_dkv"]
    query = by_head(asking @ w["w_uq"], n_heads)
    query_r = rotated(by_head(asking @ w["w_qr"], n_heads), places, rope_base)
    key_r = rotated(wide @ w["w_kr"], places, rope_base)
    found = over_latents(query, query_r, latent, key_r, w, causal=causal)
    return found.to(x.dtype)


def mla_cache(x: Tensor, weights: Weights, *, rope_base: float = 10000.0) -> tuple[Tensor, Tensor]:
    """`x: b n m` to `(c_kv: b n c, k_rope: b n p)`, the key rotated at positions 0 to n - 1."""
    wide = widened(x)
    places = torch.arange(x.shape[1], device=x.device)
    key_r = rotated(wide @ widened(weights["w_kr"]), places, rope_base)
    return (wide @ widened(weights["w_dkv"])).to(x.dtype), key_r.to(x.dtype)


def mla_decode(
    x: Tensor,
    cache: tuple[Tensor, Tensor],
    weights: Weights,
    *,
    n_heads: int,
    rope_base: float = 10000.0,
) -> Tensor:
    """The newest token `x: b 1 m`, and a cache that has it: `b n c` and `b n p`, to `b 1 m`.

    Works over latents, so that no key or value is built. Raises ValueError for more than one
    token.
    """
    if x.shape[1] != 1:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected one token, (b, 1, m)")
    wide, w = widened(x), all_widened(weights, x)
    latent, key_r = (widened(part) for part in cache)
    asking = wide @ w["w_dq"]
    query = by_head(asking @ w["w_uq"], n_heads)
    last = torch.full((1,), latent.shape[1] - 1, device=x.device)
    query_r = rotated(by_head(asking @ w["w_qr"], n_heads), last, rope_base)
    return over_latents(query, query_r, latent, key_r, w, causal=False).to(x.dtype)


def over_latents(
    query: Tensor, query_r: Tensor, latent: Tensor, key_r: Tensor, w: Weights, *, causal: bool
) -> Tensor:
    """`query: b h t d`, `query_r: b h t p`, `latent: b n c`, `key_r: b n p` to `b t m`, all in one
    dtype, without keys or values."""
    n_heads = query.shape[1]
    absorbed = torch.einsum("bhtd,chd->bhtc", query, heads_of(w["w_uk"], n_heads))
    scores = over_tokens(absorbed, latent) + over_tokens(query_r, key_r)
    shares = weighed(scores * scale_of(query, query_r), causal=causal)
    # heads and queries as one axis: a product that is broadcast over heads would copy the latents
    latents = over_tokens(shares, latent.mT)
    heads = torch.einsum("bhtc,che->bhte", latents, heads_of(w["w_uv"], n_heads))
    return side_by_side(heads) @ w["w_o"]


def over_tokens(query: Tensor, shared: Tensor) -> Tensor:
    """`b h t w` and, of all heads, `b n w` to the products `b h t n`."""
    made = query.flatten(1, 2) @ shared.mT
    return made.reshape(*query.shape[:3], shared.shape[1])


def scale_of(query: Tensor, query_r: Tensor) -> float:
    """(d + p) ** -0.5, whatever the order of products."""
    return float((query.shape[-1] + query_r.shape[-1]) ** -0.5)


def weighed(scores: Tensor, *, causal: bool) -> Tensor:
    """`b h t n` scaled scores to their softmax over the tokens that a query sees."""
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return torch.softmax(scores, -1)


def rotated(x: Tensor, places: Tensor, base: float, rotation: Rotation | None = None) -> Tensor:
    """The pairs of `b n p` or `b h n p` turned at these positions; pairs are the channels 2u and
    2u + 1, or those of another rotation."""
    turns = frequencies(x.shape[-1], base, dtype=x.dtype, device=x.device)
    angles = places.to(x.dtype).unsqueeze(-1) * turns
    four = x if x.ndim == 4 else x.unsqueeze(1)
    made = (turned if rotation is None else rotation)(four, angles.cos(), angles.sin())
    return made if x.ndim == 4 else made.squeeze(1)


def by_head(x: Tensor, n_heads: int) -> Tensor:
    """`b n (h w)` to `b h n w`."""
    return heads_of(x, n_heads).transpose(1, 2)


def side_by_side(heads: Tensor) -> Tensor:
    """`b h n w` to `b n (h w)`."""
    return heads.transpose(1, 2).flatten(2)


def heads_of(weight: Tensor, n_heads: int) -> Tensor:
    """`... (h w)` to `... h w`."""
    return weight.reshape(*weight.shape[:-1], n_heads, weight.shape[-1] // n_heads)


def widened(x: Tensor) -> Tensor:
    """In the dtype of the computation."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def all_widened(weights: Weights, x: Tensor) -> dict[str, Tensor]:
    """Every weight in the dtype of the computation for `x`."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    return {name: weight.to(dtype) for name, weight in weights.items()}


def check_shapes(x: Tensor, weights: Weights, n_heads: int) -> None:
    """Raises ValueError for weights that don't fit x, each other, or the number of heads."""
    m, r, c = x.shape[-1], weights["w_dq"].shape[-1], weights["w_dkv"].shape[-1]
    p, values = weights["w_kr"].shape[-1], weights["w_uv"].shape[-1]
    channels = weights["w_uk"].shape[-1]
    if channels % n_heads or values % n_heads or p % 2:
        raise ValueError(
            f"w_uk has {channels} columns, w_uv {values}, w_kr {p}; expected multiples of the "
            f"{n_heads} heads, and an even number"
        )
    due = {
        "w_dq": (m, r), "w_uq": (r, channels), "w_qr": (r, n_heads * p), "w_dkv": (m, c),
        "w_uk": (c, channels), "w_uv": (c, values), "w_kr": (m, p), "w_o": (values, m),
    }  # fmt: skip
    for name, shape in due.items():
        if tuple(weights[name].shape) != shape:
            raise ValueError(
                f"{name} has shape {tuple(weights[name].shape)}; expected {shape} for x of shape "
                f"{tuple(x.shape)} and {n_heads} heads"
            )
