"""The tensors of one call, each in guarded memory of its own, and what became of that memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnspec import memory
from attnspec.arrays import Crossing
from attnspec.oracle.callee import Heard
from attnspec.oracle.law import Record
from attnspec.oracle.precision import numpy_type

Array = np.ndarray[Any, Any]

MOST_AXES = 8
"""Of a tensor whose form is looked at."""


@dataclass(frozen=True)
class Handed:
    """One tensor that was handed over."""

    name: str
    values: Array
    dtype: str
    """What it is stored in: a storage dtype, an index dtype or `bool`."""
    where: memory.Plan
    given: Any
    """What the target got."""
    now: Callable[[], Array]
    """Reads its buffer as it is."""

    def before(self) -> Array:
        """Its buffer as it was, made anew."""
        return memory.buffer(self.values, self.dtype, self.where)


def handed(
    name: str, values: Array, dtype: str, layout: str, *, crossing: Crossing, device: str
) -> Handed:
    """Place values in a fresh guarded buffer and hand them over."""
    where = memory.planned(values, layout, numpy_type(dtype).itemsize)
    flat = memory.buffer(values, dtype, where)
    given, now = crossing.hand(flat, where, dtype, device)
    return Handed(name, values, dtype, where, given, now)


def given(tensors: Sequence[Handed]) -> dict[str, Any]:
    """What the target gets for each tensor."""
    return {tensor.name: tensor.given for tensor in tensors}


Bundle = tuple[dict[str, Any], dict[str, Any]]
"""A dict that was handed over, and what it held then."""


@dataclass
class Latest:
    """What was handed over in the latest call."""

    tensors: Sequence[Handed] | None = None
    """None before the first call."""
    bundles: Sequence[Bundle] = ()
    heard: list[Callable[[], Heard]] = field(default_factory=list)
    """What the functions that were handed over were given."""

    def record(self) -> Record:
        """Every byte of the tensors' buffers, guard zones included, their forms, and which
        entries the dicts hold, before and now. Raises RuntimeError before the first call."""
        if self.tensors is None:
            raise RuntimeError("memory() before any call")
        tensors = self.tensors
        before = [*(t.before() for t in tensors), *(_row(_form_of_plan(t.where)) for t in tensors)]
        now = [*(t.now() for t in tensors), *(_row(_form(t)) for t in tensors)]
        for given, held in self.bundles:
            before.append(np.ones(len(held) + 1, np.bool_))
            kept = [given.get(name) is value for name, value in held.items()]
            now.append(np.array([*kept, len(given) == len(held)]))
        return Record(_bytes(before), _bytes(now))

    def written(self) -> str:
        """What happened to all that, in words; empty where nothing did."""
        for tensor in self.tensors or ():
            text = memory.told(
                tensor.name, tensor.before(), tensor.now(), tensor.dtype, tensor.where
            )
            if text:
                return text
            if (form := _form(tensor)) != (was := _form_of_plan(tensor.where)):
                return (
                    f"{tensor.name} itself was changed: shape {was[0]} and strides {was[1]} "
                    f"became {form[0]} and {form[1]}"
                )
        for given, held in self.bundles:
            others = [n for n in (*held, *given) if given.get(n) is not held.get(n, given)]
            if others:
                return f"the dict itself was changed, at {', '.join(dict.fromkeys(others))}"
        return ""


Form = tuple[tuple[int, ...], tuple[int, ...]]
"""Shape, and strides in elements."""


def _form_of_plan(where: memory.Plan) -> Form:
    return where.shape, where.strides


def _form(tensor: Handed) -> Form:
    """The form of the object that was handed over, as it is; as it was where it tells nothing."""
    given = tensor.given
    if isinstance(given, np.ndarray):
        return given.shape, tuple(s // given.itemsize for s in given.strides)
    if hasattr(given, "stride"):
        return tuple(given.shape), tuple(given.stride())
    return _form_of_plan(tensor.where)


def _row(form: Form) -> Array:
    """A form as as many numbers for any number of axes."""
    shape, strides = form
    row = np.full(2 * MOST_AXES, -1, np.int64)
    row[: min(len(shape), MOST_AXES)] = shape[:MOST_AXES]
    row[MOST_AXES : MOST_AXES + min(len(strides), MOST_AXES)] = strides[:MOST_AXES]
    return row


def _bytes(buffers: list[Array]) -> Array:
    return np.concatenate([np.ascontiguousarray(b).view(np.uint8) for b in buffers])
