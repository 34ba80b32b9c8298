"""A Llama-style layer step by step: what its faults exchange one step of, or look into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import transformer_layer as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.rms_norm import rms_norm
from attnspec.impls.rope import rope
from attnspec.impls.transformer_layer import Weights, by_head

Functions = Callable[[], Mapping[str, Callable[..., Any]]]


@dataclass(frozen=True)
class Call:
    """What a step may need to know."""

    h: int
    g: int
    base: float | None
    eps: float
    dtype: torch.dtype
    """Of x."""


Passed = Callable[[str, Tensor, Call], Tensor]
"""From a place, what passes there and the call to what goes on from there."""


def _places(length: int, device: torch.device) -> Tensor:
    return torch.arange(length, device=device)


def _rotated(x: Tensor, places: Tensor, base: float) -> Tensor:
    return rope(x, places, base=base)


def _repeated(x: Tensor, call: Call) -> Tensor:
    return x.repeat_interleave(call.h // call.g, 1)


def _scale(d: int, _e: int, _call: Call) -> float:
    return float(d**-0.5)


def weighed(scores: Tensor, hidden_from: int = 1) -> Tensor:
    """Softmax over the tokens up to the query's own, or to one that lies further on."""
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(hidden_from)
    return torch.softmax(scores.masked_fill(later, -torch.inf), -1)


