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


class Summed(tuple[Array, Any]):  # noqa: SLOT001  # attributes of a tuple need a dict
    """A sum and its error, with what it was added up from: an implementation may add up at once
    what goes on to be added up further, as a matrix product over the rows of all heads does."""

    sizes: Array
    """The sum of the sizes of the terms."""
    terms: int
    """How many they are."""
    parts: Any
    """How often the running sum may be stored; 0 for not at all."""


def summed(pair: Erring, sizes: Array, terms: int, parts: Any = 0) -> Summed:
    """A sum that remembers its terms."""
    found = Summed(pair)
    found.sizes, found.terms, found.parts = sizes, terms, parts
    return found


def still_summed(before: Erring, after: Erring, factor: Any = 1.0) -> Erring:
    """The same sum under a mark, or times a factor of such a size: code that goes on adding does
    not stop there."""
    if not isinstance(before, Summed):
        return after
    return summed(after, before.sizes * factor, before.terms, before.parts)


def either_summed(a: Erring, b: Erring, chosen: Erring) -> Erring:
    """Two forms of a sum, the worse of both."""
    if not (isinstance(a, Summed) and isinstance(b, Summed)):
        return chosen
    worse = np.maximum
    return summed(chosen, worse(a.sizes, b.sizes), max(a.terms, b.terms), worse(a.parts, b.parts))


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
            return summed((v, _unless_partial_sums_overflow(e, reach, fmt)), reach, n)

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
        formed, contraction = self.products(op, plan), Contraction(op, plan)
        register, terms = contraction.register, contraction.terms

        def function(a: Erring, b: Erring) -> Erring:
            v, e, size = (register(x) for x in formed(a, b))
            for one, other in ((a, b), (b, a)) if not op.extra else ():
                if isinstance(one, Summed):
                    return still_summed(one, (v, e), np.abs(other[0]) + other[1])
            return summed((v, e), size, terms)

        return function

    def rdot(self, op: Op, plan: Plan) -> Closure:
        """A contraction that may be stored on its way."""
        formed, contraction = self.products(op, plan), Contraction(op, plan)
        register, terms = contraction.register, contraction.terms
        storing = self.storing(op)

        def function(a: Erring, b: Erring, count: Array) -> Erring:
            v, e, size = (register(x) for x in formed(a, b))
            e = e if storing is None else e + storing(size, count)
            return summed((v, e), size, terms, count)

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
            total: Summed = added(a)
            v, e = total
            if storing is not None:
                e = e + storing(total.sizes, count)
            return summed((v, e), total.sizes, total.terms, count)

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
        """Terms that meet at a place, in any order; a place of one term is exact. Terms that are
        sums themselves may be added up one by one with theirs."""
        scattering = Scattering(op, plan)
        fmt, storing = self.work(op), self.storing(op)
        counts = scattering.counts

        def lost(size: Array, steps: Array, known: float, parts: Any) -> Array:
            """What so many additions lose, beyond the growth that is `known`."""
            grown = steps * fmt.roundoff
            with np.errstate(divide="ignore"):
                growth = np.where(grown < 1.0, grown / (1.0 - grown) - known, np.inf)
            e: Array = growth * size + np.minimum(size, steps * fmt.underflow)
            return e if storing is None else e + storing(size, parts)

        def moved(a: Erring, _: Array) -> Erring:
            return scattering(a[0]), scattering(a[1]) if np.ndim(a[1]) else a[1]

        if scattering.moves:
            return moved

        def function(a: Erring, _: Array) -> Erring:
            e = scattering(np.broadcast_to(a[1], a[0].shape))
            size = scattering(np.abs(a[0])) + e
            own = lost(size, np.maximum(counts - 1, 0), 0.0, counts)
            if isinstance(a, Summed) and a.terms > 1:
                sizes = scattering(np.broadcast_to(a.sizes, a[0].shape))
                known = gamma(a.terms - 1, fmt.roundoff)
                steps = np.maximum(counts * a.terms - 1, 0)
                own = np.maximum(own, lost(sizes, steps, known, counts * a.parts))
            return scattering(a[0]), e + own

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
