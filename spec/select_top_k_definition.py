"""Selection of the k highest-scoring keys: which keys may be chosen, which must be, and which
returned indices are right.

Source: document 004 (3.7, DSA). Causality, the filling with -1 and that a score of minus infinity
is never chosen are the project's contract. Keys of equal scores at the end of the selection leave
a choice, so what is defined is a set of right results: a key may be chosen if fewer than k allowed
keys score higher, and must be if at most k, itself included, score as high.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import sympy as sp

from attnspec.spec.attention_definition import Options, sees
from attnspec.spec.definition import Definition, one_if

_b, _i, _j, _r, _p = sp.symbols("b i j r p", integer=True, nonnegative=True)
_batch, _t, _s, _k = sp.symbols("batch t s k", integer=True, positive=True)
_limits = sp.symbols("offset left right", integer=True)
_scores = sp.IndexedBase(sp.Symbol("scores", extended_real=True), shape=(_batch, _t, _s))
_indices = sp.IndexedBase(sp.Symbol("indices", integer=True), shape=(_batch, _t, _k))

TIES = ("any", "lowest-index")
EMPTY = -1
"""The index of a place for which there is no key."""


@dataclass(frozen=True)
class Selection:
    """What a call has, beside its sizes. A causal one has attention's limits as parameters: keys
    from position - left to position + right, with right = 0 and a left that hides none."""

    causal: bool = False
    ties: str = "any"


def allowed(selection: Selection, key: sp.Expr) -> sp.Basic:
    """Whether query i may choose a key: it sees it, and the score isn't minus infinity."""
    seen = sees(Options(ranges=selection.causal)).subs(_j, key)
    return sp.And(sp.Ne(_scores[_b, _i, key], -sp.oo), seen)


def _keys_that(selection: Selection, condition: sp.Basic) -> sp.Expr:
    """How many allowed keys r meet a condition."""
    met = sp.And(allowed(selection, _r), condition)
    return sp.Sum(one_if(met), (_r, 0, _s - 1))


Keyed = tuple[sp.Expr, sp.Expr]
"""A key's score and index."""


def precedes(ties: str, other: Keyed, mine: Keyed) -> sp.Basic:
    """Whether another key, of a score and an index, comes before one in the selection."""
    higher = other[0] > mine[0]
    if ties == "any":
        return higher
    return sp.Or(higher, sp.And(sp.Eq(other[0], mine[0]), other[1] < mine[1]))


def _may(selection: Selection) -> sp.Basic:
    before = precedes(selection.ties, (_scores[_b, _i, _r], _r), (_scores[_b, _i, _j], _j))
    return sp.And(allowed(selection, _j), _keys_that(selection, before) < _k)


def _must(selection: Selection) -> sp.Basic:
    if selection.ties == "lowest-index":
        return _may(selection)
    as_high = _scores[_b, _i, _r] >= _scores[_b, _i, _j]
    return sp.And(allowed(selection, _j), _keys_that(selection, as_high) <= _k)


def _count(selection: Selection) -> sp.Expr:
    return sp.Min(_k, _keys_that(selection, sp.true))


def _definition(
    name: str, selection: Selection, expression: sp.Expr, *keys: tuple[sp.Symbol, sp.Expr],
    arrays: tuple[sp.IndexedBase, ...] = (_scores,),
) -> Definition:  # fmt: skip
    limits = _limits if selection.causal else ()
    axes = ((_b, _batch), (_i, _t), *keys)
    parts = ["select_top_k", name, *(["causal"] if selection.causal else [])]
    parts += ["lowest_index"] if selection.ties == "lowest-index" else []
    return Definition(".".join(parts), expression, axes, arrays, (_batch, _t, _s, _k, *limits))


@cache
def may_be_selected(selection: Selection) -> Definition:
    """scores[b, i, j] -> 1 where key j may be among those of query i."""
    return _definition("may", selection, one_if(_may(selection)), (_j, _s))


@cache
def must_be_selected(selection: Selection) -> Definition:
    """scores[b, i, j] -> 1 where key j must be among those of query i."""
    return _definition("must", selection, one_if(_must(selection)), (_j, _s))


@cache
def selected_count(selection: Selection) -> Definition:
    """scores[b, i, j] -> how many keys query i has chosen: k, or all that are allowed."""
    return _definition("count", selection, _count(selection))


@cache
def accepted(selection: Selection) -> Definition:
    """scores[b, i, j], indices[b, i, p] -> 1 where a row of indices is right: every key that must
    be there is, none is that may not or twice, and -1 fills the places that are left."""
    places = (_p, 0, _k - 1)
    index = _indices[_b, _i, _p]
    times = sp.Sum(one_if(sp.Eq(index, _j)), places)
    may, must = (one_if(test(selection)) for test in (_may, _must))
    wrong = sp.Sum(one_if(sp.Or(times > may, times < must)), (_j, 0, _s - 1))
    found = sp.Sum(times, (_j, 0, _s - 1))
    empty = sp.Sum(one_if(sp.Eq(index, EMPTY)), places)
    count = _count(selection)
    right = sp.And(sp.Eq(wrong, 0), sp.Eq(found, count), sp.Eq(empty, _k - count))
    return _definition("accepted", selection, one_if(right), arrays=(_scores, _indices))


SELECTIONS = tuple(Selection(causal, ties) for causal in (False, True) for ties in TIES)


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return (
        *(
            make(selection)
            for make in (may_be_selected, must_be_selected, accepted)
            for selection in SELECTIONS
        ),
        *(selected_count(Selection(causal)) for causal in (False, True)),
    )
