"""The statistics of a row that norms divide by: a mean, and the inverse of a root of it.

Sources: document 004 (3.8). Statistics are kept in their own precision; the sum below a mean is
accumulated as any other. Two right implementations of a mean differ by more than the order of its
terms: the sum is divided by the size, or multiplied by its inverse, or is updated term by term.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.definition import larger, rnd

eps = sp.Symbol("eps", nonnegative=True)
"""What keeps the division defined."""

FORMING = 2
"""Roundings of a mean besides those of its sum and of one division: the inverse of the size, and
the product with it, in place of a division; or one more step of a running mean."""

PLACEMENTS = ("inside", "outside", "clamped", "none")
"""Where eps stands: added to the mean square under the root, added to the root, in place of a
smaller mean square, or nowhere."""


def mean(term: sp.Expr, index: sp.Symbol, size: sp.Expr) -> sp.Expr:
    """The mean of a term over an index from 0 to size - 1."""
    total = rnd(sp.Sum(term, (index, 0, size - 1)), "accumulate", FORMING)
    return rnd(total / size, "statistics")


def inverse_root(square: sp.Expr, placement: str) -> sp.Expr:
    """1 / sqrt(square), with eps where `placement` says. Raises ValueError for another one."""
    # the call's eps is a double, rounded to the precision in which it is added
    small = rnd(eps, "statistics", 1)
    if placement == "inside":
        below = sp.sqrt(rnd(square + small, "statistics"))
    elif placement == "outside":
        below = rnd(rnd(sp.sqrt(square), "statistics") + small, "statistics")
    elif placement == "clamped":
        below = sp.sqrt(larger(square, small))
    elif placement == "none":
        below = sp.sqrt(square)
    else:
        raise ValueError(f"unknown placement {placement!r}; allowed: {', '.join(PLACEMENTS)}")
    return rnd(1 / below, "statistics")
