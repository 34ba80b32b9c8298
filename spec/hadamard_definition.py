"""The Hadamard transform as an expression.

Source: document 004 (3.7, DSA). Sylvester's matrices are H_1 = 1 and H_2n = [[H, H], [H, -H]]:
entry (l, c) is -1 to the number of binary digits that are 1 in both l and c. Orthonormal, the
matrix is divided by the root of its size.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition, choice, either, one_if, rnd

_a, _c, _l, _b = sp.symbols("a c l b", integer=True, nonnegative=True)
_rows, _n = sp.symbols("rows n", integer=True, positive=True)
_bits = sp.Symbol("bits", integer=True, nonnegative=True)
_x = sp.IndexedBase("x", shape=(_rows, _n), real=True)

SCALINGS = ("orthonormal", "none")

ROUNDINGS = {"orthonormal": 3, "none": 1}
"""Roundings of a term in each of the log2(n) stages of a butterfly: of a sum and, where every
stage is divided by the root of 2, of that number and of the product."""


def bit(z: sp.Expr, place: sp.Expr) -> sp.Expr:
    """The binary digit of z at a place, counted from 0."""
    return sp.Mod(sp.floor(z / 2**place), 2)


def sign(row: sp.Expr, column: sp.Expr, bits: sp.Expr) -> sp.Expr:
    """The entry of Sylvester's matrix of size 2^bits before any scaling: 1 or -1."""
    common = sp.Sum(bit(row, _b) * bit(column, _b), (_b, 0, bits - 1))
    return 1 - 2 * sp.Mod(common, 2)


Pair = tuple[sp.Expr, sp.Expr]


def split(sign: sp.Expr, entry: sp.Expr) -> tuple[Pair, Pair]:
    """The positive and the negative part of a signed entry, each as two terms, of which one is 0:
    the products of what the sign is and what the entry is."""
    above = choice(entry, entry >= 0, sp.Integer(0))
    below = choice(sp.Integer(0), entry >= 0, -entry)
    kept = one_if(sign > 0)
    turned = one_if(sign < 0)
    return (kept * above, turned * below), (turned * above, kept * below)


@cache
def hadamard(scaling: str) -> Definition:
    """x[a, l] -> y[a, c], n = 2^bits entries a row.

    Stages of butterflies may store each sum, and scale at the end, at the start or in between;
    others multiply by the whole matrix. The first form has the roundings of all of them where
    terms are smallest, so that what is lost below the normal range is counted too. The second
    scales last. There the positive and the negative terms are added up apart, as every partial
    sum of any order lies between these two: where one of them overflows, a partial sum may. That
    both forms give the same is the claim `hadamard.positive_minus_negative`.
    """
    entries = (_l, 0, _n - 1)
    entry_sign = sign(_l, _c, _bits)
    terms = _x[_a, _l]
    positive, negative = (
        rnd(sp.Add(*(sp.Sum(term, entries) for term in part)), "activations")
        for part in split(entry_sign, _x[_a, _l])
    )
    last = rnd(positive - negative, "activations")
    if scaling == "orthonormal":
        factor = rnd(1 / sp.sqrt(_n), "activations")
        terms, last = terms * factor, last * factor
    stored = rnd(terms, "activations", ROUNDINGS[scaling] * _bits)
    first = sp.Sum(entry_sign * stored, entries)
    return Definition(
        f"hadamard.{scaling}",
        rnd(either(first, last), "output"),
        ((_a, _rows), (_c, _n)),
        (_x,),
        (_rows, _n, _bits),
    )


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return tuple(hadamard(scaling) for scaling in SCALINGS)
