"""A tape made ready for one algebra and one set of sizes: a list of closures.

Whatever does not depend on an input array (masks, frequencies, index tables) is computed once,
when the plan is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, cached_property, lru_cache, partial
from typing import Any

import numpy as np
import sympy as sp

from attnspec.oracle.algebra import Array, integer_closure
from attnspec.oracle.tape import Op, Result, Tape


class Plan:
    """A tape under one algebra at one set of parameters. Call it with the arrays by name."""

    def __init__(self, tape: Tape, algebra: Any, parameters: Mapping[str, Any]) -> None:
        self.tape = tape
        self.algebra = algebra
        self.parameters = parameters
        self.ndim = len(tape.axes)
        sizes = _sizes(tape)(*(parameters[p] for p in tape.parameters))
        self.sizes = tuple(int(size) for size in sizes)
        self._results = [self._ordered(result) for result in tape.results]
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
        self._forget_parts()

    def _forget_parts(self) -> None:
        """Keep the constants that a call reads: what they were made from may be far larger (the
        signs of a Hadamard matrix come from an array with an axis of binary digits)."""
        read = {result.register for result in self.tape.results}
        read.update(argument for _, _, args in self._steps for argument in args)
        self._constants = [
            constant if register in read else None
            for register, constant in enumerate(self._constants)
        ]

    @cached_property
    def work(self) -> int:
        """How many numbers the largest operation reads together."""
        ops = self.tape.ops
        axes = (frozenset().union(*(ops[a].axes for a in op.args)) for op in ops)
        return max(math.prod(self.sizes[a] for a in group) for group in axes)

    def __call__(self, arrays: Mapping[str, Any]) -> Any:
        """The result, or a tuple of them where the tape has several. Raises ValueError for a
        missing array."""
        registers = self._constants.copy()
        self._arrays = {name: self._lifted(name, arrays) for name in self.tape.arrays}
        # overflow, 0/0 and the like are values here: algebras say what follows from them
        with np.errstate(all="ignore"):
            for register, closure, args in self._steps:
                registers[register] = closure(*[registers[a] for a in args])
            results = tuple(read(registers) for read in self._results)
        return results[0] if len(results) == 1 else results

    def _ordered(self, result: Result) -> Callable[[list[Any]], Any]:
        """The function that takes a result out of the registers, its axes in order."""
        shape = tuple(self.sizes[axis] for axis in result.axes)
        rest = [axis for axis in range(self.ndim) if axis not in result.axes]
        order = (*result.axes, *rest)
        if order == tuple(range(self.ndim)):
            return lambda registers: self.algebra.finished(registers[result.register], shape)

        def turned(array: Array) -> Array:
            return array.transpose(order)

        return lambda registers: self.algebra.finished(
            self._each(registers[result.register], turned), shape
        )

    def _needed(self) -> list[int]:
        """The registers that reach the results, in order. An algebra that reads only some
        operands of an operation (one form of an `either`) does not pay for the others."""
        read = getattr(self.algebra, "read", {})
        found: set[int] = set()
        waiting = [result.register for result in self.tape.results]
        while waiting:
            register = waiting.pop()
            if register not in found:
                found.add(register)
                op = self.tape.ops[register]
                waiting += op.args[read[op.name]] if op.name in read else op.args
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

    def constant(self, register: int) -> Any:
        """What a register holds that depends on sizes alone."""
        return self._constants[register]

    def _take(self, op: Op) -> Callable[..., Any]:
        """Entries of an array at index expressions. Plain indices are a view; a branch that is
        not taken may index outside, so such entries are NaN and show where they get through."""
        name = op.extra
        indices = [self._constants[a] for a in op.args]
        if any(i is None for i in indices):
            return lambda *at: self._each(self._arrays[name], lambda a: a[tuple(at)])
        read = self._reader(op.args, indices)
        return lambda *_: self._each(self._arrays[name], read)

    def _reader(self, registers: tuple[int, ...], indices: list[Array]) -> Callable[[Array], Array]:
        """The function that reads an array at constant index expressions."""
        axes = [_only(self.tape.ops[r].axes) for r in registers]
        if None in axes or len(set(axes)) < len(axes):
            return partial(_gathered, indices=indices)
        places = [axis or 0 for axis in axes]
        wanted = [index.ravel() for index in indices]
        # an index that runs along its axis reads everything there, if that is as long
        plain = [np.array_equal(at, np.arange(len(at))) for at in wanted]
        order = sorted(range(len(places)), key=lambda k: places[k])
        shape = [1] * self.ndim
        for axis in places:
            shape[axis] = self.sizes[axis]

        whole = tuple(len(at) for at in wanted) if all(plain) else None

        def read(array: Array) -> Array:
            if array.shape == whole:
                return array.transpose(order).reshape(shape)
            for dimension, at in enumerate(wanted):
                if not plain[dimension] or array.shape[dimension] != len(at):
                    array = _taken(array, at, dimension)
            return array.transpose(order).reshape(shape)

        return read

    def _each(self, value: Any, function: Callable[[Array], Array]) -> Any:
        """Apply to an array, or to each array of an element of the algebra."""
        if isinstance(value, tuple):
            parts = [function(v) if isinstance(v, np.ndarray) and v.ndim else v for v in value]
            return value._make(parts) if hasattr(value, "_make") else tuple(parts)
        return function(value)


def _only(axes: frozenset[int]) -> int | None:
    """The one axis of a set of one."""
    return next(iter(axes)) if len(axes) == 1 else None


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
