"""The checks of rope's own laws: from an implementation and inputs to two sides and an allowance.

Sources: the claims of `spec/rope.py` and its neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.calls import agree, alike, close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.precision import snapped
from attnspec.oracle.rope_values import paired, rope, width
from attnspec.oracle.rounding import formed

Array = np.ndarray[Any, Any]


def scores(q: Array, k: Array) -> Array:
    """Products of every query with every key, formed in float64."""
    return q @ np.swapaxes(k, -1, -2)


def relative_displacement(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The scores of all pairs of tokens, before and after one shift of all positions."""
    positions = inputs.arrays["positions"]
    room = 2**17 - int(positions.max(initial=0))
    steps = [s for s in (1, 16, 256, 2048, 65536, 131071) if s <= room] or [1]
    shift = steps[generator(inputs, "shift").integers(len(steps))]
    later = inputs.with_arrays(positions=(positions + shift).astype(positions.dtype))
    unit = unit_of(inputs)
    first, second = implementation(inputs) * unit, implementation(later) * unit
    errors = [rope(implementation, one).allowance * unit for one in (inputs, later)]
    allowance = sum(
        2.0 * scores(np.abs(y), e) + scores(e, e)
        for y, e in zip((first, second), errors, strict=True)
    )
    allowance = np.maximum(allowance, np.swapaxes(allowance, -1, -2))
    d = first.shape[-1]
    allowance += sum(formed(scores(np.abs(y), np.abs(y)), d) for y in (first, second))
    what = f"scores after a shift by {shift}"
    return [agree(what, scores(second, second), scores(first, first), allowance, "float64")]


def unit_of(inputs: Inputs) -> float:
    """The power of two that brings the largest channel to about 1, so that squares, which are
    formed in float64 here, neither overflow nor vanish."""
    largest = float(np.abs(inputs.arrays["x"]).max(initial=0.0))
    return 2.0 ** -np.frexp(largest)[1] if largest > 2.0**-1000 else 1.0


def pair_norms(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The squared length of every pair, before and after."""
    r, unit = width(inputs), unit_of(inputs)
    actual = implementation(inputs) * unit
    allowance = rope(implementation, inputs).allowance * unit

    def squares(values: Array) -> Array:
        first, second = paired(implementation, values, r)
        result: Array = first**2 + second**2
        return result

    first, second = paired(implementation, np.abs(actual), r)
    e0, e1 = paired(implementation, allowance, r)
    room = 2.0 * (first * e0 + second * e1) + e0**2 + e1**2
    room += 2.0 * formed(squares(np.abs(actual)) + room, 2)
    before = squares(inputs.arrays["x"] * unit)
    return [alike("squared length of a pair", squares(actual), before, room, "float64")]


def group_law(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Turning twice is turning by the sum of the positions."""
    positions = inputs.arrays["positions"]
    rng = generator(inputs, "second")
    more = rng.integers(0, 300, size=positions.shape).astype(positions.dtype)
    once = implementation(inputs)
    then = inputs.with_arrays(x=once, positions=more)
    both = inputs.with_arrays(positions=positions + more)
    one = rope(implementation, inputs)
    second = rope(implementation, then, x=(once, one.allowance))
    allowance = second.allowance + rope(implementation, both).allowance
    layout = "contiguous"
    twice = implementation(then, layout=layout)
    return [
        agree(
            "turned twice",
            twice,
            implementation(both, layout=layout),
            allowance,
            implementation.dtype,
        )
    ]


def linearity(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The rotation of a sum is the sum of the rotations."""
    x, dtype = inputs.arrays["x"], implementation.dtype
    rng = generator(inputs, "summand")
    drawn: Any = rng.standard_normal(x.shape)
    total = snapped(x + snapped(drawn, dtype), dtype)
    other = snapped(total - x, dtype)
    # a summand that the dtype cannot hold exactly is left out
    other = np.where(x + other == total, other, 0.0)
    total = x + other
    calls_ = [inputs.with_arrays(x=values) for values in (x, other, total)]
    one, two, both = (implementation(c, layout="contiguous") for c in calls_)
    allowance = sum(rope(implementation, c).allowance for c in calls_)
    return [agree("rotation of a sum", both, one + two, np.asarray(allowance), dtype)]


def position_zero_is_identity(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """At position 0 nothing turns."""
    return [same("output", implementation(inputs), inputs.arrays["x"], implementation.dtype)]


def untouched_channels(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Channels beyond the rotary width come back as they were."""
    r = width(inputs)
    actual = implementation(inputs)
    return [
        same(
            f"channels {r} and on",
            actual[..., r:],
            inputs.arrays["x"][..., r:],
            implementation.dtype,
        )
    ]


def batch_positions(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Entries of a batch at positions of their own are what they are alone."""
    x, positions = inputs.arrays["x"], inputs.arrays["positions"]
    allowance = rope(implementation, inputs).allowance
    whole = implementation(inputs, layout="contiguous")
    result = []
    for row in range(x.shape[0]):
        part = inputs.with_arrays(x=x[row : row + 1], positions=positions[row])
        if not implementation.legal(part):
            return []
        alone = implementation(part, layout="contiguous")
        both = 2.0 * allowance[row : row + 1]
        what = f"batch entry {row}"
        result.append(agree(what, whole[row : row + 1], alone, both, implementation.dtype))
    return result


def basis_planes(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A basis vector turns in the plane of one partner: all other channels stay zero, and in the
    plane stand the cosine and the sine of its pair's angle."""
    right = rope(implementation, inputs)
    actual = implementation(inputs)
    outside = right.value == 0.0
    outside &= np.broadcast_to(_out_of_plane(implementation, inputs), outside.shape)
    zero = np.zeros(int(outside.sum()))
    return [
        same("outside of the plane", actual[outside], zero, implementation.dtype),
        close("cosine and sine", actual, right, implementation.dtype),
    ]


def _out_of_plane(implementation: Implementation, inputs: Inputs) -> Array:
    """Where a basis vector's image must vanish: [..., n, d], row n being basis vector n."""
    d, r = inputs.arrays["x"].shape[-1], width(inputs)
    pair = np.full(d, -1)
    first, second = paired(implementation, np.arange(d), r)
    pair[first] = pair[second] = np.arange(r // 2)
    together: Array = (pair[:, None] == pair[None, :]) & (pair[:, None] >= 0)
    return np.logical_not(together | np.eye(d, dtype=bool))
