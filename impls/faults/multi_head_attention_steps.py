"""Multi-head attention step by step: what its faults exchange one step of, or look into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import multi_head_attention as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.rope import rope

Functions = Callable[[], Mapping[str, Callable[..., Any]]]
NAMES = ("x", "w_q", "w_k", "w_v", "w_o")


@dataclass(frozen=True)
class Call:
    """What a step may need to know."""

    h: int
    g: int
    base: float | None
    causal: bool
    m: int


Passed = Callable[[str, Tensor, Call], Tensor]
"""From a place, what passes there and the call to what goes on from there."""


def _places(length: int, device: torch.device) -> Tensor:
    return torch.arange(length, device=device)


def _rotated(x: Tensor, places: Tensor, base: float) -> Tensor:
    return rope(x, places, base=base)


def repeated(x: Tensor, call: Call) -> Tensor:
    """Keys or values `b g n w` for every query head."""
    return x.repeat_interleave(call.h // call.g, 1)


def _scale(d: int, _e: int, _call: Call) -> float:
    return float(d**-0.5)


def hidden(scores: Tensor, first: int = 1) -> Tensor:
    """Whether a token lies after the query's own, or further on."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(first)


def weighed(scores: Tensor, call: Call) -> Tensor:
    """Softmax over the tokens that a query sees."""
    if call.causal:
        scores = scores.masked_fill(hidden(scores), -torch.inf)
    return torch.softmax(scores, -1)


def _as_it_is(_place: str, passing: Tensor, _call: Call) -> Tensor:
    return passing


def _split(x: Tensor, heads: int) -> Tensor:
    return right.by_head(x, heads)


@dataclass(frozen=True)
class Steps:
    """One function for each step, the right one unless it is exchanged."""

    at: Passed = _as_it_is
    """At every place: a name of `NAMES`, `q`, `k`, `v` (by head, before rotation), `turned_q`,
    `turned_k`, `scores`, `shares`, `heads`, `packed`, `y`."""
    split: Callable[[Tensor, int], Tensor] = _split
    places: Callable[[int, torch.device], Tensor] = _places
    key_places: Callable[[int, torch.device], Tensor] = _places
    rotated: Callable[[Tensor, Tensor, float], Tensor] = _rotated
    rotated_key: Callable[[Tensor, Tensor, float], Tensor] = _rotated
    base: Callable[[float | None], float | None] = lambda base: base
    repeated: Callable[[Tensor, Call], Tensor] = repeated
    scale: Callable[[int, int, Call], float] = _scale
    weighed: Callable[[Tensor, Call], Tensor] = weighed
    merged: Callable[[Tensor], Tensor] = right.side_by_side


RIGHT = Steps()


def computed(
    steps: Steps, x: Tensor, weights: tuple[Tensor, ...], options: Mapping[str, Any]
) -> Tensor:
    """A call by these steps."""
    n_heads, kv = options["n_heads"], options.get("n_kv_heads")
    groups = n_heads if kv is None else kv
    dtype = torch.promote_types(x.dtype, torch.float32)
    base = steps.base(options.get("rope_base"))
    call = Call(n_heads, groups, base, options.get("causal", False), x.shape[-1])

    def at(place: str, passing: Tensor) -> Tensor:
        return steps.at(place, passing, call)

    wide, w_q, w_k, w_v, w_o = (
        at(name, value.to(dtype)) for name, value in zip(NAMES, (x, *weights), strict=True)
    )
    query = at("q", steps.split(wide @ w_q, n_heads))
    key, value = at("k", steps.split(wide @ w_k, groups)), at("v", steps.split(wide @ w_v, groups))
    if base is not None:
        n, device = x.shape[1], x.device
        query = at("turned_q", steps.rotated(query, steps.places(n, device), base))
        key = at("turned_k", steps.rotated_key(key, steps.key_places(n, device), base))
    key, value = steps.repeated(key, call), steps.repeated(value, call)
    scale = steps.scale(query.shape[-1], value.shape[-1], call)
    shares = at("shares", steps.weighed(at("scores", query @ key.mT * scale), call))
    packed = at("packed", steps.merged(at("heads", shares @ value)))
    return at("y", packed @ w_o).to(x.dtype)


def made_of(way: Callable[[tuple[Tensor, ...], dict[str, Any]], Tensor]) -> Callable[..., Tensor]:
    """The function of the contract, from one of its tensors and options."""

    def multi_head_attention(
        x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, *, n_heads: int,
        n_kv_heads: int | None = None, causal: bool = False, rope_base: float | None = None,
    ) -> Tensor:  # fmt: skip
        groups = n_heads if n_kv_heads is None else n_kv_heads
        right.check_shapes(x, w_q, w_k, w_v, w_o, n_heads, groups)
        options = {
            "n_heads": n_heads, "n_kv_heads": n_kv_heads, "causal": causal, "rope_base": rope_base,
        }  # fmt: skip
        return way((x, w_q, w_k, w_v, w_o), options)

    return multi_head_attention


def by_steps(**changed: Any) -> Functions:
    """Multi-head attention with some steps exchanged."""
    steps = replace(RIGHT, **changed)
    function = made_of(lambda tensors, options: computed(steps, tensors[0], tensors[1:], options))
    return lambda: {"multi_head_attention": function}


def only_at(place: str, function: Callable[[Tensor, Call], Tensor]) -> Passed:
    """Something done to what passes at one place."""
    return lambda here, passing, call: function(passing, call) if here == place else passing


def fault(
    identity: str, kind: str, reason: str, remedy: str, law: str, made: Functions, **more: Any
) -> Fault:
    """A row of the table."""
    component = "multi_head_attention"
    return Fault(f"{component}.{identity}", component, kind, reason, remedy, f"{component}.{law}",
                 made, **more)  # fmt: skip
