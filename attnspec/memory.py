"""How an argument lies in memory: strided inside a larger buffer whose other cells are poisoned.

Whatever a kernel reads beside its input is NaN (for integers a huge number, for truth values
True), and whatever it writes there is seen by comparing the buffer's bytes before and after the
call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from attnspec.oracle.family import (
    CHANNELS,
    LAYOUTS,
    REPEATED,
    UNIFORM,
    repeated,
    repeated_axis,
    stored_shape,
)
from attnspec.oracle.precision import NUMPY_TYPES

Array = np.ndarray[Any, Any]

ALIGNMENT = 64
"""Bytes. Buffers start at a multiple of it, guard zones are multiples of it: vector code then
treats an element the same whichever buffer it is in (`exact laws` need that)."""
GUARD = 4 * ALIGNMENT
"""Bytes of guard zone on each side."""
POISON = {"int64": 0x5A5A5A5A5A5A5A5A, "int32": 0x5A5A5A5A, "bool": True}
"""What guard zones hold around positions and indices: numbers far outside every legal range; and
around masks: that everything may be seen."""

_BFLOAT16_NAN = 0x7FC0


@dataclass(frozen=True)
class Plan:
    """Where the elements of one array lie in its buffer, counted in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int
    size: int
    """Length of the whole buffer, guard zones and gaps included."""


_EXCHANGED = {"transposed": 1, "heads-inside": 2}
"""Layouts in which an axis, by its place from the end, changes places with the one before it."""
_STEPPED = {"row-step": 2, "column-step": 1}
"""Layouts in which every second place along an axis is used, by its place from the end."""


@lru_cache(maxsize=4096)
def plan(shape: tuple[int, ...], layout: str, itemsize: int) -> Plan:
    """The plan of an array of `shape` in one of `oracle.inputs.LAYOUTS`, `CHANNELS` or
    `UNIFORM`. An array with too few axes for its layout is contiguous. Raises ValueError for a
    layout that does not exist."""
    if layout not in (*LAYOUTS, CHANNELS, UNIFORM):
        raise ValueError(f"unknown layout {layout!r}")
    guard = GUARD // itemsize
    order, rank = list(range(len(shape))), len(shape)
    if (last := _EXCHANGED.get(layout, rank)) < rank:
        order[-last - 1], order[-last] = order[-last], order[-last - 1]
    steps = [1] * rank
    if (behind := _STEPPED.get(layout, rank + 1)) <= rank:
        steps[-behind] = 2
    stored = stored_shape(shape, layout)
    if layout == UNIFORM:
        stored = tuple(min(1, n) for n in shape)
    strides, cells = [0] * rank, 1
    for axis in reversed(order):
        kept = layout == UNIFORM or axis == repeated_axis(rank, layout)
        strides[axis] = 0 if kept else cells * steps[axis]
        cells *= max(1, stored[axis]) * steps[axis]
    start = guard + (layout == "offset")
    unit = ALIGNMENT // itemsize
    size = -(-(start + math.prod(stored) * math.prod(steps) + guard) // unit) * unit
    return Plan(shape, tuple(strides), start, size)


def planned(values: Array, layout: str, itemsize: int) -> Plan:
    """The plan of `values`; contiguous where entries along an axis that repeats differ, so that
    they cannot share memory."""
    if layout in REPEATED and not (values == repeated(values, layout)).all():
        layout = "contiguous"
    if layout == UNIFORM and values.size and not (values == values.flat[0]).all():
        layout = "contiguous"
    return plan(values.shape, layout, itemsize)


def buffer(values: Array, dtype: str, where: Plan) -> Array:
    """A fresh aligned buffer that holds `values` at `where` and poison everywhere else.

    `dtype` is a storage dtype, an index dtype or `bool`. bfloat16 comes as int16 with the same
    bits.
    """
    whole = dtype in POISON
    kind = np.dtype(dtype) if whole else NUMPY_TYPES[dtype]
    carrier = np.dtype(np.int16) if dtype == "bfloat16" else kind
    length = where.size * kind.itemsize
    raw = np.empty(length + ALIGNMENT, np.uint8)
    skip = -int(raw.__array_interface__["data"][0]) % ALIGNMENT
    flat: Array = raw[skip : skip + length].view(carrier)
    flat.fill(POISON[dtype] if whole else _BFLOAT16_NAN if dtype == "bfloat16" else np.nan)
    seen = strided(flat, dtype, where)
    once = tuple(slice(None if stride else 1) for stride in where.strides)
    seen[once] = values[once]
    return flat


def strided(flat: Array, dtype: str, where: Plan) -> Array:
    """The NumPy view of the buffer `flat` that `where` describes."""
    kind = np.dtype(dtype) if dtype in POISON else NUMPY_TYPES[dtype]
    item = kind.itemsize
    return np.ndarray(
        where.shape,
        kind,
        flat.data,
        where.start * item,
        tuple(stride * item for stride in where.strides),
    )


def told(name: str, before: Array, after: Array, dtype: str, where: Plan) -> str:
    """What happened to the buffer of an argument, at the first place that differs; empty where
    nothing did."""
    old, new = (np.ascontiguousarray(flat) for flat in (before, after))
    item = strided(old, dtype, where).itemsize
    different = (old.view(np.uint8) != new.view(np.uint8)).reshape(-1, item).any(axis=1)
    cells = np.flatnonzero(different)
    if not cells.size:
        return ""
    was, seen = (strided(flat, dtype, where) for flat in (old, new))
    offsets = where.start + sum(
        (
            step * np.arange(size).reshape(-1, *[1] * (len(where.shape) - 1 - axis))
            for axis, (size, step) in enumerate(zip(where.shape, where.strides, strict=True))
        ),
        np.zeros(where.shape, np.int64),
    )
    own = np.isin(offsets, cells)
    if own.any():
        place = tuple(int(i) for i in np.unravel_index(int(own.argmax()), where.shape))
        index = ", ".join(map(str, place))
        return f"{name} changed at [{index}]: was {_plain(was[place])}, is {_plain(seen[place])}"
    first = int(cells[0])
    if not offsets.size or first > int(offsets.max()):
        return f"memory behind the end of {name} was written"
    if first < int(offsets.min()):
        return f"memory before the start of {name} was written"
    return f"memory between the entries of {name} was written"


def _plain(value: Any) -> str:
    kind = np.asarray(value).dtype.kind
    if kind == "b":
        return str(bool(value))
    return str(int(value)) if kind in "iu" else f"{float(value):.9g}"
