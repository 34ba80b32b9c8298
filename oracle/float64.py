"""The value: a tape in numpy's float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from attnspec.oracle.algebra import Array, Closure
from attnspec.oracle.contraction import contracted
from attnspec.oracle.scattering import Scattering
from attnspec.oracle.tape import Op

if TYPE_CHECKING:
    from attnspec.oracle.plan import Plan


class Float64:
    """Values only. Overflow, underflow and 0/0 behave as IEEE says."""

    read: Mapping[str, slice] = {"either": slice(1), "softmax": slice(1), "parted": slice(1)}
    """Operands that are read, where not all are."""

    def lift(self, values: Any) -> Array:
        return np.asarray(values, np.float64)

    def real(self, op: Op, plan: Plan) -> Closure:
        return lambda a: np.asarray(a, np.float64)

    def ratio(self, op: Op, plan: Plan) -> Closure:
        value = np.array(op.extra[0] / op.extra[1]).reshape((1,) * plan.ndim)
        return lambda: value

    def infinity(self, op: Op, plan: Plan) -> Closure:
        value = np.array(op.extra * np.inf).reshape((1,) * plan.ndim)
        return lambda: value

    def parameter(self, op: Op, plan: Plan) -> Closure:
        value = np.array(float(plan.parameters[op.extra])).reshape((1,) * plan.ndim)
        return lambda: value

    def add(self, op: Op, plan: Plan) -> Closure:
        return np.add

    def mul(self, op: Op, plan: Plan) -> Closure:
        return np.multiply

    def div(self, op: Op, plan: Plan) -> Closure:
        return np.divide

    def neg(self, op: Op, plan: Plan) -> Closure:
        return np.negative

    def abs(self, op: Op, plan: Plan) -> Closure:
        return np.abs

    def max(self, op: Op, plan: Plan) -> Closure:
        return np.maximum

    def min(self, op: Op, plan: Plan) -> Closure:
        return np.minimum

    def leads(self, op: Op, plan: Plan) -> Closure:
        return lambda a, b: np.heaviside(a - b, 0.5)

    def exp(self, op: Op, plan: Plan) -> Closure:
        return np.exp

    def log(self, op: Op, plan: Plan) -> Closure:
        return np.log

    def sin(self, op: Op, plan: Plan) -> Closure:
        return np.sin

    def cos(self, op: Op, plan: Plan) -> Closure:
        return np.cos

    def tanh(self, op: Op, plan: Plan) -> Closure:
        return np.tanh

    def sqrt(self, op: Op, plan: Plan) -> Closure:
        return np.sqrt

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
        return np.less

    def le(self, op: Op, plan: Plan) -> Closure:
        return np.less_equal

    def eq(self, op: Op, plan: Plan) -> Closure:
        return np.equal

    def ne(self, op: Op, plan: Plan) -> Closure:
        return np.not_equal

    def sum(self, op: Op, plan: Plan) -> Closure:
        return lambda a: np.add.reduce(a, axis=op.extra, keepdims=True)

    def amax(self, op: Op, plan: Plan) -> Closure:
        return lambda a: np.maximum.reduce(a, axis=op.extra, keepdims=True) if op.extra else a

    def dot(self, op: Op, plan: Plan) -> Closure:
        return contracted(op, plan)

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
        return lambda a, _: scattering(a)

    def finished(self, value: Array, shape: tuple[int, ...]) -> Array:
        flat = value.reshape(value.shape[: len(shape)])
        return flat if flat.shape == shape else np.broadcast_to(flat, shape)


FLOAT64 = Float64()
