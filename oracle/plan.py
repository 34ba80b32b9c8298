"""A tape made ready for one algebra and one set of sizes: a list of closures.

Whatever does not depend on an input array (masks, frequencies, index tables) is computed once,
when the plan is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
import sympy as sp

from attnspec.oracle.algebra import Array, integer_closure
from attnspec.oracle.tape import Op, Tape


class Plan:
    """A tape under one algebra at one set of parameters. Call it with the arrays by name."""

    def __init__(self, tape: Tape, algebra: Any, parameters: Mapping[str, Any]) -> None:
        self.tape = tape
        self.algebra = algebra
        self.parameters = parameters
        self.ndim = len(tape.axes)
        sizes = _sizes(tape)(*(parameters[p] for p in tape.parameters))
        self.sizes = tuple(int(size) for size in sizes)
        self.shape = self.sizes[: tape.rank]
        self._constants: list[Any] = [None] * len(tape.ops)
        self._steps: list[tuple[int, Callable[..., Any], tuple[int, ...]]] = []
        for register in self._needed():
            op = tape.ops[register]
            closure = self._closure(op)
            if op.varies:
                self._steps.append((register, closure, op.args))
            else:
                arguments = [self._constants[a] for a in op.args]
                self._constants[register] = closure(*arguments)

    def __call__(self, arrays: Mapping[str, Any]) -> Any:
        """The result, of shape `self.shape`. Raises ValueError for a missing array."""
        registers = self._constants.copy()
        self._arrays = {name: self._lifted(name, arrays) for name in self.tape.arrays}
        # overflow, 0/0 and the like are values here: algebras say what follows from them
        with np.errstate(all="ignore"):
            for register, closure, args in self._steps:
                registers[register] = closure(*[registers[a] for a in args])
        return self.algebra.finished(registers[self.tape.result], self.shape)

    def _needed(self) -> list[int]:
        """The registers that reach the result, in order. An algebra that takes only the first
        form of an `either` does not pay for the second."""
        first_only = getattr(self.algebra, "first_form_only", False)
        found: set[int] = set()
        waiting = [self.tape.result]
        while waiting:
            register = waiting.pop()
            if register not in found:
                found.add(register)
                op = self.tape.ops[register]
                waiting += op.args[:1] if op.name == "either" and first_only else op.args
        return sorted(found)

    def _lifted(self, name: str, arrays: Mapping[str, Any]) -> Any:
        if name not in arrays:
            raise ValueError(f"{self.tape.name} needs the array {name!r}; given: {list(arrays)}")
        values = arrays[name]
        if isinstance(values, np.ndarray) and values.dtype.kind in "iub":
            return values
        return self.algebra.lift(values)

    def _closure(self, op: Op) -> Callable[..., Any]:
        if op.name == "take":
            return self._take(op)
        closure = integer_closure(op, self)
        if closure is not None:
            return closure
        maker = getattr(self.algebra, {"and": "and_"}.get(op.name, op.name), None)
        if maker is None:
            raise TypeError(f"{type(self.algebra).__name__} has no operation {op.name!r}")
        made: Callable[..., Any] = maker(op, self)
        return made

    def _take(self, op: Op) -> Callable[..., Any]:
        """Entries of an array at index expressions. Plain indices are a view; a branch that is
        not taken may index outside, so such entries are NaN and show where they get through."""
        name = op.extra
        indices = [self._constants[a] for a in op.args]
        if any(i is None for i in indices):
            return lambda *at: self._each(self._arrays[name], lambda a: a[tuple(at)])
        axes = [self._plain_axis(a) for a in op.args]
        if all(axis is not None for axis in axes):
            order = sorted(range(len(axes)), key=lambda k: axes[k] or 0)
            shape = [1] * self.ndim
            for axis in axes:
                shape[axis or 0] = self.sizes[axis or 0]

            def viewed(array: Array) -> Array:
                return array.transpose(order).reshape(shape)

            return lambda *_: self._each(self._arrays[name], viewed)
        gathered = _gatherer(indices, axes, self.ndim)
        return lambda *_: self._each(self._arrays[name], gathered)

    def _plain_axis(self, register: int) -> int | None:
        op = self.tape.ops[register]
        return op.extra if op.name == "index" else None

    def _each(self, value: Any, function: Callable[[Array], Array]) -> Any:
        """Apply to an array, or to each array of an element of the algebra."""
        if isinstance(value, tuple):
            parts = [function(v) if isinstance(v, np.ndarray) and v.ndim else v for v in value]
            return value._make(parts) if hasattr(value, "_make") else tuple(parts)
        return function(value)


def _gatherer(indices: list[Array], axes: list[int | None], ndim: int) -> Callable[[Array], Array]:
    """The function that reads an array at constant index expressions."""
    computed = [place for place, axis in enumerate(axes) if axis is None]
    plain = [axis for axis in axes if axis is not None]
    one = computed[0]
    varying = [axis for axis, size in enumerate(indices[one].shape) if size > 1]
    target = varying[0] if varying else min(set(range(ndim)) - set(plain), default=-1)
    moved = [target if axis is None else axis for axis in axes]
    if len(computed) == 1 and len(varying) <= 1 and moved == list(range(ndim)):
        # one computed index along its own axis: the rest stays where it is
        return partial(_taken, index=indices[one].ravel(), axis=one)
    return partial(_gathered, indices=indices)


def _taken(array: Array, index: Array, axis: int) -> Array:
    size = array.shape[axis]
    inside = (index >= 0) & (index < size)
    if inside.all():
        return array.take(index, axis)
    values = array.take(np.clip(index, 0, max(size - 1, 0)), axis)
    shape = [1] * array.ndim
    shape[axis] = -1
    return _outside_marked(values, inside.reshape(shape))


def _gathered(array: Array, indices: list[Array]) -> Array:
    inside: Any = True
    clamped = []
    for index, size in zip(indices, array.shape, strict=True):
        clamped.append(np.clip(index, 0, max(size - 1, 0)))
        inside = inside & (index >= 0) & (index < size)
    values: Array = array[tuple(clamped)]
    return values if np.all(inside) else _outside_marked(values, inside)


def _outside_marked(values: Array, inside: Any) -> Array:
    """Entries outside of an array, which only an untaken branch may read."""
    if values.dtype.kind in "iub":
        return np.where(inside, values, np.iinfo(values.dtype).min)
    return np.where(inside, values, np.nan)


@cache
def _sizes(tape: Tape) -> Callable[..., tuple[int, ...]]:
    """The sizes of all axes as a function of the parameters."""
    symbols = [sp.Symbol(p) for p in tape.parameters]
    names = dict(zip(tape.parameters, symbols, strict=True))
    sizes = [axis.size.subs({s: names[str(s)] for s in axis.size.free_symbols})
             for axis in tape.axes]  # fmt: skip
    function: Callable[..., tuple[int, ...]] = sp.lambdify(symbols, sizes, modules="math")
    return function


@lru_cache(maxsize=4096)
def planned(tape: Tape, algebra: Any, parameters: tuple[tuple[str, Any], ...]) -> Plan:
    """The plan for these parameters, made once."""
    return Plan(tape, algebra, dict(parameters))
