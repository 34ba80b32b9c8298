"""How far a right implementation may be off: (value, worst-case error) through every operation.

An element, `Erring`, is a pair of arrays (v, e): every implementation that keeps the contract has
a number within e of v there; e = 0.0 (a Python float) means exact by construction. Each rule takes
the errors of its operands through the operation, exactly (no first-order truncation, see
`oracle/spread.py`), and adds the operation's own rounding: relative u of the precision in which it
runs, plus the largest error of an underflow. A mark adds the rounding that the contract allows.
Sources: Higham, *Accuracy and Stability of Numerical Algorithms*, chapters 2 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from attnspec.oracle.algebra import Array, Closure, full_shape
from attnspec.oracle.error_reductions import ErringReductions, either_summed, still_summed
from attnspec.oracle.precision import LIBRARY_ULPS, Contract, Format
from attnspec.oracle.rounding import (
    overflowed,
    representable,
    stored,
    stored_often,
    zero_at_infinity,
)
from attnspec.oracle.spread import (
    Spread,
    spread_of_cos,
    spread_of_exp,
    spread_of_log,
    spread_of_power,
    spread_of_sin,
    spread_of_sqrt,
    spread_of_tanh,
)
from attnspec.oracle.tape import Op
from attnspec.spec.definition import REGIONS

if TYPE_CHECKING:
    from attnspec.oracle.plan import Plan

Erring = tuple[Array, Any]
APART = (("activations", "output"),)
"""Marks that may be two roundings though one stands directly on the other: the sums of attention
may be stored before they are divided by the row's total, and again after it."""


