"""The roundings of the machine model, as the error algebra charges them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnspec.oracle.precision import FORMATS, NUMPY_TYPES, Format

Array = np.ndarray[Any, Any]

LARGEST_WHOLE = 2.0**53
"""Integers are exact in float64 up to here."""


def gamma(n: int, u: float) -> float:
    """n u / (1 - n u), the growth of n roundings; infinite once they may eat everything."""
    return n * u / (1.0 - n * u) if n * u < 1.0 else math.inf


def formed(size: Array, terms: int) -> Array:
    """Error of a sum of products that a law itself forms in float64, from the sum of the sizes:
    what is added to a comparison's allowance for it. A sum of nothing but zeros is exact."""
    own = FORMATS["float64"]
    return gamma(terms, own.roundoff) * size + np.minimum(size, terms * own.normal)


def added(one: Array, other: Array) -> tuple[Array, Array]:
    """A sum that a law forms in float64, and where it is not exact (Knuth's two-sum)."""
    total = one + other
    back = total - one
    lost: Array = (one - (total - back)) + (other - back) != 0.0
    return total, lost


def representable(values: Array, fmt: Format) -> Array:
    """Where a float64 that is known to be exact is a number of the format too. For float64
    itself only integers are known to be."""
    result: Array
    if fmt.name == "float64":
        result = (values == np.rint(values)) & (np.abs(values) < LARGEST_WHOLE)
        return result
    with np.errstate(over="ignore"):
        result = values.astype(NUMPY_TYPES[fmt.name]).astype(np.float64) == values
    return result


def stored(a: tuple[Array, Any], fmt: Format) -> tuple[Array, Any]:
    """One rounding of (value, error) to a storage format; past its overflow threshold nothing is
    known."""
    v, e = a
    reach = np.abs(v) + e
    given = e
    with np.errstate(invalid="ignore"):
        e = e + np.minimum(reach, np.maximum(fmt.roundoff * reach, fmt.underflow))
    if (reach >= fmt.overflow).any():
        e = np.where((reach >= fmt.overflow) & np.isfinite(v), np.inf, e)
    # what is infinite stays what it is: exact, or lost already
    return v, np.where(np.isfinite(v), e, given) if not np.isfinite(v).all() else e


def overflowed(a: tuple[Array, Any], fmt: Format) -> tuple[Array, Any]:
    """(value, error) as it is, but for what may be past the overflow threshold of its format."""
    v, e = a
    # nearly always there is nothing that large: a sum of squares tells in one pass (of float64's
    # largest numbers it is infinite, and then the comparison below decides)
    large = fmt.overflow / 4.0
    if np.vdot(v, v) < large * large:
        return a
    lost = (np.abs(v) + e >= fmt.overflow) & np.isfinite(v)
    return v, np.where(lost, np.inf, e)


def stored_often(a: tuple[Array, Any], fmt: Format, count: Array) -> tuple[Array, Any]:
    """`count` roundings of (value, error), each of the value's size."""
    v, e = a
    reach = np.abs(v) + e
    own = np.expm1(count * -math.log1p(-fmt.roundoff)) * reach
    return v, e + own + count * np.minimum(reach, fmt.underflow)


def zero_at_infinity(x: Array, e: Any) -> Array:
    """The error e of e^x, which is 0 in every format where x is minus infinity."""
    result: Array = np.where(np.isneginf(x), 0.0, e)
    return result
