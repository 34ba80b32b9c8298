"""The checks of alibi_bias's own laws: from an implementation and inputs to two sides and an
allowance.

Sources: the claims of `spec/alibi_bias.py` and `spec/alibi_bias_weights.py`. Where a constant a
row is free, a bias is taken less what it has on the diagonal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.alibi_values import (
    Penalties,
    bias,
    distances,
    own,
    penalties,
    positions,
    slopes,
)
from attnspec.oracle.calls import agree, alike, close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.rounding import formed

Array = np.ndarray[Any, Any]


def matches_oracle(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Every entry within its derived allowance of the exact value."""
    actual = implementation(inputs)
    return [close("bias", actual, bias(implementation, inputs, actual), implementation.dtype)]


def zero_diagonal(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Nothing is taken off at a query's own key."""
    found = own(inputs, implementation(inputs))
    return [same("own key", found, np.zeros_like(found), implementation.dtype)]


def falls_with_distance(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Which of two neighbouring keys is the nearer, wherever the allowances tell."""
    taken = penalties(implementation, inputs)
    step = np.diff(taken.right, axis=-1)
    told = np.abs(step) > taken.allowance[..., 1:] + taken.allowance[..., :-1]
    told &= taken.known[..., 1:] & taken.known[..., :-1]
    found, due = (np.where(told, np.sign(x), 0.0) for x in (np.diff(taken.given, axis=-1), step))
    return [same("sign of the step to the next key", found, due, "float64")]


def linear_in_distance(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Twice as far costs twice as much."""
    taken, at = penalties(implementation, inputs), positions(inputs)[:, None]
    steps = np.arange(1, inputs.numbers["s"])
    found = []
    for side, where in ((-1, "back"), (1, "ahead")):
        once, twice = (_at_keys(taken, at + n * side * steps) for n in (1, 2))
        both = once.known & twice.known
        if both.any():
            room = 2.0 * once.allowance + twice.allowance + formed(np.abs(2.0 * once.given), 1)
            given = (twice.given, 2.0 * once.given, room)
            far, double, room = (np.where(both, x, 0.0) for x in given)
            found.append(agree(f"twice as far {where}", far, double, room, implementation.dtype))
    return found


def _at_keys(taken: Penalties, keys: Array) -> Penalties:
    """What is taken off at keys of one's own for each query, t by any number. Those that do not
    exist are unknown, and 0."""
    count = taken.given.shape[-1]
    inside = (keys >= 0) & (keys < count)
    index = np.broadcast_to(np.where(inside, keys, 0), (len(taken.given), *keys.shape))
    every = (taken.given, taken.right, taken.allowance, taken.known)
    found = (np.where(inside, np.take_along_axis(x, index, axis=-1), 0) for x in every)
    given, right, allowance, known = found
    return Penalties(given, right, allowance, known.astype(bool))


def mirrored(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A key ahead costs what the key as far back costs."""
    taken, at = penalties(implementation, inputs), positions(inputs)[:, None]
    steps = np.arange(1, inputs.numbers["s"])
    back, ahead = (_at_keys(taken, at + side * steps) for side in (-1, 1))
    both = back.known & ahead.known
    if not both.any():
        return []
    room = back.allowance + ahead.allowance
    one, other, room = (np.where(both, x, 0.0) for x in (ahead.given, back.given, room))
    return [agree("as far ahead as back", one, other, room, implementation.dtype)]


def moved_together(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Query and key moved on together: the same bias."""
    t = inputs.numbers["t"]
    if t < 2:
        return []
    taken = penalties(implementation, inputs)
    shift = int(generator(inputs, "shift").integers(1, t))
    first, second = np.s_[:, :-shift, :-shift], np.s_[:, shift:, shift:]
    room = taken.allowance[first] + taken.allowance[second]
    what = f"query and key moved on by {shift}"
    return [agree(what, taken.given[second], taken.given[first], room, implementation.dtype)]


def last_rows(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Few queries have the last rows of as many queries as keys."""
    t, s = inputs.numbers["t"], inputs.numbers["s"]
    square = inputs.with_numbers(t=s)
    if not implementation.legal(square):
        return []
    part, whole = penalties(implementation, inputs), penalties(implementation, square)
    room = part.allowance + whole.allowance[:, s - t :]
    what = f"last {t} rows of {s}"
    return [agree(what, part.given, whole.given[:, s - t :], room, implementation.dtype)]


def longer_text(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """More keys before the first one leave what there is as it is."""
    s = inputs.numbers["s"]
    more = (1, s, 300)[int(generator(inputs, "more").integers(3))]
    longer = inputs.with_numbers(s=s + more)
    if not implementation.legal(longer):
        return []
    short, long = penalties(implementation, inputs), penalties(implementation, longer)
    room = short.allowance + long.allowance[..., more:]
    what = f"bias with {more} keys more in front"
    return [agree(what, long.given[..., more:], short.given, room, implementation.dtype)]


def slope_a_step(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The bias is minus the slope that alibi_slopes gives the head, times the distance."""
    sibling = implementation.sibling("alibi_slopes")
    if sibling is None:
        return []
    asked = {name: x for name, x in inputs.options.items() if sibling.accepts(name)}
    heads = Inputs(
        "alibi_slopes", inputs.dtype, {}, asked, {"n_heads": inputs.numbers["n_heads"]},
        seed=inputs.seed,
    )  # fmt: skip
    untold = "dtype" not in asked and inputs.dtype != "float32"
    if untold or not sibling.legal(heads):
        return []
    taken, right = penalties(implementation, inputs), slopes(sibling, heads)
    far = np.where(taken.known, distances(inputs), 0.0)
    product = -sibling(heads)[:, None, None] * far
    room = taken.allowance + right.allowance[:, None, None] * far + formed(np.abs(product), 1)
    # nothing is off at distance 0
    room = np.where(far == 0.0, taken.allowance, room)
    return [alike("bias", taken.given, product, room, implementation.dtype)]
