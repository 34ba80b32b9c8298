"""A tape made ready for one algebra and one set of sizes: a list of closures.

Whatever does not depend on an input array (masks, frequencies, index tables) is computed once,
when the plan is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
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
        for register, op in enumerate(tape.ops):
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
        for register, closure, args in self._steps:
            registers[register] = closure(*[registers[a] for a in args])
        return self.algebra.finished(registers[self.tape.result], self.shape)

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
        return lambda *_: self._each(self._arrays[name], lambda a: _gathered(a, indices))

    def _plain_axis(self, register: int) -> int | None:
        op = self.tape.ops[register]
        return op.extra if op.name == "index" else None

    def _each(self, value: Any, function: Callable[[Array], Array]) -> Any:
        """Apply to an array, or to each array of an element of the algebra."""
        if isinstance(value, tuple):
            parts = [function(v) if isinstance(v, np.ndarray) and v.ndim else v for v in value]
            return value._make(parts) if hasattr(value, "_make") else tuple(parts)
        return function(value)


def _gathered(array: Array, indices: list[Array]) -> Array:
    inside = True
    clamped = []
    for index, size in zip(indices, array.shape, strict=True):
        clamped.append(np.clip(index, 0, max(size - 1, 0)))
        inside = inside & (index >= 0) & (index < size)
    values: Array = array[tuple(clamped)]
    if np.all(inside):
        return values
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
