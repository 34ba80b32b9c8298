"""The checks of sinusoidal's own laws: from an implementation and inputs to two sides and an
allowance.

Sources: the claims of `spec/sinusoidal.py` and its neighbours. A pair of channels is read as a
point on the unit circle. What is formed from such points, sums and products, is formed twice by one
formula: from those that came back, and from the right ones with their allowances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from attnspec.oracle.calls import agree, alike, same
from attnspec.oracle.carried import Carried, carried
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.precision import FORMATS, LIBRARY_ULPS
from attnspec.oracle.sinusoidal_values import paired, sinusoidal

Array = np.ndarray[Any, Any]

SHIFTS = (1, 3, 16, 256, 2048, 65536)
NEAR = 3
"""Distances up to which the products of encodings fall at every width: 3 is below pi."""


class Points(NamedTuple):
    """The pairs of every position: sines and cosines, n dim/2 each."""

    sin: Any
    cos: Any


class Read(NamedTuple):
    """The pairs of one call: as they came back, and as they should be."""

    actual: Points
    right: Points


def _read(implementation: Implementation, inputs: Inputs, positions: Array | None = None) -> Read:
    """The pairs at other positions than those of the call, if any are given."""
    if positions is not None:
        index = inputs.arrays["positions"].dtype
        inputs = inputs.with_arrays(positions=positions.astype(index))
    rows, right = implementation(inputs), sinusoidal(implementation, inputs)
    values, rooms = (paired(implementation, part) for part in (right.value, right.allowance))
    points = Points(*(Carried(*pair) for pair in zip(values, rooms, strict=True)))
    return Read(Points(*paired(implementation, rows)), points)


def _both(formula: Callable[..., Any], *reads: Read) -> tuple[Array, Array]:
    """What a formula makes of the points that came back, and how far that may be off."""
    value: Array = formula(*(read.actual for read in reads))
    room: Array = formula(*(read.right for read in reads)).error
    return value, room


def _shift(inputs: Inputs) -> int:
    return SHIFTS[int(generator(inputs, "shift").integers(len(SHIFTS)))]


def position_zero(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """At position 0 every sine is 0 and every cosine 1."""
    sin, cos = paired(implementation, implementation(inputs))
    dtype = implementation.dtype
    return [
        same("sines at position 0", sin, np.zeros(sin.shape), dtype),
        same("cosines at position 0", cos, np.ones(cos.shape), dtype),
    ]


def unit_pairs(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The squared length of every pair is 1."""
    squares, room = _both(lambda p: p.sin * p.sin + p.cos * p.cos, _read(implementation, inputs))
    return [alike("sin^2 + cos^2 of a pair", squares, np.ones(squares.shape), room, "float64")]


def _turned(start: Points, by: Points) -> tuple[Any, Any]:
    """The sine and the cosine of the sums of two angles."""
    return (
        start.sin * by.cos + start.cos * by.sin,
        start.cos * by.cos - start.sin * by.sin,
    )


