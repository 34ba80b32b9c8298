"""What an algebra must offer: one maker of closures for each operation of the tape.

`algebra.add(op, plan)` returns the function that adds two registers. Closures are made once a
plan, so that whatever depends on shapes, contracts or constants is worked out beforehand.
Integers and conditions are the same in every algebra: exact, in numpy arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from attnspec.oracle.tape import Op

if TYPE_CHECKING:
    from attnspec.oracle.plan import Plan

Array = np.ndarray[Any, Any]
Closure = Callable[..., Any]


class Algebra(Protocol):
    """The real operations, by the names that the compiler gives them."""

    def lift(self, values: Any) -> Any:
        """An input array, as the algebra carries it."""

    def real(self, op: Op, plan: Plan) -> Closure:
        """Integers as reals."""

    def ratio(self, op: Op, plan: Plan) -> Closure:
        """The constant p/q."""

    def finished(self, value: Any, shape: tuple[int, ...]) -> Any:
        """The result, broadcast to its full shape."""


def integer_closure(op: Op, plan: Plan) -> Closure | None:
    """The exact operation on integers and conditions; None where the algebra decides."""
    if op.name == "const":
        value = np.array(op.extra).reshape((1,) * plan.ndim)
        return lambda: value
    if op.name == "index":
        shape = [1] * plan.ndim
        shape[op.extra] = plan.sizes[op.extra]
        index = np.arange(plan.sizes[op.extra]).reshape(shape)
        return lambda: index
    if op.name == "parameter" and op.kind == "integer":
        value = np.array(int(plan.parameters[op.extra])).reshape((1,) * plan.ndim)
        return lambda: value
    if op.kind == "condition" and op.name in ("and", "or", "not"):
        return _LOGIC[op.name]
    operands = [plan.tape.ops[a].kind for a in op.args]
    if op.kind == "condition" and operands == ["integer", "integer"]:
        return _COMPARE[op.name]
    if op.kind == "integer" and op.name in ("sum", "amax"):
        reduce = np.sum if op.name == "sum" else np.max
        return lambda a: reduce(a, axis=op.extra, keepdims=True) if op.extra else a
    if op.kind == "integer" and op.name != "take":
        return _INTEGER[op.name]
    return None


def full_shape(values: Array, shape: tuple[int, ...]) -> Array:
    """Without the reduced axes, at every element of the result."""
    if values.ndim:
        values = values.reshape(values.shape[: len(shape)])
    return values if values.shape == shape else np.broadcast_to(values, shape)


def _powers(base: Array, exponent: Array) -> Array:
    """Python's integers, since powers leave 64 bits quickly. Raises ValueError for a negative
    exponent, whose power is no integer."""
    if np.any(exponent < 0):
        raise ValueError("a power of integers has a negative exponent")
    result: Array = base.astype(object) ** exponent.astype(object)
    return result


_LOGIC: dict[str, Closure] = {"and": np.logical_and, "or": np.logical_or, "not": np.logical_not}
_COMPARE: dict[str, Closure] = {
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
}
_INTEGER: dict[str, Closure] = {
    "add": operator.add,
    "mul": operator.mul,
    "neg": operator.neg,
    "abs": np.abs,
    "max": np.maximum,
    "min": np.minimum,
    "mod": operator.mod,
    "floordiv": operator.floordiv,
    "ipow": _powers,
    "where": np.where,
}
