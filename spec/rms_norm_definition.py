"""RMSNorm as an expression.

Sources: document 004 (3.8, RMSNorm, and 3.10). The documents write it without eps; every
implementation has one, and where it stands is a convention.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition, rnd
from attnspec.spec.moments import PLACEMENTS, eps, inverse_root, mean

_a, _c = sp.symbols("a c", integer=True, nonnegative=True)
_rows, _d = sp.symbols("rows d", integer=True, positive=True)
_x = sp.IndexedBase("x", shape=(_rows, _d), real=True)
_weight = sp.IndexedBase("weight", shape=(_d,), real=True)

Entry = Callable[[sp.Expr], sp.Expr]
"""A row of numbers: from a channel to its entry."""

GAINS = ("plain", "one-plus")


def gain_of(weight: sp.Expr, gain: str) -> sp.Expr:
    """What the normalised value is multiplied by: the weight, or one plus the weight."""
    return weight if gain == "plain" else rnd(1 + weight, "normalised")


def root_mean_square(x: Entry, c: sp.Symbol, size: sp.Expr, placement: str) -> sp.Expr:
    """The inverse root of the mean of the squares of a row; c is an index for its channels."""
    return inverse_root(mean(rnd(x(c) ** 2, "statistics"), c, size), placement)


def rms_normalised(
    x: Entry,
    c: sp.Symbol,
    size: sp.Expr,
    *,
    placement: str = "inside",
    gain: Entry | None = None,
) -> Entry:
    """RMSNorm of a row, before it is stored. Between the division and the gain stands the cast of
    implementations that work in a wider format than they store: the mark `normalised`."""
    inverse = root_mean_square(x, c, size, placement)
    if gain is None:
        return lambda at: x(at) * inverse
    return lambda at: rnd(x(at) * inverse, "normalised") * gain(at)


@cache
def rms_norm(
    *, weight: bool = True, eps_placement: str = "inside", gain: str = "plain"
) -> Definition:
    """x[a, c], weight[c] -> y[a, c]: RMSNorm of rows."""
    multiplied = (lambda at: gain_of(_weight[at], gain)) if weight else None
    row = rms_normalised(lambda at: _x[_a, at], _c, _d, placement=eps_placement, gain=multiplied)
    return Definition(
        f"rms_norm.{eps_placement}.{gain if weight else 'bare'}",
        rnd(row(_c), "output"),
        ((_a, _rows), (_c, _d)),
        (_x, *((_weight,) if weight else ())),
        (_rows, _d, *(() if eps_placement == "none" else (eps,))),
    )


@cache
def rms_norm_factor(eps_placement: str = "inside") -> Definition:
    """x[a, c] -> r[a]: what RMSNorm multiplies rows by, before the gain."""
    return Definition(
        f"rms_norm_factor.{eps_placement}",
        root_mean_square(lambda at: _x[_a, at], _c, _d, eps_placement),
        ((_a, _rows),),
        (_x,),
        (_rows, _d, *(() if eps_placement == "none" else (eps,))),
    )


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return tuple(
        rms_norm(weight=weight, eps_placement=placement, gain=gain)
        for placement in PLACEMENTS
        for weight, gain in ((True, "plain"), (True, "one-plus"), (False, "plain"))
    )
