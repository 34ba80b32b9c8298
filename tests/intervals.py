"""Intervals of mpmath, fractions and the numbers of the register, compared."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import sympy as sp
from mpmath import iv

WIDEST = Fraction(1, 2**160)


def interval(x: Any) -> Any:
    """A fraction or a whole number as an interval that holds it; an interval as it is."""
    return iv.mpf(x.numerator) / x.denominator if isinstance(x, (int, Fraction)) else x


def ends(x: Any) -> tuple[Fraction, Fraction]:
    """The ends of an interval, or a fraction twice, as exact fractions."""
    if isinstance(x, (Fraction, int)):
        return Fraction(x), Fraction(x)
    low, high = (sp.Rational(*_ratio(end)) for end in x._mpi_)
    return Fraction(int(low.p), int(low.q)), Fraction(int(high.p), int(high.q))


def _ratio(end: tuple[int, int, int, int]) -> tuple[int, int]:
    sign, mantissa, exponent, _ = (int(part) for part in end)
    signed = -mantissa if sign else mantissa
    return (signed * 2**exponent, 1) if exponent >= 0 else (signed, 2**-exponent)


def meet(x: Any, y: Any) -> bool:
    """Whether two intervals have a number in common."""
    (low, high), (other_low, other_high) = ends(x), ends(y)
    return max(low, other_low) <= min(high, other_high)


def narrow(x: Any) -> bool:
    low, high = ends(x)
    return high - low <= WIDEST


def enclosed(number: sp.Expr) -> Any:
    """An interval that holds one of the register's numbers."""
    if isinstance(number, sp.Rational):
        return iv.mpf(int(number.p)) / iv.mpf(int(number.q))
    if number is sp.E:
        return iv.exp(1)
    parts = [enclosed(part) for part in number.args]
    if isinstance(number, (sp.exp, sp.cos)):
        return (iv.exp if isinstance(number, sp.exp) else iv.cos)(*parts)
    if isinstance(number, sp.Pow) and number.args[1] == -1:
        return 1 / parts[0]
    total = parts[0]
    for part in parts[1:]:
        total = total + part if isinstance(number, sp.Add) else total * part
    assert isinstance(number, (sp.Add, sp.Mul)), number
    return total
