"""The catalogue of wrong implementations, which measures the suite."""

from __future__ import annotations

from attnspec.impls.faults import (
    rope,
    rope_angles,
    rope_apply,
    rope_memory,
    rope_positions,
    softmax,
    softmax_memory,
    softmax_shape,
)
from attnspec.impls.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (
    *softmax.FAULTS,
    *softmax_shape.FAULTS,
    *softmax_memory.FAULTS,
    *rope.FAULTS,
    *rope_angles.FAULTS,
    *rope_positions.FAULTS,
    *rope_memory.FAULTS,
    *rope_apply.FAULTS,
)


def fault(name: str) -> Fault:
    """The fault with this id. Raises KeyError, with ids that resemble it."""
    for candidate in FAULTS:
        if candidate.id == name:
            return candidate
    from difflib import get_close_matches

    near = get_close_matches(name, [candidate.id for candidate in FAULTS])
    hint = f"; near it: {', '.join(near)}" if near else ""
    raise KeyError(f"no fault {name!r}{hint}")
