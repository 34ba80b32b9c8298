"""The checks of attention's laws that read something off the output: weights through values that
are one-hot, a value through a key that matches, and the bounds that averages keep.

Sources: `spec/attention_definition.py`: the output is an average of the visible values, with
weights that are exp(score) over their sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnspec.oracle.attention_calls import (
    changed,
    key_heads,
    plain,
    sizes,
    with_bias,
)
from attnspec.oracle.attention_values import attention, log_sum_exp, scale_of, visible
from attnspec.oracle.calls import alike, close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.precision import FORMATS, snapped
from attnspec.oracle.rounding import formed
from attnspec.oracle.values import span

Array = np.ndarray[Any, Any]

WIDEST = 160
"""Keys up to which a whole mask is read at once."""
ROWS = 32
"""Rows of a head whose least and largest values are looked for."""


def signs_of(inputs: Inputs, purpose: str, shape: Sequence[int]) -> Array:
    """Drawn signs, 1 and -1."""
    return generator(inputs, purpose).choice([-1.0, 1.0], size=shape)


def reading(implementation: Implementation, inputs: Inputs, keys: Array) -> Inputs | None:
    """The call with values of one in channel c for the c-th of `keys`, else zero, so that the
    output holds their weights; None where the limits leave too few channels."""
    b, g, s, e = inputs.arrays["v"].shape
    v = np.zeros((b, g, s, max(e, len(keys))))
    v[:, :, keys, np.arange(len(keys))] = 1.0
    call = changed(inputs, v=v)
    return call if implementation.legal(call) else None


def mask_read_off(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Equal scores: weight 1/count on each key that a row sees, and exactly 0 on every other."""
    seen = visible(implementation, inputs)
    s = sizes(inputs)[3]
    call = changed(inputs, {"return_lse": None}, q=np.zeros_like(inputs.arrays["q"]))
    call = _row_constants(implementation, call)
    rng = generator(inputs, "keys read")
    keys = np.arange(s)
    whole = reading(implementation, call, keys) if s <= WIDEST else None
    if whole is None:
        keys = np.sort(rng.permutation(s)[: inputs.arrays["v"].shape[-1]])
        whole = reading(implementation, call, keys)
    if whole is None:
        return []
    count = seen.sum(axis=-1, keepdims=True)
    bias = whole.arrays.get("bias", 0.0)
    lowest = np.broadcast_to(bias == -span(inputs.dtype, "values").largest, seen.shape)[..., keys]
    seen = seen[..., keys]
    share = np.where(seen, 1.0 / np.maximum(count, 1), 0.0)
    right = attention(implementation, whole)[..., : len(keys)]
    actual = implementation(whole)[..., : len(keys)]
    hidden = actual[np.broadcast_to(count > 0, seen.shape) & ~seen]
    # of the lowest number a log-sum-exp keeps nothing of the count, but something is weighed
    some, usual, dtype = actual[seen & lowest] > 0.0, seen & ~lowest, implementation.dtype
    room = right.allowance[usual] + formed(share[usual], 1)
    return [
        same("weight of a key that is not seen", hidden, np.zeros_like(hidden), dtype),
        alike("weight of a key that is seen", actual[usual], share[usual], room, dtype),
        same("a key of the lowest bias has weight", some * 1.0, np.ones(some.shape), "float64"),
    ]


def _row_constants(implementation: Implementation, call: Inputs) -> Inputs:
    """The call with one finite bias for all keys of a row, if it may have one: 0, 1, or the
    lowest number of the dtype, which is no mask."""
    rng = generator(call, "constants of rows")
    if rng.integers(2):
        call = with_bias(implementation, call)
    bias = call.arrays.get("bias")
    if bias is None:
        return call
    lowest = -span(call.dtype, "values").largest
    constant = rng.choice([0.0, 1.0, lowest], size=(*bias.shape[:-1], 1))
    return changed(call, bias=np.where(np.isneginf(bias), bias, constant))


