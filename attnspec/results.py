"""What a call must return: one result, or a tuple of several."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnspec.arrays import Due, described
from attnspec.oracle.component import Component
from attnspec.oracle.law import Breach, Inputs
from attnspec.oracle.precision import WHOLE_TYPES

WIDE = ("float32", "float64")
"""Dtypes of a result that is float32 or wider."""


def due(component: Component, inputs: Inputs, dtype: str, device: str) -> tuple[Due, ...]:
    """What each result of a call must be, in their order. They have names where there are
    several."""
    shape, further = component.result(inputs), component.also(inputs)
    if not further:
        return (Due(shape, WHOLE_TYPES if component.whole else (dtype,), device),)
    return (
        Due(shape, (dtype,), device, "output"),
        *(Due(a.shape, WIDE if a.wide else (dtype,), device, a.name) for a in further),
    )


def unpacked(returned: Any, dues: tuple[Due, ...]) -> tuple[Any, ...]:
    """The results one by one, not looked into. Raises Breach of kind `type` where a tuple is due
    and something else came, or another number of results."""
    if len(dues) == 1:
        return (returned,)
    if not isinstance(returned, (tuple, list)) or len(returned) != len(dues):
        names = ", ".join(d.called for d in dues)
        raise Breach("type", f"returned {described(returned)}; expected a tuple ({names})")
    return tuple(returned)


def choosing(component: Component, inputs: Inputs) -> frozenset[str]:
    """Options of the call that say which further results are returned."""
    further = component.also(inputs)
    if not further:
        return frozenset()
    return frozenset(
        option for option in inputs.options if component.also(_without(inputs, option)) != further
    )


def _without(inputs: Inputs, option: str) -> Inputs:
    left = {name: value for name, value in inputs.options.items() if name != option}
    return replace(inputs, options=left)
