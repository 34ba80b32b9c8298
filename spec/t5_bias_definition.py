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


def t5_bias(*, bidirectional: bool) -> Definition:
    """table[bucket, h] -> bias[h, i, j], for t <= s. Entries are read, not computed: exact."""
    row = bucket(displacement(_i, _j, _t, _s), bidirectional=bidirectional)
    return Definition(
        "t5_bias",
        _table[row, _h],
        ((_h, _heads), (_i, _t), (_j, _s)),
        (_table,),
        (_heads, _t, _s, num_buckets, max_distance),
        directions(bidirectional=bidirectional),
    )


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return tuple(t5_bias(bidirectional=both) for both in (True, False))
