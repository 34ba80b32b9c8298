"""Records of the input side: what narrows a draw, what is drawn, and how it becomes a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from attnspec.oracle.law import Inputs
from attnspec.oracle.values import PLACES, SPECIALS, Pattern, Span, filled, placed

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

LAYOUTS = (
    "contiguous", "transposed", "row-step", "column-step", "expanded", "offset", "heads-inside",
    "heads-repeated",
)  # fmt: skip
"""How a floating array lies in memory: in order; with its last two axes exchanged; every second
row, or every second column, of a larger block; with stride 0 on the leading axis, so that the
values repeat along it; behind other data; with the two axes before the last exchanged (b t h d,
seen as b h t d); with stride 0 on the second of four axes."""
CHANNELS = "channels-repeated"
"""Stride 0 on the last axis: one number for all channels, as a mean over them sends back. For
upstream gradients alone."""
REPEATED: Mapping[str, tuple[int, int]] = {
    "expanded": (0, 1), "heads-repeated": (1, 4), CHANNELS: (-1, 1),
}  # fmt: skip
"""Layouts that need values which repeat: along which axis, and how many axes an array must have
at least (another is contiguous)."""
UNIFORM = "uniform"
"""Stride 0 on every axis: one number in memory, as a mean over everything sends back. For upstream
gradients alone."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What narrows the tables: one function of one target at one dtype."""

    component: str
    dtype: str
    accepts: frozenset[str] = frozenset()
    """Options that the function takes."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Axis letter to a set of sizes or `(min, max[, step])`, those of the component merged in."""
    conventions: Mapping[str, str] = field(default_factory=dict)
    """What the target follows. No family of softmax and rope depends on it."""
    index_dtype: str = "int64"
    """Of positions."""


class Form(NamedTuple):
    """A legal shape of the first argument, with options."""

    shape: Shape
    options: Mapping[str, Any]


def naming_the_dtype(scope: Scope) -> tuple[Mapping[str, Any], ...]:
    """Ways to ask for the result's dtype, where no argument tells it: by option, with or without
    the device; and, as float32 is what nobody need ask for, not at all."""
    typed = {"dtype": scope.dtype}
    named: list[Mapping[str, Any]] = []
    if "dtype" in scope.accepts:
        named.append(typed)
        if "device" in scope.accepts:
            named.append({**typed, "device": "cpu"})
    return (*([{}] if scope.dtype == "float32" else []), *named)


class Dress(NamedTuple):
    """Memory layout, and up to two (place, name of a special number)."""

    layout: str
    specials: tuple[tuple[str, str], ...]


def _dresses() -> tuple[Dress, ...]:
    """Plain layouts nine times, then as many entries with one special number, then with two."""
    one = [(place, name) for name in SPECIALS for place in PLACES]
    turns = len(LAYOUTS)
    plain = [Dress(layout, ()) for layout in LAYOUTS]
    single = [Dress(LAYOUTS[0], (s,)) for s in one]
    single += [Dress(LAYOUTS[(i + i // turns) % turns], (s,)) for i, s in enumerate(one)]
    double = [
        Dress(LAYOUTS[(i + i // turns) % turns], (s, one[(7 * i + 5) % len(one)]))
        for i, s in enumerate(one)
    ]
    return (*plain, *single, *double, *plain * 12)


DRESSES: tuple[Dress, ...] = _dresses()
"""Simplest first; the plain ones again at the end, so that they are half of all."""
PLAIN: tuple[Dress, ...] = tuple(Dress(layout, ()) for layout in LAYOUTS)

_ONCE = [layout for layout in LAYOUTS if layout not in REPEATED]
WEIGHT_DRESSES: tuple[Dress, ...] = tuple(
    Dress(layout, ()) for layout in (*_ONCE, *_ONCE, "contiguous", "expanded", *_ONCE)
)
"""For calls with weights: memory layouts alone, and seldom one that repeats values, as a weight
with stride 0 is one row over and over."""
UPRIGHT: tuple[Dress, ...] = (Dress("contiguous", ()),)
"""For calls that a law makes others of."""


class Draw(NamedTuple):
    """What is drawn for a call: places in the tables, and a seed."""

    form: Form
    extra: Any
    """Of a type of the family's own."""
    pattern: Pattern
    dress: Dress
    seed: int


@dataclass(frozen=True, kw_only=True)
class Family:
    """One named kind of inputs, to which laws refer."""

    name: str
    component: str
    says: str
    forms: Callable[[Scope], tuple[Form, ...]]
    """Legal shapes with options, simplest first. Raises ValueError when limits leave none."""
    extras: tuple[Any, ...]
    """What only this family draws, simplest first."""
    build: Callable[[Scope, Draw], Inputs]
    """From what was drawn to the call."""
    patterns: tuple[Pattern, ...]
    dresses: tuple[Dress, ...] = DRESSES


def floats(
    rng: np.random.Generator, shape: Shape, pattern: Pattern, dress: Dress, span: Span
) -> Array:
    """An array of finite numbers of the dtype, as float64, that can lie in memory as asked."""
    drawn = stored_shape(shape, dress.layout)
    values = placed(filled(pattern, rng, drawn, span), dress.specials, rng, span)
    return values if drawn == shape else np.broadcast_to(values, shape).copy()


def repeated_axis(ndim: int, layout: str) -> int | None:
    """The axis along which an array with so many axes repeats in a layout."""
    axis, least = REPEATED.get(layout, (0, ndim + 1))
    return axis % ndim if ndim >= least else None


def stored_shape(shape: Shape, layout: str) -> Shape:
    """A shape, with 1 for the axis along which the values repeat."""
    axis = repeated_axis(len(shape), layout)
    return shape if axis is None else (*shape[:axis], min(1, shape[axis]), *shape[axis + 1 :])


def repeated(values: Array, layout: str) -> Array:
    """The same array, or its first slice over and over where the layout repeats one."""
    stored = stored_shape(values.shape, layout)
    if stored == values.shape:
        return values
    first = values[tuple(map(slice, stored))]
    return np.broadcast_to(first, values.shape).copy()
