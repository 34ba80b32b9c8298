"""What rope and rope_apply return: the oracle's side of their laws.

Sources: `spec/rope_definition.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.expected import Expected, expected
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.spec import rope_definition
from attnspec.spec.definition import Definition

Array = np.ndarray[Any, Any]

DEFAULT_BASE = 10000.0

_ROPE = {
    (layout, direction): rope_definition.rope(layout, direction)
    for layout in rope_definition.LAYOUTS
    for direction in rope_definition.DIRECTIONS
}
_APPLY = {
    (layout, direction): rope_definition.rope_apply(layout, direction)
    for layout in rope_definition.LAYOUTS
    for direction in rope_definition.DIRECTIONS
}


Call = tuple[Definition, dict[str, Any], dict[str, Any]]
"""A definition, its parameters and its arrays."""


def call_of_rope(implementation: Implementation, inputs: Inputs, x: Any = None) -> Call:
    """A call of rope as its definition takes it."""
    values = inputs.arrays["x"]
    b, h, n, d = values.shape
    parameters = {
        "batch": b,
        "heads": h,
        "length": n,
        "d": d,
        "r": width(inputs),
        "base": float(inputs.options.get("base", DEFAULT_BASE)),
    }
    arrays = {
        "x": values if x is None else x,
        "positions": np.broadcast_to(inputs.arrays["positions"], (b, n)),
    }
    return _ROPE[_planes(implementation)], parameters, arrays


def rope(implementation: Implementation, inputs: Inputs, x: Any = None) -> Expected:
    """The rotated x, of shape b h n d. A pair `x` (values, errors) takes the place of the call's
    own."""
    return expected(*call_of_rope(implementation, inputs, x), implementation.contract)


def call_of_rope_apply(implementation: Implementation, inputs: Inputs) -> Call:
    """A call of rope_apply as its definition takes it."""
    x = inputs.arrays["x"]
    b, h, n, d = x.shape
    tables = {name: inputs.arrays[name].reshape(-1, n, d // 2) for name in ("cos", "sin")}
    parameters = {"batch": b, "heads": h, "length": n, "d": d, "tables": len(tables["cos"])}
    return _APPLY[_planes(implementation)], parameters, {"x": x, **tables}


def rope_apply(implementation: Implementation, inputs: Inputs) -> Expected:
    """x rotated by the tables of the call."""
    return expected(*call_of_rope_apply(implementation, inputs), implementation.contract)


def width(inputs: Inputs) -> int:
    """How many channels turn."""
    return int(inputs.options.get("rotary_dim") or inputs.arrays["x"].shape[-1])


def _planes(implementation: Implementation) -> tuple[str, str]:
    followed = implementation.conventions
    return followed["rope.layout"], followed["rope.direction"]


def paired(implementation: Implementation, values: Array, r: int) -> tuple[Array, Array]:
    """The first and the second channels of the pairs."""
    if implementation.conventions["rope.layout"] == "interleaved":
        return values[..., 0:r:2], values[..., 1:r:2]
    return values[..., : r // 2], values[..., r // 2 : r]


def one_entry(inputs: Inputs) -> tuple[tuple[Any, ...], int, int]:
    """One batch entry, head or position: its index in x, its place, and the axis."""
    x = inputs.arrays["x"]
    rng = generator(inputs, "row")
    axes = [a for a in range(3) if x.shape[a] > 1] or [0]
    axis = axes[rng.integers(len(axes))]
    at = int(rng.integers(x.shape[axis]))
    index: list[Any] = [slice(None)] * 4
    index[axis] = slice(at, at + 1)
    return tuple(index), at, axis
