"""The comparison of intervals, which counterexamples are judged by."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import factorial

import pytest
import sympy as sp
from mpmath import iv

from tests.intervals import WIDEST, enclosed, ends, meet, narrow


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    """Enough for exp(-1000) beside 1."""
    kept, iv.dps = iv.dps, 500
    yield
    iv.dps = kept


def test_intervals_that_differ_by_little_do_not_meet() -> None:
    assert not meet(iv.cos(1), iv.cos(1) + iv.mpf(2) ** -300)
    assert not meet(Fraction(1), 1 - iv.exp(-1000))
    assert not narrow(iv.mpf([0, 1]))
    assert meet(iv.mpf([0, 1]), Fraction(1))
    assert ends(iv.mpf(-3) / 4) == (Fraction(-3, 4), Fraction(-3, 4))
    assert ends(iv.mpf(0)) == (Fraction(0), Fraction(0))


def test_enclosures_are_of_the_number() -> None:
    series = sum(Fraction(1, factorial(k)) for k in range(120))
    low, high = ends(enclosed(sp.E / (1 + sp.E)))
    assert low - WIDEST < series / (1 + series) < high + WIDEST
    cosine = sum(Fraction((-1) ** k, factorial(2 * k)) for k in range(60))
    low, high = ends(enclosed(sp.cos(1)))
    assert low - WIDEST < cosine < high + WIDEST
    with pytest.raises(AssertionError):
        enclosed(sp.sin(1))
