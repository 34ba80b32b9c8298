"""The error algebra with variances: (value, worst-case error, standard deviation).

Worst cases add up linearly; independent roundings do not. An element carries two parts of its
deviation beside the pair of `oracle/errors.py`: w, a variance from roundings that are independent
along every axis of the value, and c, a deviation that may be common to all of them. One rounding
of a value that lacks an axis, multiplied into many terms along it, is common to these: on every
broadcast the operand's w moves into c, and sums add c linearly. A constant's error is no accident
of this call, so it counts in full (c = e over the number of deviations that the allowance takes).

The allowance from the deviation holds with the probability stated in `oracle/precision.py`, given
independent roundings. It is used only where the suite drew an independent random sign into every
term of every contraction. Sources: Hoeffding's inequality; the model of uniform independent
roundings is Henrici's.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from attnspec.oracle.algebra import Array, Closure, full_shape
from attnspec.oracle.contraction import contracted
from attnspec.oracle.deviating import Deviating, full, total_over, variance_of_rounding
from attnspec.oracle.errors import Errors
from attnspec.oracle.precision import DEVIATIONS, LIBRARY_ULPS, Contract
from attnspec.oracle.spread import Spread
from attnspec.oracle.tape import Op

if TYPE_CHECKING:
    from attnspec.oracle.plan import Plan


class Deviations:
    """The algebra of one contract. Pairs go through `Errors`, deviations beside them."""

    read = Errors.read

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.errors = Errors(contract)

    # -- parts ------------------------------------------------------------------------------

    def operands(self, op: Op, plan: Plan) -> Closure:
        """Moves the independent part of an operand that lacks an axis of the result to the
        common one."""
        lacks = [plan.tape.ops[a].axes != op.axes for a in op.args]

        def moved(*args: Deviating) -> list[Deviating]:
            return [
                a._replace(w=0.0, c=a.c + np.sqrt(a.w)) if lack else a
                for a, lack in zip(args, lacks, strict=True)
            ]

        return moved

    def own(self, op: Op, ulps: float = 0.5) -> Closure:
        """Variance of one rounding, uniform within its largest error."""
        fmt = self.errors.work(op)
        return variance_of_rounding(2.0 * ulps * fmt.roundoff, fmt)

    # -- constants and inputs -----------------------------------------------------------------

    def lift(self, values: Any) -> Deviating:
        if isinstance(values, tuple):
            return Deviating(*values)
        return Deviating(np.asarray(values, np.float64), 0.0, 0.0, 0.0)

    def _constant(self, closure: Closure) -> Closure:
        """The worst case, in full: no accident of this call, or no more is known."""

        def function(*args: Any) -> Deviating:
            v, e = closure(*(a.pair if isinstance(a, Deviating) else a for a in args))
            return Deviating(v, e, 0.0, e / DEVIATIONS)

        return function

    def real(self, op: Op, plan: Plan) -> Closure:
        return self._constant(self.errors.real(op, plan))

    def ratio(self, op: Op, plan: Plan) -> Closure:
        return self._constant(self.errors.ratio(op, plan))

    def infinity(self, op: Op, plan: Plan) -> Closure:
        return self._constant(self.errors.infinity(op, plan))

    def parameter(self, op: Op, plan: Plan) -> Closure:
        return self._constant(self.errors.parameter(op, plan))

    def pow(self, op: Op, plan: Plan) -> Closure:
        return self._constant(self.errors.pow(op, plan))

    def leads(self, op: Op, plan: Plan) -> Closure:
        return self._constant(self.errors.leads(op, plan))

    # -- arithmetic ---------------------------------------------------------------------------

    def add(self, op: Op, plan: Plan) -> Closure:
        pair, operands, own = self.errors.add(op, plan), self.operands(op, plan), self.own(op)

        def function(a: Deviating, b: Deviating) -> Deviating:
            v, e = pair(a.pair, b.pair)
            a, b = operands(a, b)
            w, c = a.w + b.w, a.c + b.c
            return Deviating(v, e, w + own(v, np.sqrt(w) + c), c)

        return function

    def mul(self, op: Op, plan: Plan) -> Closure:
        pair, operands, own = self.errors.mul(op, plan), self.operands(op, plan), self.own(op)

        def function(a: Deviating, b: Deviating) -> Deviating:
            v, e = pair(a.pair, b.pair)
            a, b = operands(a, b)
            size_a, size_b = np.abs(a.v), np.abs(b.v) + DEVIATIONS * b.deviation
            w = size_a**2 * b.w + size_b**2 * a.w
            c = size_a * b.c + size_b * a.c
            return Deviating(v, e, w + own(v, np.sqrt(w) + c), c)

        return function

    def div(self, op: Op, plan: Plan) -> Closure:
        pair, operands, own = self.errors.div(op, plan), self.operands(op, plan), self.own(op)

        def function(a: Deviating, b: Deviating) -> Deviating:
            v, e = pair(a.pair, b.pair)
            a, b = operands(a, b)
            room = np.abs(b.v) - DEVIATIONS * b.deviation
            safe = np.where(room > 0.0, room, np.nan)
            w = (a.w + v**2 * b.w) / safe**2
            c = np.where(room > 0.0, (a.c + np.abs(v) * b.c) / safe, np.inf)
            w = np.where(room > 0.0, w, 0.0)
            return Deviating(v, e, w + own(v, np.sqrt(w) + c), c)

        return function

    def neg(self, op: Op, plan: Plan) -> Closure:
        return lambda a: a._replace(v=-a.v)

    def abs(self, op: Op, plan: Plan) -> Closure:
        return lambda a: a._replace(v=np.abs(a.v))

    def _larger(self, pair: Closure) -> Closure:
        """Either operand may be the one that counts."""

        def function(a: Deviating, b: Deviating) -> Deviating:
            v, e = pair(a.pair, b.pair)
            return Deviating(v, e, np.maximum(a.w, b.w), np.maximum(a.c, b.c))

        return function

    def max(self, op: Op, plan: Plan) -> Closure:
        return self._larger(self.errors.max(op, plan))

    def min(self, op: Op, plan: Plan) -> Closure:
        return self._larger(self.errors.min(op, plan))

    def either(self, op: Op, plan: Plan) -> Closure:
        return self._larger(self.errors.either(op, plan))

    def where(self, op: Op, plan: Plan) -> Closure:
        """A branch that lacks an axis is common along it."""
        lacks = [plan.tape.ops[a].axes != op.axes for a in op.args[1:]]

        def function(test: Any, a: Deviating, b: Deviating) -> Deviating:
            a, b = (
                x._replace(w=0.0, c=x.c + np.sqrt(x.w)) if lack else x
                for x, lack in zip((a, b), lacks, strict=True)
            )
            return Deviating(*(np.where(test, x, y) for x, y in zip(a, b, strict=True)))

        return function

    # -- functions ----------------------------------------------------------------------------

    def unary(self, op: Op, function: Closure, spread: Spread) -> Closure:
        """An argument off by so many deviations moves the result by its spread; the part that
        the independent roundings cause stays independent."""
        pair = self.errors.unary(op, function, spread)
        own = self.own(op, LIBRARY_ULPS)
        u = self.errors.work(op).roundoff

        def closure(a: Deviating) -> Deviating:
            v, e = pair(a.pair)
            alone = spread(a.v, v, DEVIATIONS * np.sqrt(a.w), u) / DEVIATIONS
            both = spread(a.v, v, DEVIATIONS * a.deviation, u) / DEVIATIONS
            alone, both = (np.where(np.isneginf(a.v), 0.0, s) for s in (alone, both))
            c = np.where(np.isfinite(both), both - alone, np.inf)
            w = np.where(np.isfinite(alone), alone, 0.0) ** 2
            return Deviating(v, e, w + own(v, alone + c), c)

        return closure

    exp, log, sin, cos = Errors.exp, Errors.log, Errors.sin, Errors.cos
    tanh, sqrt = Errors.tanh, Errors.sqrt

    # -- reductions -----------------------------------------------------------------------------

    def sum(self, op: Op, plan: Plan) -> Closure:
        """Partial sums of independent terms are as large as the terms' root sum of squares, or as
        the whole: (n-1) roundings of that size."""
        pair = self.errors.sum(op, plan)
        n = int(np.prod([plan.sizes[a] for a in op.extra], dtype=np.int64))
        fmt = self.errors.work(op)
        step = variance_of_rounding(fmt.roundoff, fmt)

        def function(a: Deviating) -> Deviating:
            v, e = pair(a.pair)
            total = np.sqrt(v**2 + np.sum(a.v**2, axis=op.extra, keepdims=True))
            w, c = total_over(a.w, a.v, op), total_over(a.c, a.v, op)
            return Deviating(v, e, w + (n - 1) * step(total, np.sqrt(w) + c), c)

        return function

    def amax(self, op: Op, plan: Plan) -> Closure:
        pair = self.errors.amax(op, plan)

        def largest(x: Any, like: Array) -> Any:
            if np.ndim(x) == 0:
                return x
            return np.max(np.broadcast_to(x, like.shape), axis=op.extra, keepdims=True)

        def function(a: Deviating) -> Deviating:
            if not op.extra:
                return a
            v, e = pair(a.pair)
            return Deviating(v, e, largest(a.w, a.v), largest(a.c, a.v))

        return function

    def dot(self, op: Op, plan: Plan) -> Closure:
        """Errors of one operand are independent along the summed axes, and common along the axes
        that the operand lacks."""
        pair, product = self.errors.dot(op, plan), contracted(op, plan)
        k = int(np.prod([plan.sizes[a] for a in op.extra], dtype=np.int64))
        fmt, operand = self.errors.work(op), self.contract.format("products")
        step = variance_of_rounding(fmt.roundoff, fmt)
        coarse = variance_of_rounding(operand.roundoff, operand)
        lacks = [plan.tape.ops[a].axes - frozenset(op.extra) != op.axes for a in op.args]

        def function(a: Deviating, b: Deviating) -> Deviating:
            v, e = pair(a.pair, b.pair)
            if operand.roundoff > fmt.roundoff:
                a, b = (x._replace(w=x.w + coarse(x.v, x.deviation)) for x in (a, b))
            square_a, square_b = a.v**2, b.v**2
            parts = [
                product(full(a.w, a.v), square_b),
                product(square_a, full(b.w, b.v)),
            ]
            w: Any = 0.0
            c: Any = product(full(a.c, a.v), np.abs(b.v) + b.deviation)
            c = c + product(np.abs(a.v), full(b.c, b.v))
            for part, lack in zip(parts, lacks, strict=True):
                w, c = (w, c + np.sqrt(part)) if lack else (w + part, c)
            total = np.sqrt(v**2 + product(square_a, square_b))
            return Deviating(v, e, w + k * step(total, np.sqrt(w) + c), c)

        return function

    def _without_variance(self, op: Op, plan: Plan) -> Closure:
        """Of these operations the worst case alone is known."""
        return self._constant(getattr(self.errors, op.name)(op, plan))

    softmax = parted = rsum = rdot = scatter = _without_variance

    # -- marks and comparisons --------------------------------------------------------------------

    def rnd(self, op: Op, plan: Plan) -> Closure:
        pair = self.errors.rnd(op, plan)
        fmt, work = self.errors.marked(op, plan), self.errors.work(op)
        unrounded = plan.tape.ops[op.args[0]].name == "real"
        if fmt.roundoff <= work.roundoff and not unrounded:
            return lambda a: a
        step = variance_of_rounding(fmt.roundoff, fmt)

        def function(a: Deviating) -> Deviating:
            v, e = pair(a.pair)
            if unrounded:
                return Deviating(v, e, a.w, e / DEVIATIONS)
            return Deviating(v, e, a.w + step(v, a.deviation), a.c)

        return function

    def rnds(self, op: Op, plan: Plan) -> Closure:
        """The worst case of a running value: its roundings may have much in common."""
        pair = self.errors.rnds(op, plan)

        def function(a: Deviating, count: Array) -> Deviating:
            v, e = pair((a.v, 0.0), count)
            return Deviating(v, a.e + e, a.w, a.c + e / DEVIATIONS)

        return function

    def lt(self, op: Op, plan: Plan) -> Closure:
        return lambda a, b: a.v < b.v

    def le(self, op: Op, plan: Plan) -> Closure:
        return lambda a, b: a.v <= b.v

    def eq(self, op: Op, plan: Plan) -> Closure:
        return lambda a, b: a.v == b.v

    def ne(self, op: Op, plan: Plan) -> Closure:
        return lambda a, b: a.v != b.v

    def finished(self, value: Deviating, shape: tuple[int, ...]) -> tuple[Array, Array, Array]:
        """Value, worst-case error, standard deviation."""
        v, e = self.errors.finished(value.pair, shape)
        return v, e, full_shape(np.asarray(value.deviation), shape)


@cache
def deviations_of(contract: Contract) -> Deviations:
    """The algebra of a contract, made once."""
    return Deviations(contract)
