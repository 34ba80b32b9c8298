"""Inner products that a law forms itself, and sums that must vanish, as comparisons.

Sources: Higham, *Accuracy and Stability of Numerical Algorithms*, chapter 3, for what a sum of
products in float64 may be off.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.calls import agree
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.rounding import formed

Array = np.ndarray[Any, Any]


def paired(
    what: str, left: tuple[Array, Array, Array], right: tuple[Array, Array, Array], keep: int
) -> Comparison:
    """Two inner products that must agree: each of a known factor, a result, and the result's
    allowance, added up over all axes but the first `keep`. Formed in float64."""
    sums, room = [], 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for known, result, allowance in (left, right):
            axes = tuple(range(keep, known.ndim))
            sums.append(np.sum(known * result, axis=axes))
            size = np.sum(np.abs(known * result), axis=axes)
            terms = int(np.prod(known.shape[keep:]))
            room = room + np.sum(np.abs(known) * allowance, axis=axes) + formed(size, terms + 1)
    return _where_known(what, sums[0], sums[1], np.asarray(room), "float64")


def _where_known(
    what: str, first: Array, second: Array, allowance: Array, dtype: str
) -> Comparison:
    """Two sides where something is known of both."""
    known = np.isfinite(allowance)
    return agree(what, first[known], second[known], allowance[known], dtype)


def vanishing(what: str, values: Array, allowance: Array, axis: int, dtype: str) -> Comparison:
    """A sum along an axis that must vanish: what is positive in it beside what is negative."""
    positive = np.maximum(values, 0.0).sum(axis=axis)
    negative = np.maximum(-values, 0.0).sum(axis=axis)
    room = allowance.sum(axis=axis) + formed(positive + negative, values.shape[axis])
    return _where_known(what, positive, negative, room, dtype)
