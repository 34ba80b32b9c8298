"""What the failing calls share and the passing ones lack: a hint where no hypothesis explains a
failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.law import Inputs
from attnspec.search import chosen

Array = np.ndarray[Any, Any]

FEWEST = 3
"""Fewer failing calls, or passing ones, have too much in common by chance."""
SIDE_BY_SIDE = {
    ("t", "s"): ("queries", "keys"),
    ("g", "h"): ("key heads", "query heads"),
    ("e", "d"): ("channels of values", "channels of keys"),
}
"""Axes whose sizes are compared, and what they are called."""
NAMED = 3
"""Features that a message names."""


def in_common(failing: Sequence[Inputs], passing: Sequence[Inputs]) -> str:
    """Features of every failing call that no passing call has, in one line; empty if there is
    none."""
    if len(failing) < FEWEST or len(passing) < FEWEST:
        return ""
    features = [dict(_features(inputs)) for inputs in failing]
    others = [dict(_features(inputs)) for inputs in passing]
    found = []
    for name in features[0]:
        if any(name not in f for f in features):
            continue
        text = _told(name, [f[name] for f in features], [o[name] for o in others if name in o])
        if text:
            found.append(text)
    return "; ".join(found[:NAMED])


def _told(name: str, failing: list[Any], passing: list[Any]) -> str:
    """How the values of one feature tell the two apart; empty where they don't."""
    if set(failing) & set(passing):
        return ""
    if len(set(failing)) == 1:
        return f"{name} {failing[0]}"
    if not all(isinstance(value, int) for value in (*failing, *passing)) or not passing:
        return ""
    if min(failing) > max(passing):
        return f"{name} at least {min(failing)}, and at most {max(passing)} where it passes"
    if max(failing) < min(passing):
        return f"{name} at most {max(failing)}, and at least {min(passing)} where it passes"
    return ""


def _features(inputs: Inputs) -> Iterator[tuple[str, Any]]:
    yield from called(inputs)
    values, _, places = inputs.pattern.partition("; ")
    yield "values", values
    if places:
        kind, _, way = places.partition(": ")
        yield kind, way


def called(inputs: Inputs) -> Iterator[tuple[str, Any]]:
    """Features that a call has however it was drawn."""
    yield "memory layout", inputs.layout
    component = COMPONENTS[inputs.component]
    given = chosen(inputs)
    for option in component.options:
        yield f"option {option}", "given" if option in given else "left out"
    for option, value in inputs.options.items():
        yield f"{option} =", value
    sizes = _sizes(inputs)
    by_axis = {axis: size for (_, axis), size in reversed(sizes.items())}
    for (one, other), (what, than) in SIDE_BY_SIDE.items():
        if one in by_axis and other in by_axis:
            yield f"{what}:", beside(by_axis[one], by_axis[other], than)
    for name in component.arguments:
        yield f"axes of {name}:", inputs.arrays[name].ndim
    for (name, axis), size in sizes.items():
        if name not in component.numbers:
            yield f"size of {axis} of {name}", size
    for name, axes in component.keywords.items():
        if name in inputs.arrays and " " in axes:
            yield from _of_keyword(name, inputs.arrays[name])
    for name in component.numbers:
        yield f"{name} =", inputs.numbers[name]
    first = inputs.arrays[component.first].shape if component.first else None
    dim = inputs.options.get("dim", -1)
    if "dim" in component.options and first:
        yield "size of the axis dim", int(first[dim])
    width = inputs.options.get("rotary_dim")
    if "rotary_dim" in component.options and first:
        yield "rotary_dim below d:", "yes" if width is not None and width < first[-1] else "no"


def _sizes(inputs: Inputs) -> dict[tuple[str, str], int]:
    """(argument, axis) to the size; axes go by their letters, or else by their places."""
    component = COMPONENTS[inputs.component]
    found = component.sizes(inputs)
    named = {name for name, _ in found}
    for name in component.arguments:
        if name not in named:
            shape = inputs.arrays[name].shape
            found |= {(name, f"axis {i}"): int(size) for i, size in enumerate(shape)}
    return found


def beside(one: int, other: int, than: str) -> str:
    """How one size compares with another."""
    return (
        f"as many as {than}"
        if one == other
        else f"{'fewer' if one < other else 'more'} than {than}"
    )


def _of_keyword(name: str, values: Array) -> Iterator[tuple[str, Any]]:
    """Features of a mask or a bias."""
    yield f"axes of {name}:", values.ndim
    yield f"{name} is one row for all queries:", "yes" if _flat(values, -2) else "no"
    hides = not values.all() if values.dtype.kind == "b" else bool(np.isneginf(values).any())
    yield f"{name} hides:", "something" if hides else "nothing"


def _flat(values: Array, axis: int) -> bool:
    return values.ndim < -axis or values.shape[axis] == 1
