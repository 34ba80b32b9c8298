"""Sums of products over named axes as batched matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from attnspec.oracle.tape import Op

if TYPE_CHECKING:
    from attnspec.oracle.plan import Plan

Array = np.ndarray[Any, Any]


def contracted(
    op: Op, plan: Plan, product: Callable[[Array, Array], Array] = np.matmul
) -> Callable[[Array, Array], Array]:
    """The function that contracts two registers over `op.extra`.

    Both registers have the summed axes. The axes that both have beside these are a batch; the
    rest are rows of the one and columns of the other. `product` multiplies stacks of matrices.
    """
    left, right = (plan.tape.ops[a].axes for a in op.args[:2])
    summed = frozenset(op.extra)
    batch = sorted((left & right) - summed)
    rows = sorted(left - right)
    columns = sorted(right - left)
    inner = sorted(summed)
    sizes = plan.sizes

    def length(axes: list[int]) -> int:
        return int(np.prod([sizes[a] for a in axes], dtype=np.int64))

    rest = [a for a in range(plan.ndim) if a not in left | right]
    first = (*batch, *rows, *inner, *columns, *rest)
    second = (*batch, *inner, *columns, *rows, *rest)
    outcome = [*batch, *rows, *columns]
    back = tuple(int(i) for i in np.argsort([*outcome, *inner, *rest]))
    final = (*[sizes[a] for a in outcome], *[1] * (len(inner) + len(rest)))

    def function(a: Array, b: Array) -> Array:
        a = a.transpose(first).reshape(length(batch), length(rows), length(inner))
        b = b.transpose(second).reshape(length(batch), length(inner), length(columns))
        return product(a, b).reshape(final).transpose(back)

    return function
