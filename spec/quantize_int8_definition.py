"""Quantisation of rows to signed bytes: the scale, and which results are right.

Source: document 004 (3.7, DSA); one scale a row and the bounds are the project's contract. A row
x is kept as integers q, |q| <= 127, and a scale s = max|x| / 127, of which x is about q s. Which
integer stands for a quotient near a half is free, so what is defined is a set of right results,
over exact rationals.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition, Maximum, one_if

_a, _l = sp.symbols("a l", integer=True, nonnegative=True)
_rows, _n = sp.symbols("rows n", integer=True, positive=True)
_x = sp.IndexedBase("x", shape=(_rows, _n), real=True)
_q = sp.IndexedBase(sp.Symbol("q", integer=True), shape=(_rows, _n))
_scale = sp.IndexedBase("scale", shape=(_rows,), real=True)

LEVELS = 127
"""Levels on each side of zero; -128 is none."""
SLACK = sp.Rational(1, 2**15)
"""What a stored integer may be off beside half a step, in steps: 127 quotients' worth of QUOTIENT,
rounded up."""
QUOTIENT = sp.Rational(1, 2**22)
"""Relative error of up to three roundings of float32: of an entry of float64, of the inverse of a
divisor, and of the product with it."""
SMALLEST = sp.Rational(1, 2**126)
LARGEST = sp.Integer(2) ** 128 - sp.Integer(2) ** 103
"""The normal numbers of float32 begin at the one; from the other on numbers round to infinity."""


def largest(entries: sp.IndexedBase = _x, row: sp.Expr = _a, size: sp.Expr = _n) -> sp.Expr:
    """The largest size of an entry of a row."""
    return Maximum(sp.Abs(entries[row, _l]), (_l, 0, size - 1))


def scale_is_right(scale: sp.Expr, size: sp.Expr) -> sp.Basic:
    """Whether a scale is the one of a row whose largest size is given; a row of zeros may have
    any."""
    return sp.Or(sp.Eq(size, 0), sp.Abs(LEVELS * scale - size) <= QUOTIENT * size)


def entry_is_right(x: sp.Expr, q: sp.Expr, scale: sp.Expr) -> sp.Basic:
    """Whether an integer may stand for an entry at a scale; for zero only zero may."""
    return sp.And(
        sp.Abs(q) <= LEVELS,
        sp.Abs(x - q * scale) <= scale * (sp.Rational(1, 2) + SLACK),
        sp.Or(sp.Ne(x, 0), sp.Eq(q, 0)),
    )


def is_judged(size: sp.Expr) -> sp.Basic:
    """Whether something is promised for a row of that largest size: zeros, or a scale among the
    normal numbers of float32 and entries among its numbers."""
    return sp.Or(sp.Eq(size, 0), sp.And(size >= LEVELS * SMALLEST, size < LARGEST))


SCALE = Definition("quantize_int8.scale", largest() / LEVELS, ((_a, _rows),), (_x,), (_rows, _n))
"""The exact scale of each row."""
SCALE_ACCEPTED = Definition(
    "quantize_int8.scale_accepted",
    one_if(scale_is_right(_scale[_a], largest())),
    ((_a, _rows),),
    (_x, _scale),
    (_rows, _n),
)
"""1 where a returned scale is right."""
ENTRY_ACCEPTED = Definition(
    "quantize_int8.entry_accepted",
    one_if(entry_is_right(_x[_a, _l], _q[_a, _l], _scale[_a])),
    ((_a, _rows), (_l, _n)),
    (_x, _q, _scale),
    (_rows, _n),
)
"""1 where a returned integer is right at the returned scale."""
JUDGED = Definition(
    "quantize_int8.judged", one_if(is_judged(largest())), ((_a, _rows),), (_x,), (_rows, _n)
)
"""1 for rows of which something is promised."""
RESTORED = Definition(
    "quantize_int8.restored",
    _q[_a, _l] * _scale[_a],
    ((_a, _rows), (_l, _n)),
    (_q, _scale),
    (_rows, _n),
)
"""What a returned row stands for."""


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return (SCALE, SCALE_ACCEPTED, ENTRY_ACCEPTED, JUDGED, RESTORED)
