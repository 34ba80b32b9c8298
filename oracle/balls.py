"""The certificate: a tape in ball arithmetic, whose results enclose the exact value.

Sources: Johansson, *Arb: efficient arbitrary-precision midpoint-radius interval arithmetic*
(python-flint). Every operation returns a ball that contains every result of its operands'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import flint
import numpy as np

from attnspec.oracle.algebra import Array, Closure
from attnspec.oracle.contraction import contracted
from attnspec.oracle.scattering import Scattering
from attnspec.oracle.tape import Op

if TYPE_CHECKING:
    from attnspec.oracle.plan import Plan

BITS = 106
"""Twice float64's significand: the radius is then far below every allowance."""


class UndecidedError(ArithmeticError):
    """Two balls overlap, so that a comparison has no certain answer at this precision."""


@contextmanager
def precision(bits: int = BITS) -> Iterator[None]:
    """Run ball arithmetic at `bits` bits, and restore the precision that was set before."""
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before


def _each(function: Any, inputs: int = 1) -> Closure:
    made: Closure = np.frompyfunc(function, inputs, 1)
    return made


def _compare(certain: Any, opposite: Any) -> Closure:
    def decide(a: Any, b: Any) -> bool:
        if certain(a, b):
            return True
        if opposite(a, b):
            return False
        raise UndecidedError(f"cannot compare {a} with {b}")

    ufunc = np.frompyfunc(decide, 2, 1)
    return lambda a, b: ufunc(a, b).astype(bool)


def _larger(a: Any, b: Any) -> Any:
    """The larger of two balls; Arb's own maximum knows nothing once one is minus infinity."""
    for one, other in ((a, b), (b, a)):
        if not one.is_finite() and one < 0:
            return other
    return a.max(b)


def _leads(a: Any, b: Any) -> Any:
    """1 or 0, and between equal numbers, or balls that meet, anything from 0 to 1."""
    if a > b:
        return flint.arb(1)
    return flint.arb(0) if a < b else flint.arb(0.5, 0.5)


_WHOLE_TO_BALL = np.frompyfunc(lambda value: flint.arb(int(value)), 1, 1)


