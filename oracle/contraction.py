"""Sums of products over named axes as batched matrix products."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from attnspec.oracle.tape import Op

if TYPE_CHECKING:
    from attnspec.oracle.plan import Plan

Array = np.ndarray[Any, Any]


class Contraction:
    """Two registers contracted over `op.extra`, at one plan's sizes.

    Both registers have the summed axes. The axes that both have beside these are a batch; the
    rest are rows of the one and columns of the other.
    """

    def __init__(self, op: Op, plan: Plan) -> None:
        left, right = (plan.tape.ops[a].axes for a in op.args[:2])
        summed = frozenset(op.extra)
        batch = sorted((left & right) - summed)
        rows = sorted(left - right)
        columns = sorted(right - left)
        inner = sorted(summed)
        sizes = plan.sizes

        def length(axes: list[int]) -> int:
            return prod(sizes[a] for a in axes)

        rest = [a for a in range(plan.ndim) if a not in left | right]
        outcome = [*batch, *rows, *columns]
        self.terms = length(inner)
        """How many products each entry is the sum of."""
        self._first = (*batch, *rows, *inner, *columns, *rest)
        self._second = (*batch, *inner, *columns, *rows, *rest)
        self._left = length(batch), length(rows), length(inner)
        self._right = length(batch), length(inner), length(columns)
        self._full_left = tuple(sizes[a] if a in left else 1 for a in range(plan.ndim))
        self._full_right = tuple(sizes[a] if a in right else 1 for a in range(plan.ndim))
        self._back = tuple(int(i) for i in np.argsort([*outcome, *inner, *rest]))
        self._final = (*[sizes[a] for a in outcome], *[1] * (len(inner) + len(rest)))

    def left(self, a: Array) -> Array:
        """The first register as a stack of matrices."""
        if a.shape != self._full_left:
            a = _full(a, self._full_left)
        return a.transpose(self._first).reshape(self._left)

    def right(self, b: Array) -> Array:
        """The second register as a stack of matrices."""
        if b.shape != self._full_right:
            b = _full(b, self._full_right)
        return b.transpose(self._second).reshape(self._right)

    def register(self, stack: Array) -> Array:
        """A stack of products as a register."""
        return stack.reshape(self._final).transpose(self._back)


def _full(a: Array, shape: tuple[int, ...]) -> Array:
    """A copy, which for small arrays is formed sooner than a view is."""
    full = np.empty(shape, a.dtype)
    full[...] = a
    return full


def contracted(
    op: Op, plan: Plan, product: Callable[[Array, Array], Array] = np.matmul
) -> Callable[[Array, Array], Array]:
    """The function that contracts two registers; `product` multiplies stacks of matrices."""
    c = Contraction(op, plan)
    return lambda a, b: c.register(product(c.left(a), c.right(b)))