def normed(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """RMSNorm with a gain."""
    return rms_norm(x, gain, eps=eps)


def _first(w: Weights) -> Tensor:
    return w["norm_attention"]


def _second(w: Weights) -> Tensor:
    return w["norm_feed_forward"]


def _joined(gate: Tensor, up: Tensor) -> Tensor:
    return torch.nn.functional.silu(gate) * up


def _split(x: Tensor, heads: int) -> Tensor:
    return by_head(x, heads)


def _added(stream: Tensor, _normed: Tensor, addition: Tensor) -> Tensor:
    return stream + addition


def _as_it_is(_place: str, passing: Tensor, _call: Call) -> Tensor:
    return passing


def _given(base: float | None) -> float | None:
    return base


@dataclass(frozen=True)
class Steps:
    """One function for each step, the right one unless it is exchanged. All get numbers in the
    dtype of the computation."""

    at: Passed = _as_it_is
    """At every place: a weight's name, `x`, `normed`, `q`, `k`, `v` (by head, before rotation),
    `turned_q`, `turned_k`, `scores`, `shares`, `heads`, `attended`, `middle`, `normed_again`,
    `gate`, `up`, `hidden`, `network`, `y`."""
    first_gain: Callable[[Weights], Tensor] = _first
    second_gain: Callable[[Weights], Tensor] = _second
    first_norm: Callable[[Tensor, Tensor, float], Tensor] = normed
    second_norm: Callable[[Tensor, Tensor, float], Tensor] = normed
    split: Callable[[Tensor, int], Tensor] = _split
    places: Callable[[int, torch.device], Tensor] = _places
    key_places: Callable[[int, torch.device], Tensor] = _places
    rotated: Callable[[Tensor, Tensor, float], Tensor] = _rotated
    rotated_key: Callable[[Tensor, Tensor, float], Tensor] = _rotated
    base: Callable[[float | None], float | None] = _given
    repeated: Callable[[Tensor, Call], Tensor] = _repeated
    scale: Callable[[int, int, Call], float] = _scale
    weighed: Callable[[Tensor], Tensor] = weighed
    merged: Callable[[Tensor], Tensor] = right.side_by_side
    first_sum: Callable[[Tensor, Tensor, Tensor], Tensor] = _added
    """Of the stream, the normalised stream and attention's output."""
    second_sum: Callable[[Tensor, Tensor, Tensor], Tensor] = _added
    joined: Callable[[Tensor, Tensor], Tensor] = _joined


RIGHT = Steps()


def computed(
    steps: Steps, x: Tensor, weights: Weights, n_heads: int, n_kv_heads: int | None,
    rope_base: float | None, eps: float,
) -> Tensor:  # fmt: skip
    """A call by these steps."""
    groups = n_heads if n_kv_heads is None else n_kv_heads
    right.check_shapes(x, weights, n_heads, groups)
    dtype = torch.promote_types(x.dtype, torch.float32)
    call = Call(n_heads, groups, steps.base(rope_base), eps, x.dtype)

    def at(place: str, passing: Tensor) -> Tensor:
        return steps.at(place, passing, call)

    wide = at("x", x.to(dtype))
    w = {name: at(name, weight.to(dtype)) for name, weight in weights.items()}
    rows = at("normed", steps.first_norm(wide, steps.first_gain(w), eps))
    query = at("q", steps.split(rows @ w["w_q"], n_heads))
    key = at("k", steps.split(rows @ w["w_k"], groups))
    value = at("v", steps.split(rows @ w["w_v"], groups))
    if call.base is not None:
        n, device = x.shape[1], x.device
        query = at("turned_q", steps.rotated(query, steps.places(n, device), call.base))
        key = at("turned_k", steps.rotated_key(key, steps.key_places(n, device), call.base))
    key, value = steps.repeated(key, call), steps.repeated(value, call)
    scale = steps.scale(query.shape[-1], value.shape[-1], call)
    shares = at("shares", steps.weighed(at("scores", query @ key.mT * scale)))
    heads = at("heads", shares @ value)
    attended = at("attended", steps.merged(heads) @ w["w_o"])
    middle = at("middle", steps.first_sum(wide, rows, attended))
    again = at("normed_again", steps.second_norm(middle, steps.second_gain(w), eps))
    gate, up = at("gate", again @ w["w_gate"]), at("up", again @ w["w_up"])
    network = at("network", at("hidden", steps.joined(gate, up)) @ w["w_down"])
    return at("y", steps.second_sum(middle, again, network)).to(x.dtype)


def layer_by(**changed: Any) -> Functions:
    """The layer with some steps exchanged."""
    steps = replace(RIGHT, **changed)

    def transformer_layer(
        x: Tensor, weights: Weights, *, n_heads: int, n_kv_heads: int | None = None,
        rope_base: float | None = 10000.0, eps: float = 1e-6,
    ) -> Tensor:  # fmt: skip
        return computed(steps, x, weights, n_heads, n_kv_heads, rope_base, eps)

    return lambda: {"transformer_layer": transformer_layer}


def only_at(place: str, function: Callable[[Tensor, Call], Tensor]) -> Passed:
    """Something done to what passes at one place."""

    def at(here: str, passing: Tensor, call: Call) -> Tensor:
        return function(passing, call) if here == place else passing

    return at


Rule = Callable[[Tensor, Tensor], Tensor]
"""From the gradient that comes back at a place, and what passed there, to what goes on."""


class _Graded(torch.autograd.Function):
    """The identity with a backward pass of its own."""

    @staticmethod
    def forward(ctx: Any, passing: Tensor, rule: Rule) -> Tensor:
        ctx.save_for_backward(passing)
        ctx.rule = rule
        return passing.view_as(passing)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        (passing,) = ctx.saved_tensors
        return ctx.rule(upstream[0], passing), None


def graded(rule: Rule, passing: Tensor, _call: Call) -> Tensor:
    """What passes, with a backward pass by a rule."""
    found: Tensor = _Graded.apply(passing, rule)  # type: ignore[no-untyped-call]
    return found


def graded_at(place: str, rule: Rule) -> Functions:
    """The right layer, with another gradient going back through one place."""
    return layer_by(at=only_at(place, partial(graded, rule)))


def fault(
    identity: str, kind: str, reason: str, remedy: str, law: str, made: Functions, **more: Any
) -> Fault:
    """A row of the table."""
    component = "transformer_layer"
    return Fault(f"{component}.{identity}", component, kind, reason, remedy, f"{component}.{law}",
                 made, **more)  # fmt: skip