class Balls:
    """Enclosures at the precision in force, of the first form where there are two."""

    read: Mapping[str, slice] = {"either": slice(1), "softmax": slice(1), "parted": slice(1)}
    """Operands that are read, where not all are."""

    def lift(self, values: Any) -> Array:
        given: Array = np.asarray(values)
        if given.dtype == object:
            return given
        lifted = np.empty(given.size, object)
        lifted[:] = [flint.arb(v) for v in given.ravel().tolist()]
        return lifted.reshape(given.shape)

    def real(self, op: Op, plan: Plan) -> Closure:
        return lambda a: _objects(_WHOLE_TO_BALL(a), a)

    def ratio(self, op: Op, plan: Plan) -> Closure:
        return lambda: _constant(flint.arb(flint.fmpq(*op.extra)), plan)

    def infinity(self, op: Op, plan: Plan) -> Closure:
        return lambda: _constant(flint.arb("inf") * op.extra, plan)

    def parameter(self, op: Op, plan: Plan) -> Closure:
        return lambda: _constant(flint.arb(float(plan.parameters[op.extra])), plan)

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
        return _each(_larger, 2)

    def min(self, op: Op, plan: Plan) -> Closure:
        return _each(lambda a, b: a.min(b), 2)

    def leads(self, op: Op, plan: Plan) -> Closure:
        return _each(_leads, 2)

    def exp(self, op: Op, plan: Plan) -> Closure:
        return _each(flint.arb.exp)

    def log(self, op: Op, plan: Plan) -> Closure:
        return _each(flint.arb.log)

    def sin(self, op: Op, plan: Plan) -> Closure:
        return _each(flint.arb.sin)

    def cos(self, op: Op, plan: Plan) -> Closure:
        return _each(flint.arb.cos)

    def tanh(self, op: Op, plan: Plan) -> Closure:
        return _each(flint.arb.tanh)

    def sqrt(self, op: Op, plan: Plan) -> Closure:
        return _each(flint.arb.sqrt)

    def pow(self, op: Op, plan: Plan) -> Closure:
        return np.power

    def where(self, op: Op, plan: Plan) -> Closure:
        return np.where

    def rnd(self, op: Op, plan: Plan) -> Closure:
        return lambda a: a

    def rnds(self, op: Op, plan: Plan) -> Closure:
        return lambda a, count: a

    def either(self, op: Op, plan: Plan) -> Closure:
        return lambda a, *_: a

    def lt(self, op: Op, plan: Plan) -> Closure:
        return _compare(lambda a, b: a < b, lambda a, b: a >= b)

    def le(self, op: Op, plan: Plan) -> Closure:
        return _compare(lambda a, b: a <= b, lambda a, b: a > b)

    def eq(self, op: Op, plan: Plan) -> Closure:
        return _compare(lambda a, b: a == b, lambda a, b: a != b)

    def ne(self, op: Op, plan: Plan) -> Closure:
        return _compare(lambda a, b: a != b, lambda a, b: a == b)

    def sum(self, op: Op, plan: Plan) -> Closure:
        return lambda a: np.add.reduce(a, axis=op.extra, keepdims=True, initial=flint.arb(0))

    def amax(self, op: Op, plan: Plan) -> Closure:
        """Reduced by hand, since numpy's maximum of objects would have to decide between balls."""
        largest = np.frompyfunc(_larger, 2, 1)

        def function(a: Array) -> Array:
            for axis in op.extra:
                a = np.expand_dims(largest.reduce(a, axis=axis), axis)
            return a

        return function

    def dot(self, op: Op, plan: Plan) -> Closure:
        return contracted(op, plan, _matrix_products)

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
        return lambda a, _: scattering(a, flint.arb(0))

    def finished(self, value: Array, shape: tuple[int, ...]) -> Array:
        return np.broadcast_to(value.reshape(value.shape[: len(shape)]), shape)


def _matrix_products(a: Array, b: Array) -> Array:
    stacks = []
    for left, right in zip(a, b, strict=True):
        product = flint.arb_mat(left.tolist()) * flint.arb_mat(right.tolist())
        stack = np.empty(left.shape[0] * right.shape[1], object)
        stack[:] = product.entries()
        stacks.append(stack.reshape(left.shape[0], right.shape[1]))
    return np.stack(stacks) if stacks else np.empty((0, a.shape[1], b.shape[2]), object)


def _constant(value: Any, plan: Plan) -> Array:
    array = np.empty(1, object)
    array[0] = value
    return array.reshape((1,) * plan.ndim)


def _objects(values: Any, like: Array) -> Array:
    """frompyfunc returns a bare object for a single entry."""
    array = np.empty(np.shape(like), object)
    array[...] = values
    return array


class BothForms(Balls):
    """Enclosures that hold every form of a value to the first: they must overlap."""

    read: Mapping[str, slice] = {"softmax": slice(1), "parted": slice(1)}

    def either(self, op: Op, plan: Plan) -> Closure:
        def common(a: Any, b: Any) -> Any:
            if not a.overlaps(b):
                raise ArithmeticError(f"{plan.tape.name}: two forms of one value differ: {a}, {b}")
            return a

        return _each(common, 2)


BALLS = Balls()
BOTH_FORMS = BothForms()


def midpoints(balls: Array) -> tuple[Array, Array]:
    """The enclosed values as a sum of two float64 arrays, high and low part: what an
    implementation in double precision is compared with."""
    high = np.array([float(b.mid()) for b in balls.ravel()], np.float64)
    low = [
        float((b - flint.arb(h)).mid()) if np.isfinite(h) else 0.0
        for b, h in zip(balls.ravel(), high.tolist(), strict=True)
    ]
    return high.reshape(balls.shape), np.array(low, np.float64).reshape(balls.shape)


def radii(balls: Array) -> Array:
    """How far the exact value may be from the middle."""
    flat = [float(b.rad()) for b in balls.ravel()]
    return np.array(flat, np.float64).reshape(balls.shape)
