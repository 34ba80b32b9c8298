"""Counts of attention in a window, as expressions: visible pairs, and how far layers reach.

Source: document 004 (3.7, quadratic cost and sliding window). A query sees the keys from `left`
before its own to `right` after it: a causal mask has right = 0 and any number before, a band of
radius w has left = right = w, a causal band of w keys back has left = w. Where a window counts the
query's own key, left = w - 1.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec import attention_definition
from attnspec.spec.attention_definition import Options
from attnspec.spec.definition import Definition, one_if

_i, _j = sp.symbols("i j", integer=True, nonnegative=True)
_n, _layers = sp.symbols("n layers", integer=True, positive=True)
_RANGES = Options(ranges=True)
_named = {p.name: p for p in attention_definition.visible(_RANGES).parameters}
_t, _s, _offset = (_named[name] for name in ("t", "s", "offset"))
LEFT, RIGHT = _named["left"], _named["right"]


def sees() -> sp.Basic:
    """Whether query i sees key j, where queries and keys are the same tokens."""
    return attention_definition.sees(_RANGES).xreplace({_offset: sp.S.Zero})


def reaches() -> sp.Basic:
    """Whether token j can count in what token i is after so many layers: each passes it on by one
    window."""
    return sees().xreplace({LEFT: _layers * LEFT, RIGHT: _layers * RIGHT})


def one_side(n: sp.Expr, keys: sp.Expr) -> sp.Expr:
    """The pairs of n queries with the `keys` keys on one side, as far as there are that many: n -
    u at distance u."""
    found = sp.Min(keys, n - 1)
    return n * found - found * (found + 1) / 2


def band_pairs(n: sp.Expr, left: sp.Expr, right: sp.Expr) -> sp.Expr:
    """The visible pairs among n tokens in closed form: own keys, and both sides."""
    return n + one_side(n, left) + one_side(n, right)


def pairs(t: sp.Expr, s: sp.Expr) -> sp.Expr:
    """The visible pairs, counted one by one."""
    seen = one_if(attention_definition.sees(_RANGES))
    return sp.Sum(seen, (_j, 0, s - 1), (_i, 0, t - 1))


VISIBLE_PAIRS = Definition(
    "window.visible_pairs", pairs(_t, _s), (), (), (_t, _s, _offset, LEFT, RIGHT)
)
"""For any number of queries and keys, with query i at position i + offset."""
BAND_PAIRS = Definition("window.band_pairs", band_pairs(_n, LEFT, RIGHT), (), (), (_n, LEFT, RIGHT))
"""For as many queries as keys, without a sum: the cost of a long sequence."""
REACH = Definition(
    "window.reach",
    one_if(reaches()),
    ((_i, _n), (_j, _n)),
    (),
    (_n, _layers, LEFT, RIGHT),
)
"""1 where token j can count in token i after so many layers, else 0."""


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return (VISIBLE_PAIRS, BAND_PAIRS, REACH)
