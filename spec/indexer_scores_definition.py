"""Scores of the lightning indexer as expressions.

Source: document 004 (3.7, DSA), which prints one head without a weight; the weighted sum over
heads is the project's contract, and that of DeepSeek-V3.2's report and code.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition, rnd

_b, _h, _i, _j, _l = sp.symbols("b h i j l", integer=True, nonnegative=True)
_batch, _heads, _t, _s, _d = sp.symbols("batch heads t s d", integer=True, positive=True)
_q = sp.IndexedBase("q", shape=(_batch, _heads, _t, _d), real=True)
_k = sp.IndexedBase("k", shape=(_batch, _s, _d), real=True)
_w = sp.IndexedBase("w", shape=(_batch, _heads, _t), real=True)


def rectified(x: sp.Expr) -> sp.Expr:
    """x where it is positive, else 0."""
    return sp.Max(x, 0)


@cache
def indexer_scores(*, weighted: bool) -> Definition:
    """q[b, h, i, l], k[b, j, l], w[b, h, i] -> I[b, i, j]: products cut off at zero, weighed by
    head and added up. All heads share one key."""
    product = rnd(sp.Sum(_q[_b, _h, _i, _l] * _k[_b, _j, _l], (_l, 0, _d - 1)), "scores")
    term = rectified(product)
    if weighted:
        term = rnd(_w[_b, _h, _i] * term, "scores")
    return Definition(
        "indexer_scores.weighted" if weighted else "indexer_scores.plain",
        rnd(sp.Sum(term, (_h, 0, _heads - 1)), "scores"),
        ((_b, _batch), (_i, _t), (_j, _s)),
        (_q, _k, *((_w,) if weighted else ())),
        (_batch, _heads, _t, _s, _d),
    )


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return tuple(indexer_scores(weighted=weighted) for weighted in (False, True))
