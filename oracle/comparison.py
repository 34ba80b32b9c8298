"""Two sides and an allowance, and the verdict on them. The one place where numbers are compared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnspec.oracle.precision import EVALUATION, JUDGED_RMS, format_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Comparison:
    """What an implementation returned, what it should have, and how far apart they may be.

    All arrays are float64 and of one shape. `allowance` is None where the two sides must agree
    to the bit (the sign of zero ignored, NaN equal to NaN).
    """

    what: str
    """Names the quantity: `output`, `row sums`, ..."""
    actual: Array
    expected: Array
    allowance: Array | None
    dtype: str
    """Storage dtype of what was returned, or that of its whole numbers."""
    residual: Array | None = None
    """Low part of the expected value where float64 alone is too coarse to hold it."""
    promised: bool = True
    """False where nothing was promised (a guarantee that the target doesn't give): then the
    comparison only counts how often it held."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of one comparison."""

    ratio: float
    """Worst error over allowance among the elements judged; 0 when there are none."""
    index: tuple[int, ...]
    """Where the worst one is."""
    judged: int
    elements: int

    @property
    def holds(self) -> bool:
        return self.ratio <= 1.0


def verdict(comparison: Comparison) -> Verdict:
    """Compare the two sides, element by element.

    Raises ValueError if the sides differ in shape: laws bring them to one shape, and an
    implementation's wrong shape is reported before it gets here.
    """
    actual, expected = comparison.actual, comparison.expected
    if actual.shape != expected.shape:
        raise ValueError(f"sides of shapes {actual.shape} and {expected.shape} cannot be compared")
    if actual.size == 0:
        return Verdict(0.0, (), 0, 0)
    found, judged = ratios(comparison)
    worst = int(found.argmax())
    return Verdict(
        ratio=float(found.flat[worst]),
        index=tuple(int(i) for i in np.unravel_index(worst, found.shape)),
        judged=int(np.count_nonzero(judged)),
        elements=actual.size,
    )


def ratios(comparison: Comparison) -> tuple[Array, Array]:
    """Error over allowance, element by element, 0 where nothing is judged, and what is judged."""
    if comparison.allowance is None:
        same = _same(comparison.actual, comparison.expected)
        return np.where(same, 0.0, np.inf), np.ones(same.shape, bool)
    with np.errstate(all="ignore"):
        found = _ratios(comparison, _with_flush(comparison, comparison.allowance))
        judged = _judged(comparison, comparison.allowance)
    return np.where(judged, found, 0.0), judged


def _with_flush(comparison: Comparison, allowance: Array) -> Array:
    """The allowance, and what is exact may be zero instead where it is below the normal range."""
    exact = allowance == 0.0
    if not exact.any():
        return allowance
    size = np.abs(comparison.expected)
    flushed = exact & (size > 0.0) & (size < format_of(comparison.dtype).normal)
    return np.where(flushed, size, allowance)


def errors(comparison: Comparison) -> Array:
    """Absolute difference of the two sides; infinite where just one of them is NaN."""
    with np.errstate(all="ignore"):
        difference: Array = comparison.actual - comparison.expected
        if comparison.residual is not None:
            # a residual belongs to finite values only
            difference = difference - np.where(np.isfinite(difference), comparison.residual, 0.0)
        difference = np.abs(difference)
        if _all_finite(difference):
            return difference
    same = _same(comparison.actual, comparison.expected) & ~np.isfinite(comparison.expected)
    return np.where(same, 0.0, np.where(np.isnan(difference), np.inf, difference))


def _ratios(comparison: Comparison, allowance: Array) -> Array:
    """Error over allowance; no error is none of any allowance."""
    error = errors(comparison)
    ratio: Array = error / (allowance * (1.0 + EVALUATION))
    if _all_finite(ratio):
        return ratio
    return np.where(error == 0.0, 0.0, np.where(np.isnan(ratio), np.inf, ratio))


def _judged(comparison: Comparison, allowance: Array) -> Array:
    """Where something is promised: no overflow, no underflow, and an allowance that says
    something about the output. What is exact, an allowance of 0, is always judged, and so is
    what must be infinite or NaN, unless nothing is known of it."""
    fmt = format_of(comparison.dtype)
    expected = comparison.expected
    whole = _all_finite(expected)
    finite = True if whole else np.isfinite(expected)
    size = np.abs(expected if whole else np.where(finite, expected, 0.0))
    reach = size + allowance
    # the root mean square, by way of the largest so that squares do not overflow
    largest = float(size.max()) or 1.0
    shares = size / largest
    rms = largest * math.sqrt(np.vdot(shares, shares) / size.size)
    promised = (reach < fmt.overflow) & (reach >= fmt.normal) & (allowance <= JUDGED_RMS * rms)
    judged: Array = promised | (allowance == 0.0)
    return judged if whole else judged | (~finite & np.isfinite(allowance))


def _all_finite(values: Array) -> bool:
    """Whether no value is infinite or NaN, told by their sum; of values that together overflow
    nothing is said."""
    return math.isfinite(np.add.reduce(values, axis=None))


def _same(a: Array, b: Array) -> Array:
    result: Array = (a == b) | (np.isnan(a) & np.isnan(b))
    return result