def _needle_call(inputs: Inputs, many: int) -> tuple[Inputs, Array, float]:
    """Queries that some keys of every key head match, while all others are opposite: the call,
    the places of these needles, [b, g, many], and a bound on the weight of all others."""
    b, h, t, s = sizes(inputs)
    g, d = inputs.arrays["k"].shape[1], inputs.arrays["q"].shape[-1]
    rng = generator(inputs, "needles")
    places = np.array([rng.permutation(s)[:many] for _ in range(b * g)]).reshape(b, g, many)
    # all others together weigh about as much as a unit roundoff; most of the gap lies below zero,
    # so that the needles' own scores, and what may be rounded of them, are small
    gap = math.log(1.0 / FORMATS[inputs.dtype].roundoff) + math.log(s)
    size = math.sqrt(gap / (d * scale_of(inputs)))
    q = snapped(size * signs_of(inputs, "direction", (d,)), inputs.dtype)
    k = np.broadcast_to(-q, (b, g, s, d)).copy()
    np.put_along_axis(k, places[..., None], q / 8.0, axis=2)
    rest = (s - many) * math.exp(-float(q @ q) * scale_of(inputs))
    return changed(plain(inputs), q=np.broadcast_to(q, (b, h, t, d)).copy(), k=k), places, rest


def _needles(implementation: Implementation, inputs: Inputs, many: int) -> list[Comparison]:
    if sizes(inputs)[3] < many:
        return []
    call, places, rest = _needle_call(inputs, many)
    v, of = inputs.arrays["v"], key_heads(implementation, inputs)
    mean = np.take_along_axis(v, places[..., None], axis=2).mean(axis=2)
    largest = np.abs(v).max(axis=2)
    actual = implementation(call)
    right = np.broadcast_to(mean[:, of][:, :, None], actual.shape)
    room = (2.0 * rest * largest + formed(largest, many + 1))[:, of][:, :, None]
    allowance = attention(implementation, call).allowance + room
    what = "value of the needle" if many == 1 else "mean of the two needles' values"
    return [alike(what, actual, right, allowance, implementation.dtype)]


def needle_returns_its_value(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A key that matches the query, far above all others, brings its value back."""
    return _needles(implementation, inputs, 1)


def pair_of_needles(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Two equal keys that match the query bring the mean of their values."""
    return _needles(implementation, inputs, 2)


def within_values(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The output lies between the least and the largest visible value, in every channel; one
    value for all keys comes back. Of one drawn batch entry, and of some of its rows."""
    v, of = inputs.arrays["v"], key_heads(implementation, inputs)
    b, _, t, _ = sizes(inputs)
    rng = generator(inputs, "rows looked at")
    entry, chosen = int(rng.integers(b)), np.sort(rng.permutation(t)[:ROWS])
    seen = visible(implementation, inputs)[entry][:, chosen]
    some = seen.any(axis=-1)
    nearest, actual = _inside(v[entry][of], seen, implementation(inputs)[entry][:, chosen])
    allowance = attention(implementation, inputs).allowance[entry][:, chosen]
    # kernels that divide last add all of them up
    few = np.abs(v[:, :, :1]) < FORMATS[inputs.dtype].overflow / (2.0 * v.shape[2])
    one = np.where(few, v[:, :, :1], 1.0)
    constant = changed(inputs, v=np.broadcast_to(one, v.shape).copy())
    back = implementation(constant)[entry][:, chosen]
    value = np.broadcast_to(one[entry, of], back.shape)
    room = attention(implementation, constant).allowance[entry][:, chosen]
    dtype = implementation.dtype
    return [
        alike("output between the visible values", actual[some], nearest[some], allowance[some],
              dtype),
        alike("the one value of all keys", back[some], value[some], room[some], dtype),
    ]  # fmt: skip


def long_rows(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Scores of zero and values of one: each of s keys has the weight 1/s, so that one comes back,
    and the log-sum-exp is log s. A normaliser that is kept in half precision stops growing."""
    q, v = (np.zeros_like(inputs.arrays[name]) for name in "qv")
    call = changed(inputs, q=q, v=v + 1.0)
    right = attention(implementation, call)
    found = [
        close("the one value of equal keys", implementation(call), right, implementation.dtype)
    ]
    if implementation.accepts("return_lse"):
        call = changed(call, {"return_lse": True})
        lse, right = implementation.parts(call)[1], log_sum_exp(implementation, call)
        wide = implementation.contract.accumulate
        found.append(close("log-sum-exp of equal keys", lse, right, wide))
    return found


def _inside(values: Array, seen: Array, output: Array) -> tuple[Array, Array]:
    """The output, and the nearest to it between the least and the largest of the values, [h, s,
    e], that each row sees, [h, t, s]."""
    nearest = np.array(output)
    for head, rows in enumerate(seen):
        hidden = ~rows[..., None]
        low = np.where(hidden, np.inf, values[head]).min(axis=1)
        high = np.where(hidden, -np.inf, values[head]).max(axis=1)
        nearest[head] = np.clip(output[head], low, high)
    return nearest, output
