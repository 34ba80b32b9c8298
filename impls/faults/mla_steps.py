"""Latent attention step by step: what its faults exchange one step of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import mla as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.mla import Weights, by_head, heads_of, rotated

Functions = Callable[[], Mapping[str, Callable[..., Any]]]


@dataclass(frozen=True)
class Sizes:
    """What a step may need to know, as the contract names it."""

    h: int
    d: int
    e: int
    p: int
    c: int
    m: int
    causal: bool = True


def _places(length: int, device: torch.device) -> Tensor:
    return torch.arange(length, device=device)


def rotary_query(asking: Tensor, w: Weights, places: Tensor, base: float, s: Sizes) -> Tensor:
    """`b h n p`, turned."""
    return rotated(by_head(asking @ w["w_qr"], s.h), places, base)


def rotary_key(x: Tensor, w: Weights, places: Tensor, base: float, s: Sizes) -> Tensor:
    """`b 1 n p`, turned, for all heads."""
    return rotated(x @ w["w_kr"], places, base).unsqueeze(1)


def _content_query(asking: Tensor, w: Weights, s: Sizes) -> Tensor:
    return by_head(asking @ w["w_uq"], s.h)


def _key(latent: Tensor, w: Weights, s: Sizes) -> Tensor:
    return by_head(latent @ w["w_uk"], s.h)


def value(latent: Tensor, w: Weights, s: Sizes) -> Tensor:
    """`b h n e`."""
    return by_head(latent @ w["w_uv"], s.h)


def _absorbed_query(query: Tensor, w: Weights, s: Sizes) -> Tensor:
    return torch.einsum("bhtd,chd->bhtc", query, heads_of(w["w_uk"], s.h))


def _left(latents: Tensor, w: Weights, s: Sizes) -> Tensor:
    return torch.einsum("bhtc,che->bhte", latents, heads_of(w["w_uv"], s.h))


def _same(x: Tensor) -> Tensor:
    return x


def _scale(s: Sizes) -> float:
    return float((s.d + s.p) ** -0.5)


def _weighed(scores: Tensor, s: Sizes) -> Tensor:
    return right.weighed(scores, causal=s.causal)


def _output(heads: Tensor, w: Weights, s: Sizes) -> Tensor:
    return right.side_by_side(heads) @ w["w_o"]


@dataclass(frozen=True)
class Steps:
    """One function for each step, the right one unless it is exchanged. All get numbers in the
    dtype of the computation."""

    read: Callable[[Tensor, Weights], tuple[Tensor, Weights]] = lambda x, w: (x, w)
    """x and the weights, before anything else."""
    query_latent: Callable[[Tensor, Weights], Tensor] = lambda x, w: x @ w["w_dq"]
    latent: Callable[[Tensor, Weights], Tensor] = lambda x, w: x @ w["w_dkv"]
    seen: Callable[[Tensor], Tensor] = _same
    """The latent as keys and values are made of it."""
    places: Callable[[int, torch.device], Tensor] = _places
    key_places: Callable[[int, torch.device], Tensor] = _places
    rotary_query: Callable[[Tensor, Weights, Tensor, float, Sizes], Tensor] = rotary_query
    rotary_key: Callable[[Tensor, Weights, Tensor, float, Sizes], Tensor] = rotary_key
    """b 1 n p, or a key for each head."""
    content_query: Callable[[Tensor, Weights, Sizes], Tensor] = _content_query
    key: Callable[[Tensor, Weights, Sizes], Tensor] = _key
    value: Callable[[Tensor, Weights, Sizes], Tensor] = value
    absorbed_query: Callable[[Tensor, Weights, Sizes], Tensor] = _absorbed_query
    left: Callable[[Tensor, Weights, Sizes], Tensor] = _left
    """From each head's weighted latents to its channels."""
    content: Callable[[Tensor], Tensor] = _same
    """Queries' and keys' content, in both."""
    positions: Callable[[Tensor], Tensor] = _same
    """The products of the position stream."""
    scale: Callable[[Sizes], float] = _scale
    weighed: Callable[[Tensor, Sizes], Tensor] = _weighed
    output: Callable[[Tensor, Weights, Sizes], Tensor] = _output
    base: Callable[[float], float] = lambda base: base


RIGHT = Steps()


def computed(
    steps: Steps, x: Tensor, weights: Weights, n_heads: int, causal: bool, base: float,
    *, absorbed: bool,
) -> Tensor:  # fmt: skip
    """A call by these steps."""
    right.check_shapes(x, weights, n_heads)
    wide, w = steps.read(right.widened(x), right.all_widened(weights, x))
    sizes = Sizes(
        h=n_heads, d=w["w_uk"].shape[1] // n_heads, e=w["w_uv"].shape[1] // n_heads,
        p=w["w_kr"].shape[1], c=w["w_dkv"].shape[1], m=x.shape[2], causal=causal,
    )  # fmt: skip
    n, base = x.shape[1], steps.base(base)
    asking, latent = steps.query_latent(wide, w), steps.seen(steps.latent(wide, w))
    query_r = steps.rotary_query(asking, w, steps.places(n, x.device), base, sizes)
    key_r = steps.rotary_key(wide, w, steps.key_places(n, x.device), base, sizes)
    query = steps.content_query(asking, w, sizes)
    if absorbed:
        key, query = latent.unsqueeze(1), steps.absorbed_query(query, w, sizes)
    else:
        key = steps.key(latent, w, sizes)
    scores = steps.content(query) @ steps.content(key).mT
    scores = scores + steps.positions(query_r @ key_r.mT)
    shares = steps.weighed(scores * steps.scale(sizes), sizes)
    if absorbed:
        heads = steps.left(shares @ latent.unsqueeze(1), w, sizes)
    else:
        heads = shares @ steps.value(latent, w, sizes)
    return steps.output(heads, w, sizes).to(x.dtype)


def built_by(**changed: Any) -> Functions:
    """`mla` with some steps exchanged."""
    steps = replace(RIGHT, **changed)

    def mla(
        x: Tensor, weights: Weights, *, n_heads: int, causal: bool = True,
        rope_base: float = 10000.0,
    ) -> Tensor:  # fmt: skip
        return computed(steps, x, weights, n_heads, causal, rope_base, absorbed=False)

    return lambda: {"mla": mla}


def absorbed_by(**changed: Any) -> Functions:
    """`mla_absorbed` with some steps exchanged, beside a right `mla`."""
    steps = replace(RIGHT, **changed)

    def mla_absorbed(
        x: Tensor, weights: Weights, *, n_heads: int, causal: bool = True,
        rope_base: float = 10000.0,
    ) -> Tensor:  # fmt: skip
        return computed(steps, x, weights, n_heads, causal, rope_base, absorbed=True)

    return lambda: {"mla_absorbed": mla_absorbed, "mla": right.mla}


def fault(component: str, identity: str, kind: str, reason: str, remedy: str, law: str,
          made: Functions, **more: Any) -> Fault:  # fmt: skip
    """A row of the table."""
    return Fault(f"{component}.{identity}", component, kind, reason, remedy, f"{component}.{law}",
                 made, **more)  # fmt: skip
