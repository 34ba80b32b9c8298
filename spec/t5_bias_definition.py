"""T5's bias as an expression: the table's entry of a displacement's bucket.

Sources: document 004 (3.4, T5). Query i of t sits at position i + s - t among s keys, so that the
last query stands at the last key.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition
from attnspec.spec.t5_bucket_definition import bucket, directions, max_distance, num_buckets

_h, _i, _j = sp.symbols("h i j", integer=True, nonnegative=True)
_heads, _t, _s = sp.symbols("heads t s", integer=True, positive=True)
_table = sp.IndexedBase("table", shape=(num_buckets, _heads), real=True)


def displacement(i: sp.Expr, j: sp.Expr, t: sp.Expr, s: sp.Expr) -> sp.Expr:
    """The position of key j minus that of query i."""
    return j - (i + s - t)


def _of_table(name: str, *, bidirectional: bool, nudge: int = 0) -> Definition:
    row = bucket(displacement(_i, _j, _t, _s), bidirectional=bidirectional, nudge=nudge)
    return Definition(
        name,
        _table[row, _h],
        ((_h, _heads), (_i, _t), (_j, _s)),
        (_table,),
        (_heads, _t, _s, num_buckets, max_distance),
        directions(bidirectional=bidirectional),
    )


def t5_bias(*, bidirectional: bool) -> Definition:
    """table[bucket, h] -> bias[h, i, j], for t <= s. Entries are read, not computed: exact."""
    return _of_table("t5_bias", bidirectional=bidirectional)


def t5_bias_by_logarithm(*, bidirectional: bool) -> tuple[Definition, Definition]:
    """The biases of the least and of the greatest bucket that the usual recipe may give
    (`t5_bucket_by_logarithm`). They read other entries next to a threshold only."""
    least, most = (
        _of_table(f"t5_bias.{name}", bidirectional=bidirectional, nudge=nudge)
        for name, nudge in (("least", -1), ("most", 1))
    )
    return least, most


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return tuple(t5_bias(bidirectional=both) for both in (True, False))
