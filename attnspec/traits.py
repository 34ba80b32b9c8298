"""What the failing calls share and the passing ones lack: a hint where no hypothesis explains a
failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.law import Inputs

FEWEST = 3
"""Fewer failing calls, or passing ones, have too much in common by chance."""
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
    yield "memory layout", inputs.layout
    values, _, places = inputs.pattern.partition("; ")
    yield "values", values
    if places:
        kind, _, way = places.partition(": ")
        yield kind, way
    component = COMPONENTS[inputs.component]
    for option in component.options:
        yield f"option {option}", "given" if option in inputs.options else "left out"
    for option, value in inputs.options.items():
        yield f"{option} =", value
    for name, letters in component.arguments.items():
        shape = inputs.arrays[name].shape
        yield f"axes of {name}:", len(shape)
        axes = letters.split()
        named = (
            axes
            if "..." not in axes and len(axes) == len(shape)
            else [f"axis {i}" for i in range(len(shape))]
        )
        for axis, length in zip(named, shape, strict=True):
            yield f"size of {axis} of {name}", int(length)
    first = inputs.arrays[component.first].shape
    dim = inputs.options.get("dim", -1)
    if "dim" in component.options and first:
        yield "size of the axis dim", int(first[dim])
    width = inputs.options.get("rotary_dim")
    if "rotary_dim" in component.options:
        yield "rotary_dim below d:", "yes" if width is not None and width < first[-1] else "no"