def angle_addition(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The pairs at m and at k, as rotations one after the other, are those at m + k."""
    positions = inputs.arrays["positions"]
    rng = generator(inputs, "second")
    more = rng.integers(0, 300, size=len(positions))
    more[int(rng.integers(len(more)))] = _shift(inputs)
    start = _read(implementation, inputs)
    by = _read(implementation, inputs, more)
    end = _read(implementation, inputs, positions + more)
    result = []
    for part, what in enumerate(("sine", "cosine")):
        found, room = _both(lambda a, b, part=part: _turned(a, b)[part], start, by)
        whole, right = end.actual[part], end.right[part]
        result.append(agree(f"{what} at m + k", found, whole, room + right.error, "float64"))
    return result


def _rotation(start: Points, end: Points) -> tuple[Any, Any]:
    """The sine and the cosine of the differences of two angles: the rotation between them."""
    return (
        end.sin * start.cos - end.cos * start.sin,
        end.cos * start.cos + end.sin * start.sin,
    )


def shift_is_a_rotation(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The rotation from the pairs at m to those at m + k is the same for every row."""
    shift = _shift(inputs)
    start = _read(implementation, inputs)
    end = _read(implementation, inputs, inputs.arrays["positions"] + shift)
    result = []
    for part, what in enumerate(("sine", "cosine")):
        found, room = _both(lambda a, b, part=part: _rotation(a, b)[part], start, end)
        first = np.broadcast_to(found[:1], found.shape)
        words = f"{what} of the rotation by {shift} positions, of each row and of row 0"
        result.append(agree(words, found, first, room + room[:1], "float64"))
    return result


def _products(rows: Carried | Array) -> Any:
    """The product of every row with every other."""
    return (rows[:, None, :] * rows[None, :, :]).sum(2)


def product_of_distance(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The products of all pairs of rows stay under one shift of all positions, and each row's with
    itself is dim/2."""
    positions, shift = inputs.arrays["positions"], _shift(inputs)
    later = inputs.with_arrays(positions=(positions + shift).astype(positions.dtype))
    found = []
    for one in (inputs, later):
        rows, right = implementation(one), sinusoidal(implementation, one)
        found.append((_products(rows), _products(carried(right)).error))
    (before, room), (after, more) = found
    itself, own = (np.diagonal(part) for part in found[0])
    half = np.full(itself.shape, inputs.numbers["dim"] / 2)
    return [
        agree(f"products after a shift by {shift}", after, before, room + more, "float64"),
        alike("product of a row with itself", itself, half, own, "float64"),
    ]


def _distance(one: Points, other: Points) -> Any:
    """Squared distance of two rows."""
    sin, cos = one.sin - other.sin, one.cos - other.cos
    return (sin * sin + cos * cos).sum(1)


def step_is_constant(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """From every position to the next it is as far as from 0 to 1."""
    positions = inputs.arrays["positions"]
    zero = np.zeros_like(positions)
    reads = [_read(implementation, inputs, at) for at in (positions, positions + 1, zero, zero + 1)]
    here, room = _both(_distance, *reads[:2])
    first, more = _both(_distance, *reads[2:])
    return [agree("squared distance to the next row", here, first, room + more, "float64")]


def nearer_is_more_similar(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Up to a distance of 3 the nearer of two rows is the more similar one. Where the allowances
    leave the order open, nothing is promised."""
    positions = inputs.arrays["positions"]
    start = _read(implementation, inputs)
    result, before = [], (np.zeros(len(positions)), Carried(*np.zeros((2, len(positions)))))
    for steps in range(1, NEAR + 1):
        end = _read(implementation, inputs, positions + steps)
        distance = _distance(start.actual, end.actual), _distance(start.right, end.right)
        gap = distance[1] - before[1]
        rises = np.where(distance[0] > before[0], 1.0, 0.0)[gap.value > gap.error]
        what = f"row {steps} positions on is farther away than the one before it"
        result.append(same(what, rises, np.ones(len(rises)), "float64"))
        before = distance
    return result


def distinct_positions(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Rows of different positions differ, wherever no rounding that is allowed makes them equal."""
    rows, right = implementation(inputs), sinusoidal(implementation, inputs)
    equal = (rows[:, None] == rows[None]).all(2)
    gap = np.abs(right.value[:, None] - right.value[None])
    apart = (gap > right.allowance[:, None] + right.allowance[None]).any(2)
    found = np.where(equal & apart, 1.0, 0.0)
    return [same("equal rows of different positions", found, np.zeros(found.shape), "float64")]


def frequencies_read_off(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The angle by which each pair has turned at position 1, and half of that at 2."""
    positions = inputs.arrays["positions"][:, None]
    (sin, cos), right = _read(implementation, inputs)
    turned = np.arctan2(sin, cos) / positions
    wanted = np.arctan2(right.sin.value, right.cos.value)
    # of a unit vector moved by (x, y): what moves it sideways, over what is left lengthways
    s, c = np.abs(right.sin.value), np.abs(right.cos.value)
    sideways = c * right.sin.error + s * right.cos.error
    left = 1.0 - (s * right.sin.error + c * right.cos.error)
    own = FORMATS["float64"]
    room = sideways / np.maximum(left, own.normal)
    # both sides are an arc tangent, of the accuracy of a library, and a division
    room += 2.0 * (2.0 * LIBRARY_ULPS + 1.0) * own.roundoff * (np.abs(wanted) + room)
    return [alike("frequency of a pair", turned, wanted / positions, room / positions, "float64")]


def every_other_pair(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Pair i is pair 2i of twice as many channels."""
    wide = inputs.with_numbers(dim=2 * inputs.numbers["dim"])
    if not implementation.legal(wide):
        return []
    few, many = _read(implementation, inputs), _read(implementation, wide)
    result = []
    for part, what in enumerate(("sine", "cosine")):
        room = few.right[part].error + many.right[part].error[:, ::2]
        one, other = few.actual[part], many.actual[part][:, ::2]
        words = f"{what} of pair i, and of pair 2i of twice as many channels"
        result.append(agree(words, one, other, room, implementation.dtype))
    return result


def permuted_positions(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The same positions in another order, some of them twice and others left out, give the same
    rows in that order."""
    positions = inputs.arrays["positions"]
    order = generator(inputs, "order").integers(len(positions), size=len(positions))
    rows = implementation(inputs)[order]
    moved = implementation(inputs.with_arrays(positions=positions[order]))
    room = 2.0 * sinusoidal(implementation, inputs).allowance[order]
    dtype = implementation.dtype
    exact = "batch-invariant" in implementation.guarantees
    what = "rows of positions in another order"
    return [
        agree(what, moved, rows, room, dtype),
        same(f"{what}, to the bit", moved, rows, dtype, promised=exact),
    ]
