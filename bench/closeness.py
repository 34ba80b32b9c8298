"""`torch.testing.assert_close` beside the suite's own verdict, on the same comparisons.

With its default tolerances it complains about right implementations too. Widened by the smallest
power of two at which it is silent on them, it is what a project with a green build would use.
Both ways of judging look at the same elements, those that the suite judges: where a result
overflows, or is less than its error, no tolerance tells right from wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.testing._comparison import default_tolerances

from attnspec.oracle.comparison import Comparison, _judged, verdict
from attnspec.oracle.precision import snapped

Array = np.ndarray[Any, Any]
Silent = Callable[[Comparison], bool]
"""Whether a way of judging accepts what it is shown."""

WIDEST = 2.0**60
"""No tolerance is widened further."""


class Part(NamedTuple):
    """The two sides of some elements."""

    actual: Array
    expected: Array


def judged_part(comparison: Comparison) -> Part:
    """Its elements that the suite judges, in one row."""
    if comparison.allowance is None or not comparison.actual.size:
        return Part(comparison.actual, comparison.expected)
    with np.errstate(all="ignore"):
        seen = _judged(comparison, comparison.allowance)
    return Part(comparison.actual[seen], comparison.expected[seen])


def within_allowance(comparison: Comparison) -> bool:
    """The suite's own verdict."""
    return verdict(comparison).holds


def within_tolerance(widening: float) -> Silent:
    """`assert_close`, its default tolerances for the dtype so many times as wide."""

    def silent(comparison: Comparison) -> bool:
        part, kind = judged_part(comparison), getattr(torch, comparison.dtype)
        rtol, atol = (widening * tolerance for tolerance in default_tolerances(kind))
        sides = part.actual, snapped(part.expected, comparison.dtype)
        actual, right = (torch.from_numpy(side).to(kind) for side in sides)
        try:
            torch.testing.assert_close(actual, right, rtol=rtol, atol=atol)
        except AssertionError:
            return False
        return True

    return silent


def rejected(silent: Silent, comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Those that a way of judging does not accept."""
    return [comparison for comparison in comparisons if not silent(comparison)]


def widening_for(right: Sequence[Comparison], tolerated: float = 0.0) -> float:
    """The smallest power of two at which `assert_close` rejects no more than a share of the right
    comparisons. Raises RuntimeError where there is none."""
    widening, left = 1.0, list(right)
    while len(left := rejected(within_tolerance(widening), left)) > tolerated * len(right):
        widening *= 2.0
        if widening > WIDEST:
            raise RuntimeError(f"assert_close is silent at no tolerance: {left[0].what}")
    return widening
