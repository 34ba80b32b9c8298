"""Learned positions: a table with a row for each position up to a greatest one.

Source: document 004 (3.2, two families).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.definition import unmarked
from attnspec.spec.learned_positions_definition import DEFINITION, TABLE_GRADIENT
from attnspec.spec.symbols import c, l

_rows, _width = sp.symbols("L d", integer=True, positive=True)
_below, _beyond = sp.symbols("u e", integer=True, nonnegative=True)
_position = sp.Symbol("p", integer=True, nonnegative=True)
_table = sp.IndexedBase("P", real=True)


def _entry(position: sp.Expr) -> sp.Expr:
    """The definition's result for one token, as an entry of the table P."""
    positions, table = DEFINITION.arrays
    (place, _), (channel, _) = DEFINITION.axes
    entry = DEFINITION.expression.subs(channel, c)
    return entry.subs(positions[place], position).subs(table, _table)


def _one_row() -> tuple[Step, ...]:
    one_hot = sp.KroneckerDelta(_position, l, (0, _rows - 1))
    product = sp.Sum(one_hot * _table[l, c], (l, 0, _rows - 1)).doit()
    inside = sp.simplify(product.subs(_rows, _position + 1 + _below))
    return (
        Step("a token at position p has row p of the table", _entry(_position)
             - _table[_position, c]),
        Step("the one-hot vector of p times the table, for p < L", _entry(_position) - inside),
    )  # fmt: skip


def _ends() -> tuple[Step, ...]:
    last = _rows - 1 - _below
    outside = sp.Gt(_position, DEFINITION.arrays[1].shape[0] - 1)
    return (
        Step(
            "L d learned numbers",
            sp.Sum(1, (c, 0, _width - 1), (l, 0, _rows - 1)).doit() - _rows * _width,
        ),
        Step(
            "position L - 1 - u has its own row: a slope of 1 in it",
            sp.diff(_entry(last), _table[last, c]) - 1,
        ),
        Step(
            "position L + e has a slope of 0 in every one of them: the table says nothing of it",
            sp.diff(_entry(_rows + _beyond), _table[last, c]),
        ),
        Step(
            "its row would lie outside of the definition's table",
            outside.subs({_position: _rows + _beyond, DEFINITION.parameters[1]: _rows}),
        ),
    )


def _added_up() -> tuple[Step, ...]:
    positions, upstream = TABLE_GRADIENT.arrays
    (row, _), (channel, _) = TABLE_GRADIENT.axes
    total = unmarked(TABLE_GRADIENT.expression)
    ((place, first, last),) = total.limits
    named, given = total.function, upstream[place, channel]
    return (
        Step(
            "the slope of token i's result in table[r, c] is 1 where r is its position",
            sp.diff(_entry(_position), _table[l, c]) - sp.KroneckerDelta(_position, l),
        ),
        Step(
            "a term of the gradient is the upstream where the position is r",
            named.subs(positions[place], row) - given,
        ),
        Step(
            "nothing where it is above",
            named.subs(positions[place], row + 1 + _below),
        ),
        Step(
            "nor below",
            named.subs(row, positions[place] + 1 + _below),
        ),
        Step(
            "over all tokens",
            sp.Matrix([first, last - (TABLE_GRADIENT.parameters[0] - 1)]),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="learned_positions.definition",
        number="",
        statement="The expression that the suite evaluates gives each token the table's row of "
        "its position.",
        latex=r"P[p_i,c]=\sum_l\delta_{p_il}P[l,c]",
        source=Source("004", "3.2 Two Families", "A table from which positions are looked up."),
        verdict="holds",
        form="symbolic",
        derivation=_one_row,
    ),
    Claim(
        id="learned_positions.table_ends",
        number="C061",
        statement="A learned table of L rows has nothing for positions from L on.",
        latex=r"P\in\mathbb R^{L\times d},\quad\partial P[L+e]/\partial P[r,c]=0\ (r<L)",
        source=Source(
            "004", "3.2 Two Families", "A table can't say what lies beyond its greatest length."
        ),
        verdict="holds",
        form="symbolic",
        truth="Positions count from 0: the last row is that of L - 1.",
        derivation=_ends,
    ),
    Claim(
        id="learned_positions.table_gradient",
        number="",
        statement="The gradient of a row is the sum of the gradients of the tokens that read it; "
        "of a row that none reads it is 0.",
        latex=r"\partial\ell/\partial P[r,c]=\sum_{i:p_i=r}\partial\ell/\partial z[i,c]",
        source=Source("004", "3.2 Two Families", "The rows are learned in training."),
        verdict="holds",
        form="symbolic",
        derivation=_added_up,
    ),
)
