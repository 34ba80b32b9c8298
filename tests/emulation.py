"""Right implementations by the rounding model, for testing the error algebra: a tape run with a
rounding after every operation, as wrong as the contract allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnspec.oracle.float64 import Float64
from attnspec.oracle.plan import Plan
from attnspec.oracle.precision import LIBRARY_ULPS, POWER_ULPS, Contract, Format
from attnspec.oracle.rounding import representable
from attnspec.oracle.tape import Op
from attnspec.spec.definition import REGIONS

Array = np.ndarray[Any, Any]
STYLES = ("uniform", "extreme", "flush")


class Emulated(Float64):
    """Float64 with roundings. `uniform`: each is drawn from its whole range; `extreme`: each is
    as large as it may be, with a random sign; `flush`: as `uniform`, and what lies below the
    normal range becomes zero."""

    read: Mapping[str, slice] = {}

    def __init__(self, contract: Contract, rng: np.random.Generator, style: str) -> None:
        self.contract, self.rng, self.style = contract, rng, style
        self.first_form = bool(rng.integers(2))

    def off(
        self, v: Array, fmt: Format, ulps: float = 0.5, *, exact: bool = False, sum_: bool = False
    ) -> Array:
        """v with one rounding's error. A sum below the normal range is exact, or flushed where
        its format is."""
        unit = self.rng.uniform(-1.0, 1.0, v.shape)
        if self.style == "extreme":
            unit = np.sign(unit)
        with np.errstate(all="ignore"):
            size = np.where(np.isfinite(v), np.abs(v), 0.0)
            moved = v + 2.0 * ulps * fmt.roundoff * unit * size
            lost = np.minimum(size, fmt.underflow)
            small = size < fmt.normal
            flushes = fmt.underflow == fmt.normal
            below = np.where((unit > 0.5) & flushes, 0.0, v) if sum_ else v + unit * lost
            moved = np.where(small, below, moved)
            if self.style == "flush" and flushes:
                moved = np.where(small, 0.0, moved)
        if exact:
            moved = np.where(representable(v, fmt), v, moved)
        return np.asarray(moved)

    def rounding(self, op: Op, function: Any, ulps: float = 0.5) -> Any:
        fmt = self.contract.format(op.place)
        sum_ = function is np.add
        exact = op.place in REGIONS and ulps == 0.5
        wave = function in (np.sin, np.cos)
        sure = wave and op.place in REGIONS

        def closure(*args: Array) -> Array:
            with np.errstate(all="ignore"):
                v = function(*args)
                moved = self.off(v, fmt, ulps, exact=exact, sum_=sum_)
                if wave:
                    # the same error, but of 1
                    moved = v + (self.off(np.ones_like(v), fmt, ulps) - 1.0)
                return np.where(args[0] == 0.0, v, moved) if sure else moved

        return closure

    def add(self, op: Op, plan: Plan) -> Any:
        return self.rounding(op, np.add)

    def mul(self, op: Op, plan: Plan) -> Any:
        return self.rounding(op, np.multiply)

    def div(self, op: Op, plan: Plan) -> Any:
        return self.rounding(op, np.divide)

    def exp(self, op: Op, plan: Plan) -> Any:
        return self.rounding(op, np.exp, LIBRARY_ULPS)

    def log(self, op: Op, plan: Plan) -> Any:
        return self.rounding(op, np.log, LIBRARY_ULPS)

    def sin(self, op: Op, plan: Plan) -> Any:
        return self.rounding(op, np.sin, LIBRARY_ULPS)

    def cos(self, op: Op, plan: Plan) -> Any:
        return self.rounding(op, np.cos, LIBRARY_ULPS)

    def tanh(self, op: Op, plan: Plan) -> Any:
        return self.rounding(op, np.tanh, LIBRARY_ULPS)

    def sqrt(self, op: Op, plan: Plan) -> Any:
        return self.rounding(op, np.sqrt, LIBRARY_ULPS)

    def pow(self, op: Op, plan: Plan) -> Any:
        """By a recipe drawn anew for each plan."""
        fmt = self.contract.format(op.place)
        recipe = int(self.rng.integers(3))

        def closure(b: Array, y: Array) -> Array:
            if recipe == 2:
                # the division that made the exponent has rounded it already
                logarithm = self.off(np.log(b), fmt, 1.0)
                v = self.off(np.exp(self.off(y * logarithm, fmt)), fmt, LIBRARY_ULPS)
            elif recipe == 1:
                v = self.off(1.0 / self.off(np.power(b, -y), fmt, POWER_ULPS), fmt)
            else:
                v = self.off(np.power(b, y), fmt, POWER_ULPS)
            return np.where(y == 0.0, 1.0, v)

        return closure

    def rnd(self, op: Op, plan: Plan) -> Any:
        fmt, work = self.contract.format(op.extra), self.contract.format(op.place)
        inner = plan.tape.ops[op.args[0]]
        unrounded = inner.name == "real"
        if inner.name == "rnd" and (inner.extra, op.extra) != ("activations", "output"):
            # a second rounding to one format changes nothing; between these two is a division
            fmt = work if fmt == self.contract.format(inner.extra) else fmt
        if fmt.roundoff <= work.roundoff and not unrounded:
            return lambda a: a
        return lambda a: self.off(a, fmt, exact=unrounded)

    def rnds(self, op: Op, plan: Plan) -> Any:
        fmt = self.contract.format(op.extra)

        def closure(a: Array, count: Array) -> Array:
            for _ in range(int(count.max())):
                a = self.off(a, fmt)
            return a

        return closure

    def either(self, op: Op, plan: Plan) -> Any:
        return lambda a, b: a if self.first_form else b

    def sum(self, op: Op, plan: Plan) -> Any:
        """One term after another, in a random order, a rounding after each."""
        fmt = self.contract.format(op.place)

        def closure(a: Array) -> Array:
            count = int(np.prod([a.shape[axis] for axis in op.extra]))
            kept = [axis for axis in range(a.ndim) if axis not in op.extra]
            flat = a.transpose([*op.extra, *kept]).reshape(count, -1)
            flat = flat[self.rng.permutation(count)]
            total = flat[0]
            for term in flat[1:]:
                total = self.off(total + term, fmt, sum_=True)
            shape = [1 if axis in op.extra else size for axis, size in enumerate(a.shape)]
            return np.asarray(total.reshape(shape))

        return closure

    def rsum(self, op: Op, plan: Plan) -> Any:
        total, running = self.sum(op, plan), self.running(op)
        return lambda a, count: running(total, a, count)

    def rdot(self, op: Op, plan: Plan) -> Any:
        """The products of one dot, their sum stored `count` - 1 times."""
        fmt, operand = self.contract.format(op.place), self.contract.format("products")
        total, running = self.sum(op, plan), self.running(op)

        def closure(a: Array, b: Array, count: Array) -> Array:
            if operand.roundoff > fmt.roundoff:
                a, b = self.off(a, operand), self.off(b, operand)
            return np.asarray(running(total, self.off(a * b, fmt), count))

        return closure

    def running(self, op: Op) -> Any:
        """A sum in parts along the first summed axis, stored after each but the first."""
        fmt = self.contract.format("reductions")

        def closure(total: Any, a: Array, count: Array) -> Array:
            axis = op.extra[0]
            parts = np.array_split(a, min(int(count.max()), a.shape[axis]), axis=axis)
            found = total(parts[0])
            for part in parts[1:]:
                found = self.off(found + total(part), fmt)
            return np.asarray(found)

        return closure

    def scatter(self, op: Op, plan: Plan) -> Any:
        """Terms that meet added one after another, stored each time."""
        exact = super().scatter(op, plan)
        fmt = self.contract.format("reductions")
        index = np.asarray(plan.constant(op.args[1]))

        def closure(a: Array, _: Array) -> Array:
            found = exact(a, _)
            _, counts = np.unique(index, return_counts=True)
            for _step in range(int(counts.max(initial=1)) - 1):
                found = self.off(found, fmt)
            return np.asarray(found)

        return closure

    def dot(self, op: Op, plan: Plan) -> Any:
        """Rounded products, then their sum."""
        fmt, operand = self.contract.format(op.place), self.contract.format("products")
        total = self.sum(op, plan)

        def closure(a: Array, b: Array) -> Array:
            if operand.roundoff > fmt.roundoff:
                a, b = self.off(a, operand), self.off(b, operand)
            return np.asarray(total(self.off(a * b, fmt)))

        return closure