class Errors(ErringReductions):
    """The error algebra of one contract."""

    read: Mapping[str, slice] = {"softmax": slice(1, 3)}
    """Operands that are read, where not all are: softmax is formed from its logits."""

    # -- the rounding of one operation ------------------------------------------------------

    def rounded(self, op: Op, ulps: float = 0.5) -> Closure:
        """Adds one operation's rounding, of at most `ulps` units in the last place: an ulp is at
        most 2u. An underflow loses at most the result itself, so an exact zero stays one. In a
        region, a correctly rounded result that is exact and representable stays as it is."""
        fmt = self.work(op)
        u, tiny = 2.0 * ulps * fmt.roundoff, fmt.underflow

        def function(v: Array, e: Any) -> Erring:
            reach = np.abs(v)
            exact = isinstance(e, float) and e == 0.0
            if not exact:
                reach += e
            own = np.minimum(reach, tiny)
            reach *= u
            own += reach
            return v, own if exact else np.add(own, e, out=own)

        if op.place not in REGIONS or ulps > 0.5:
            return function

        def exact_where_it_can(v: Array, e: Any) -> Erring:
            reach = np.abs(v) + e
            own = u * reach + np.minimum(reach, tiny)
            return v, e + np.where((e == 0.0) & representable(v, fmt), 0.0, own)

        return exact_where_it_can

    # -- constants and inputs ---------------------------------------------------------------

    def lift(self, values: Any) -> Erring:
        if isinstance(values, tuple):
            v, e = values
            return v, e
        return np.asarray(values, np.float64), 0.0

    def real(self, op: Op, plan: Plan) -> Closure:
        return lambda a: (np.asarray(a, np.float64), 0.0)

    def ratio(self, op: Op, plan: Plan) -> Closure:
        value = np.array(op.extra[0] / op.extra[1]).reshape((1,) * plan.ndim)
        fmt = self.work(op)
        exact = representable(value, fmt).all() and op.extra[1] & (op.extra[1] - 1) == 0
        error: Any = 0.0 if exact else fmt.roundoff * np.abs(value)
        return lambda: (value, error)

    def infinity(self, op: Op, plan: Plan) -> Closure:
        value = np.array(op.extra * np.inf).reshape((1,) * plan.ndim)
        return lambda: (value, 0.0)

    def parameter(self, op: Op, plan: Plan) -> Closure:
        """A number that the caller gives in double precision. Its rounding to the working format
        is charged where it is used (`pow`)."""
        value = np.array(float(plan.parameters[op.extra])).reshape((1,) * plan.ndim)
        return lambda: (value, 0.0)

    # -- arithmetic -------------------------------------------------------------------------

    def add(self, op: Op, plan: Plan) -> Closure:
        rounded = self.rounded(op)

        def function(a: Erring, b: Erring) -> Erring:
            given = a[1] + b[1]
            v, e = rounded(a[0] + b[0], given)
            # an infinite sum of exact terms is exact: a logit of minus infinity stays one
            return (v, e) if np.isfinite(v).all() else (v, np.where(np.isfinite(v), e, given))

        return function

    def mul(self, op: Op, plan: Plan) -> Closure:
        rounded = self.rounded(op)

        def function(a: Erring, b: Erring) -> Erring:
            # an exact factor, the usual case, spares its half of the work
            if isinstance(a[1], float) and a[1] == 0.0:
                e = 0.0 if isinstance(b[1], float) and b[1] == 0.0 else np.abs(a[0]) * b[1]
            else:
                e = np.abs(a[0]) * b[1] + (np.abs(b[0]) + b[1]) * a[1]
            result: Erring = rounded(a[0] * b[0], e)
            return result

        return function

    def div(self, op: Op, plan: Plan) -> Closure:
        """|a'/b' - a/b| <= (ea + |a/b| eb) / (|b| - eb), while the divisor keeps its sign."""
        rounded = self.rounded(op)

        def function(a: Erring, b: Erring) -> Erring:
            v = a[0] / b[0]
            room = np.abs(b[0]) - b[1]
            e = np.where(room > 0.0, (a[1] + np.abs(v) * b[1]) / room, np.inf)
            result: Erring = rounded(v, e)
            return result

        return function

    def neg(self, op: Op, plan: Plan) -> Closure:
        return lambda a: (-a[0], a[1])

    def abs(self, op: Op, plan: Plan) -> Closure:
        return lambda a: (np.abs(a[0]), a[1])

    def max(self, op: Op, plan: Plan) -> Closure:
        return lambda a, b: (np.maximum(a[0], b[0]), np.maximum(a[1], b[1]))

    def min(self, op: Op, plan: Plan) -> Closure:
        return lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1]))

    def leads(self, op: Op, plan: Plan) -> Closure:
        """Which of two numbers is the larger, 1 or 0: whether the first one is. Where their errors
        reach from one to the other an implementation may find either, or take a share of both, and
        so may whoever evaluates more precisely: the error is that of the wrong one, all of it."""

        def function(a: Erring, b: Erring) -> Erring:
            with np.errstate(invalid="ignore"):
                apart = a[0] - b[0]
                clear = np.abs(apart) > a[1] + b[1]
            v = np.heaviside(np.where(np.isnan(apart), 0.0, apart), 0.5)
            return v, np.where(clear, 0.0, 1.0)

        return function

    def where(self, op: Op, plan: Plan) -> Closure:
        return lambda c, a, b: (np.where(c, a[0], b[0]), np.where(c, a[1], b[1]))

    # -- functions: within LIBRARY_ULPS of the exact one at the argument that they are given ---

    def unary(self, op: Op, function: Closure, spread: Spread) -> Closure:
        """A function of one argument: how its result moves with the argument, then its rounding.
        In a region, at an argument of exactly 0, sin and cos give 0 and 1 in any library; else
        they are right to a few u of 1 and not of themselves, which is what fast instructions
        document, and what tables have that are formed by adding angles."""
        rounded = self.rounded(op, LIBRARY_ULPS)
        u = self.work(op).roundoff
        wave = op.name in ("sin", "cos")
        sure = wave and op.place in REGIONS

        def closure(a: Erring) -> Erring:
            v = function(a[0])
            result: Erring = rounded(v, spread(a[0], v, a[1], u))
            if wave:
                result = v, result[1] + 2.0 * LIBRARY_ULPS * u * np.maximum(1.0 - np.abs(v), 0.0)
            if sure:
                result = v, np.where((a[0] == 0.0) & (a[1] == 0.0), 0.0, result[1])
            # e^(minus infinity) is 0 in every format
            return result if np.isfinite(a[0]).all() else (v, zero_at_infinity(a[0], result[1]))

        return closure

    def exp(self, op: Op, plan: Plan) -> Closure:
        return self.unary(op, np.exp, spread_of_exp)

    def log(self, op: Op, plan: Plan) -> Closure:
        return self.unary(op, np.log, spread_of_log)

    def sin(self, op: Op, plan: Plan) -> Closure:
        return self.unary(op, np.sin, spread_of_sin)

    def cos(self, op: Op, plan: Plan) -> Closure:
        return self.unary(op, np.cos, spread_of_cos)

    def tanh(self, op: Op, plan: Plan) -> Closure:
        return self.unary(op, np.tanh, spread_of_tanh)

    def sqrt(self, op: Op, plan: Plan) -> Closure:
        return self.unary(op, np.sqrt, spread_of_sqrt)

    def pow(self, op: Op, plan: Plan) -> Closure:
        """b ** y for a constant base and exponent, by any usual recipe."""
        fmt = self.work(op)

        def function(b: Erring, y: Erring) -> Erring:
            v = np.power(b[0], y[0])
            held = bool(representable(b[0], fmt).all())
            return v, spread_of_power(b[0], y[0], v, fmt, held=held)

        return function

    # -- marks --------------------------------------------------------------------------------

    def marked(self, op: Op, plan: Plan) -> Format:
        """The format to which a mark rounds: what the mark directly below has brought to this
        format already, it leaves as it is."""
        fmt = self.contract.format(op.extra)
        inner = plan.tape.ops[op.args[0]]
        again = inner.name == "rnd" and self.contract.format(inner.extra) == fmt
        return self.work(op) if again and (inner.extra, op.extra) not in APART else fmt

    def rnd(self, op: Op, plan: Plan) -> Closure:
        """The rounding to the format that a mark's place may be stored in."""
        fmt, work = self.marked(op, plan), self.work(op)
        unrounded = plan.tape.ops[op.args[0]].name == "real"
        if fmt.roundoff <= work.roundoff and not unrounded:
            return lambda a: still_summed(a, overflowed(a, fmt))
        if unrounded:
            # an integer or an input that no operation has rounded yet
            return lambda a: (
                a[0],
                a[1] + np.where(representable(a[0], fmt), 0.0, fmt.roundoff * np.abs(a[0])),
            )
        return lambda a: still_summed(a, stored(a, fmt))

    def rnds(self, op: Op, plan: Plan) -> Closure:
        """A running value that is stored so many times, each rounding of its size."""
        fmt = self.contract.format(op.extra)
        return lambda a, count: stored_often(a, fmt, count)

    def either(self, op: Op, plan: Plan) -> Closure:
        """The first form's value, the larger of the two forms' errors."""
        return lambda a, b: either_summed(a, b, (a[0], np.maximum(a[1], b[1])))

    # -- comparisons, which end the algebra: they are taken at the exact value -----------------

    def _compared(self, relation: Closure) -> Closure:
        return lambda a, b: relation(a[0], b[0])

    def lt(self, op: Op, plan: Plan) -> Closure:
        return self._compared(np.less)

    def le(self, op: Op, plan: Plan) -> Closure:
        return self._compared(np.less_equal)

    def eq(self, op: Op, plan: Plan) -> Closure:
        return self._compared(np.equal)

    def ne(self, op: Op, plan: Plan) -> Closure:
        return self._compared(np.not_equal)

    def finished(self, value: Erring, shape: tuple[int, ...]) -> Erring:
        return full_shape(value[0], shape), full_shape(np.asarray(value[1]), shape)


@cache
def errors_of(contract: Contract) -> Errors:
    """The error algebra of a contract, made once (plans are kept by it)."""
    return Errors(contract)
