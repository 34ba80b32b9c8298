"""Learned positions as an expression, and the gradient of their table.

Source: document 004 (3.2, two families): position p has row p of a table. Nothing is computed on
the way, so no mark stands there and a right result is right to the bit.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition, choice, rnd

_i, _r, _c = sp.symbols("i r c", integer=True, nonnegative=True)
_length, _rows, _width = sp.symbols("length rows width", integer=True, positive=True)
_positions = sp.IndexedBase(sp.Symbol("positions", integer=True))
_table = sp.IndexedBase("table", shape=(_rows, _width), real=True)
_upstream = sp.IndexedBase("upstream", shape=(_length, _width), real=True)

DEFINITION = Definition(
    "learned_positions",
    _table[_positions[_i], _c],
    ((_i, _length), (_c, _width)),
    (_positions, _table),
    (_length, _rows, _width),
)
"""positions[i], table[r, c] -> the rows that the positions name. A position outside of
0..rows-1 has none."""


def _table_gradient() -> Definition:
    """positions[i], upstream[i, c] -> the gradient of table[r, c]: the upstream of every position
    that names row r, added up. The running sum may be stored each time. A row that no position
    names has a gradient of exactly 0."""
    named = choice(_upstream[_i, _c], sp.Eq(_positions[_i], _r), sp.Integer(0))
    total = rnd(sp.Sum(named, (_i, 0, _length - 1)), "reductions", _length)
    return Definition(
        "learned_positions.table_gradient",
        rnd(total, "output"),
        ((_r, _rows), (_c, _width)),
        (_positions, _upstream),
        (_length, _rows, _width),
    )


TABLE_GRADIENT = _table_gradient()


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return (DEFINITION, TABLE_GRADIENT)
