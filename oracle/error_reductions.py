"""The error algebra's reductions: sums, contractions, maxima, scatters, softmax weights.

Sources: Higham, *Accuracy and Stability of Numerical Algorithms*, chapter 4 (sums in any order).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from attnspec.oracle.algebra import Array, Closure
from attnspec.oracle.contraction import Contraction
from attnspec.oracle.parted_rows import lost_in_parts
from attnspec.oracle.precision import Contract, Format
from attnspec.oracle.rounding import gamma, stored
from attnspec.oracle.scattering import Scattering
from attnspec.oracle.softmax_errors import weights
from attnspec.oracle.tape import Op

if TYPE_CHECKING:
    from attnspec.oracle.plan import Plan

Erring = tuple[Array, Any]


def _unless_partial_sums_overflow(e: Any, reach: Array, fmt: Format) -> Any:
    """The error of a sum in any order: unknown where the sizes of its terms together reach the
    overflow threshold, as some order's partial sum does then."""
    if reach.size == 0 or np.maximum.reduce(reach, axis=None) < fmt.overflow:
        return e
    return np.where(reach >= fmt.overflow, np.inf, e)


class ErringReductions:
    """The part of the algebra that reduces axes."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract

    def work(self, op: Op) -> Format:
        """The format in which an operation runs."""
        return self.contract.format(op.place)

    def sum(self, op: Op, plan: Plan) -> Closure:
        """Terms added in any order: gamma_(n-1) of the sum of their sizes."""
        n = int(np.prod([plan.sizes[a] for a in op.extra], dtype=np.int64))
        fmt = self.work(op)
        g, tiny = gamma(n - 1, fmt.roundoff), (n - 1) * fmt.underflow

        def function(a: Erring) -> Erring:
            v = np.add.reduce(a[0], axis=op.extra, keepdims=True)
            size = np.add.reduce(np.abs(a[0]), axis=op.extra, keepdims=True)
            e = (
                n * a[1]
                if np.ndim(a[1]) == 0
                else np.add.reduce(np.broadcast_to(a[1], a[0].shape), axis=op.extra, keepdims=True)
            )
            reach = size + e
            e = e + (g * reach + np.minimum(reach, tiny))
            return v, _unless_partial_sums_overflow(e, reach, fmt)

        return function

    def amax(self, op: Op, plan: Plan) -> Closure:
        """The largest entry moves up by no more than what reaches past it, and down by its own
        error."""

        def function(a: Erring) -> Erring:
            if not op.extra:
                return a
            v = np.maximum.reduce(a[0], axis=op.extra, keepdims=True)
            if np.ndim(a[1]) == 0:
                return v, a[1]
            reach = np.where(np.isfinite(a[0]), a[1] - (v - a[0]), 0.0)
            return v, np.max(reach, axis=op.extra, keepdims=True)

        return function

    def dot(self, op: Op, plan: Plan) -> Closure:
        """Products and their sum in any order: gamma_k of the sum of their sizes, and each of the
        products and partial sums may underflow. Operands may be rounded to `products` first."""
        formed, register = self.products(op, plan), Contraction(op, plan).register

        def function(a: Erring, b: Erring) -> Erring:
            v, e, _ = formed(a, b)
            return register(v), register(e)

        return function

    def rdot(self, op: Op, plan: Plan) -> Closure:
        """A contraction that may be stored on its way."""
        formed, register = self.products(op, plan), Contraction(op, plan).register
        storing = self.storing(op)

        def function(a: Erring, b: Erring, count: Array) -> Erring:
            v, e, size = formed(a, b)
            if storing is None:
                return register(v), register(e)
            return register(v), register(e) + storing(register(size), count)

        return function

    def products(
        self, op: Op, plan: Plan
    ) -> Callable[[Erring, Erring], tuple[Array, Array, Array]]:
        """Value and error of a contraction, and the sum of the sizes of its terms, as stacks of
        matrices."""
        c = Contraction(op, plan)
        k = c.terms
        fmt, operand = self.work(op), self.contract.format("products")
        g, tiny = gamma(k, fmt.roundoff), (2 * k - 1) * fmt.underflow
        coarse = operand.roundoff > fmt.roundoff

        def function(a: Erring, b: Erring) -> tuple[Array, Array, Array]:
            if coarse:
                a, b = stored(a, operand), stored(b, operand)
            x, y = c.left(a[0]), c.right(b[0])
            size_x, size_y = np.abs(x), np.abs(y)
            reach = size_x @ size_y
            e: Any = None
            if not isinstance(b[1], float):
                f = c.right(b[1])
                e = size_x @ f
                size_y += f
            if not isinstance(a[1], float):
                own = c.left(a[1]) @ size_y
                e = own if e is None else np.add(e, own, out=e)
            if e is not None:
                reach += e
            rounding = np.minimum(reach, tiny)
            rounding += g * reach
            if e is not None:
                rounding += e
            return x @ y, _unless_partial_sums_overflow(rounding, reach, fmt), reach

        return function

    def rsum(self, op: Op, plan: Plan) -> Closure:
        """A sum that may be stored on its way."""
        added = self.sum(op, plan)
        storing = self.storing(op)

        def function(a: Erring, count: Array) -> Erring:
            v, e = added(a)
            if storing is None:
                return v, e
            size = np.add.reduce(np.abs(a[0]) + a[1], axis=op.extra, keepdims=True)
            return v, e + storing(size, count)

        return function

    def storing(self, op: Op) -> Closure | None:
        """What storing a running sum adds: each of `count` parts but the first is one rounding of
        all that has been summed, which errs by no more than the sum of the sizes. None where
        running sums stay in the format in which they are formed."""
        fmt = self.contract.format("reductions")
        if fmt.roundoff <= self.work(op).roundoff:
            return None
        step = math.log1p(fmt.roundoff)

        def added(size: Array, count: Array) -> Array:
            steps = np.maximum(count - 1, 0)
            result: Array = size * np.expm1(steps * step) + np.minimum(size, steps * fmt.underflow)
            return result

        return added

    def scatter(self, op: Op, plan: Plan) -> Closure:
        """Terms that meet at a place, in any order; a place of one term is exact."""
        scattering = Scattering(op, plan)
        fmt, storing = self.work(op), self.storing(op)
        steps = np.maximum(scattering.counts - 1, 0)
        growth = steps * fmt.roundoff / (1.0 - steps * fmt.roundoff)

        def moved(a: Erring, _: Array) -> Erring:
            return scattering(a[0]), scattering(a[1]) if np.ndim(a[1]) else a[1]

        if scattering.moves:
            return moved

        def function(a: Erring, _: Array) -> Erring:
            e = scattering(np.broadcast_to(a[1], a[0].shape))
            size = scattering(np.abs(a[0])) + e
            e = e + growth * size + np.minimum(size, steps * fmt.underflow)
            if storing is not None:
                e = e + storing(size, scattering.counts)
            return scattering(a[0]), e

        return function

    def softmax(self, op: Op, plan: Plan) -> Closure:
        """Weights from logits with errors."""
        formed = weights(self.contract, op.extra, plan.sizes[op.extra])
        return lambda _, z, seen: formed(z, seen)

    def parted(self, op: Op, plan: Plan) -> Closure:
        """The gradient of logits, beside that of a row which is taken in parts."""
        axis, channels = op.extra
        width = math.prod(plan.sizes[c] for c in channels)
        lost = lost_in_parts(self.contract, axis, plan.sizes[axis], width)

        def function(
            whole: Erring, p: Erring, sizes: Erring, logits: Erring, seen: Array
        ) -> Erring:
            return whole[0], whole[1] + lost(p, sizes[0], logits[0], seen)

        return function
