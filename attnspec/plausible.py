"""Whether errors look like roundings to a format, and not merely lie within what they could do.

The allowance of a looser contract is a worst case. In a long sum that is many times what
independent roundings give, and then a lost term lies within it too. So a hypothesis about the
precision is held against the size that its errors would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnspec.oracle.comparison import Comparison, errors, verdict
from attnspec.oracle.precision import Format

Array = np.ndarray[Any, Any]
Pair = tuple[Comparison, Comparison]
"""What one comparison is as declared, and under the hypothesis."""

AMPLIFIED = ("angles", "scores")
"""Places where one rounding is multiplied by a large number (a position, a logit). Elsewhere an
allowance of many roundings is that of many independent ones."""
MOST_DEVIATIONS = 4.0
"""Errors beyond it are no independent roundings: for one of 10 000 elements, chance would do."""
LEAST_DEVIATIONS = 0.25
"""Half of the failing calls have an error that reaches it: a rounding uniform on [-u, u], of
deviation u / sqrt(3), stays below it with probability 0.14."""
TELLING_PASSES = 0.5
"""So many calls that pass with errors below LEAST_DEVIATIONS, for each that fails, are too many."""
TELLING_SIGNS = 4
"""So many failing calls whose errors all make the results larger, or all smaller, are taken for
no roundings: of chance, at most one in 8."""
FEWEST = 3
"""A looser contract explains any one error; these are the fewest from which to tell a format."""


def plausible(pairs: Sequence[Pair], place: str, fmt: Format) -> bool:
    """Whether failing comparisons (as declared, and under the hypothesis that `place` is rounded
    to `fmt`) have errors of the size and the signs that such roundings have."""
    largest: list[float] = []
    signs: list[frozenset[float]] = []
    for declared, loose in pairs:
        if not declared.promised or verdict(declared).ratio <= 1.0:
            continue
        if declared.allowance is None or loose.allowance is None:
            return False
        if declared.actual.shape != loose.actual.shape:
            # a law leaves out what nothing is known of, and under the hypothesis that is more
            return False
        error = errors(declared)
        failing = error > declared.allowance
        if not _informative(loose, loose.allowance)[failing].all():
            # the worst of it is not judged under the hypothesis
            return False
        deviation = _deviation(loose, loose.allowance, place, fmt)
        with np.errstate(all="ignore"):
            deviations = np.where(error == 0.0, 0.0, error / deviation)
        if not (deviations <= MOST_DEVIATIONS).all():
            return False
        largest.append(float(deviations.max()))
        worse = np.abs(declared.actual) - np.abs(declared.expected)
        signs.append(frozenset(np.sign(worse[failing]).tolist()))
    one_sided = len(signs) >= TELLING_SIGNS and len(frozenset().union(*signs)) == 1
    if len(largest) < FEWEST or one_sided:
        return False
    return float(np.median(largest)) >= LEAST_DEVIATIONS


def passes_unlikely(pairs: Sequence[Pair], place: str, fmt: Format) -> bool:
    """Whether a call that passed would most likely have failed with such roundings: it errs, but
    by far less than they do."""
    for declared, loose in pairs:
        if declared.actual.shape != loose.actual.shape:
            continue
        if declared.promised and declared.allowance is not None and loose.allowance is not None:
            deviation = _deviation(loose, loose.allowance, place, fmt)
            error = errors(declared)
            seen = (declared.allowance < LEAST_DEVIATIONS * deviation) & (error > 0.0)
            small = error <= LEAST_DEVIATIONS * deviation
            if np.count_nonzero(seen) > 1 and small[seen].all():
                return True
    return False


def size(comparison: Comparison) -> float:
    """Largest error, as a share of the element or of the root mean square of all of them."""
    if comparison.actual.size == 0 or not comparison.promised:
        return 0.0
    with np.errstate(all="ignore"):
        share = errors(comparison) / _scale(comparison.expected)
    return float(np.nan_to_num(share, nan=0.0, posinf=np.inf).max())


def _informative(comparison: Comparison, allowance: Array) -> Array:
    return np.asarray(allowance <= _scale(comparison.expected))


def _deviation(comparison: Comparison, allowance: Array, place: str, fmt: Format) -> Array:
    """An allowance of K roundings of the result's size is that of K independent ones, whose
    deviation grows as the root of K."""
    rounded = allowance / np.sqrt(3.0)
    if place in AMPLIFIED:
        return np.asarray(rounded)
    one = fmt.roundoff * _scale(comparison.expected) / np.sqrt(3.0)
    return np.asarray(np.minimum(rounded, np.sqrt(rounded * one)))


def _scale(expected: Array) -> Array:
    finite = np.where(np.isfinite(expected), expected, 0.0)
    if not finite.size:
        return finite
    largest = float(np.abs(finite).max()) or 1.0
    rms = largest * float(np.sqrt(np.mean(np.square(finite / largest))))
    return np.asarray(np.maximum(np.abs(finite), rms))
