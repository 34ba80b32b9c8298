"""Two rules for sums of symbolic length, and the trigonometric normal form of a summand."""

from __future__ import annotations

import sympy as sp


def reduced(expression: sp.Expr) -> sp.Expr:
    """The expression as a polynomial in cosines and first powers of sines of single angles: angle
    sums expanded, sin^2 written as 1 - cos^2."""
    expanded = sp.expand(sp.expand_trig(sp.expand(expression)))
    return sp.expand(expanded.replace(_is_sine_power, _without_sine_square))


def _is_sine_power(node: sp.Basic) -> bool:
    return bool(node.is_Pow and isinstance(node.base, sp.sin) and node.exp.is_Integer) and bool(
        node.exp >= 2
    )


def _without_sine_square(power: sp.Pow) -> sp.Expr:
    squares, rest = divmod(int(power.exp), 2)
    return (1 - sp.cos(power.base.args[0]) ** 2) ** squares * power.base**rest


def difference(left: sp.Sum, right: sp.Sum) -> sp.Expr:
    """`left - right` for two sums over one range: the sum of the reduced differences.

    Zero if each summand is. Raises ValueError for different ranges, which may not be merged.
    """
    if left.limits != right.limits:
        raise ValueError(f"sums over different ranges: {left.limits} and {right.limits}")
    return sp.Sum(reduced(left.function - right.function), *left.limits).doit()


def distributed(total: sp.Sum) -> sp.Expr:
    """The sum split into one sum a term, with what doesn't depend on the index pulled out."""
    terms = sp.Add.make_args(sp.expand(total.function))
    return sp.Add(*(sp.factor_terms(sp.Sum(term, *total.limits)) for term in terms))
