"""Exact evaluation: a tape over integers and rationals.

For components whose results are integers (buckets, masks, counts, quantised values) or rationals.
A node that leaves the rationals (exp, sin, a root that isn't exact) raises TypeError when the plan
is made. Sources: FLINT's fmpq.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from attnspec.oracle.algebra import Array, Closure
from attnspec.oracle.scattering import Scattering
from attnspec.oracle.tape import Op

if TYPE_CHECKING:
    from attnspec.oracle.plan import Plan

_FRACTION = np.frompyfunc(Fraction, 1, 1)


def _objects(values: Any, like: Any) -> Array:
    array = np.empty(np.shape(like), object)
    array[...] = values
    return array


class Rationals:
    """Fractions in numpy arrays of objects."""

    def lift(self, values: Any) -> Array:
        """Floats are taken at their exact value. Raises ValueError for NaN and infinity."""
        values = np.asarray(values)
        return _objects(_FRACTION(values.astype(object)), values)

    def real(self, op: Op, plan: Plan) -> Closure:
        return lambda a: _objects(_FRACTION(np.asarray(a).astype(object)), a)

    def ratio(self, op: Op, plan: Plan) -> Closure:
        value = _objects(Fraction(*op.extra), np.empty((1,) * plan.ndim))
        return lambda: value

    def parameter(self, op: Op, plan: Plan) -> Closure:
        value = _objects(Fraction(plan.parameters[op.extra]), np.empty((1,) * plan.ndim))
        return lambda: value

    def add(self, op: Op, plan: Plan) -> Closure:
        return np.add

    def mul(self, op: Op, plan: Plan) -> Closure:
        return np.multiply

    def div(self, op: Op, plan: Plan) -> Closure:
        return np.true_divide

    def neg(self, op: Op, plan: Plan) -> Closure:
        return np.negative

    def abs(self, op: Op, plan: Plan) -> Closure:
        return np.abs

    def max(self, op: Op, plan: Plan) -> Closure:
        return np.maximum

    def min(self, op: Op, plan: Plan) -> Closure:
        return np.minimum

    def leads(self, op: Op, plan: Plan) -> Closure:
        half = Fraction(1, 2)
        return lambda a, b: half * ((a > b).astype(object) + (a >= b).astype(object))

    def where(self, op: Op, plan: Plan) -> Closure:
        return np.where

    def rnds(self, op: Op, plan: Plan) -> Closure:
        return lambda a, count: a

    def either(self, op: Op, plan: Plan) -> Closure:
        """Two ways to one number must give the same one."""

        def same(a: Array, b: Array) -> Array:
            if not np.all(a == b):
                raise ArithmeticError(f"{plan.tape.name}: two forms of one value differ")
            return a

        return same

    def rnd(self, op: Op, plan: Plan) -> Closure:
        return lambda a: a

    def lt(self, op: Op, plan: Plan) -> Closure:
        return lambda a, b: (a < b).astype(bool)

    def le(self, op: Op, plan: Plan) -> Closure:
        return lambda a, b: (a <= b).astype(bool)

    def eq(self, op: Op, plan: Plan) -> Closure:
        return lambda a, b: (a == b).astype(bool)

    def ne(self, op: Op, plan: Plan) -> Closure:
        return lambda a, b: (a != b).astype(bool)

    def sum(self, op: Op, plan: Plan) -> Closure:
        return lambda a: np.add.reduce(a, axis=op.extra, keepdims=True, initial=Fraction(0))

    def amax(self, op: Op, plan: Plan) -> Closure:
        return lambda a: np.maximum.reduce(a, axis=op.extra, keepdims=True) if op.extra else a

    def dot(self, op: Op, plan: Plan) -> Closure:
        return lambda a, b: np.add.reduce(
            np.multiply(a, b), axis=op.extra, keepdims=True, initial=Fraction(0)
        )

    def rsum(self, op: Op, plan: Plan) -> Closure:
        added = self.sum(op, plan)
        return lambda a, count: added(a)

    def rdot(self, op: Op, plan: Plan) -> Closure:
        added = self.dot(op, plan)
        return lambda a, b, count: added(a, b)

    def softmax(self, op: Op, plan: Plan) -> Closure:
        return lambda a, *_: a

    def parted(self, op: Op, plan: Plan) -> Closure:
        return lambda a, *_: a

    def scatter(self, op: Op, plan: Plan) -> Closure:
        scattering = Scattering(op, plan)
        return lambda a, _: scattering(a, Fraction(0))

    def finished(self, value: Array, shape: tuple[int, ...]) -> Array:
        value = np.asarray(value)
        return np.broadcast_to(value.reshape(value.shape[: len(shape)]), shape)


RATIONALS = Rationals()
