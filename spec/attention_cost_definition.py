"""What attention costs, as expressions: products and sums, each counted as one operation.

Sources: document 003 (5), document 004 (3.7, quadratic cost). A term of a dot product is one
product and one sum; exponentials and divisions, one or two a score, are left out.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec import attention_definition, window_definition
from attnspec.spec.attention_definition import Options
from attnspec.spec.definition import Definition

_named = {p.name: p for p in attention_definition.attention(Options(ranges=True)).parameters}
_batch, _heads, _groups, _t, _s, _d, _e = (
    _named[name] for name in ("batch", "heads", "groups", "t", "s", "d", "e")
)
_LIMITS = tuple(_named[name] for name in ("offset", "left", "right"))
_width = sp.Symbol("m", integer=True, positive=True)

TERM = 2
"""A product and a sum."""


def pair_flops(d: sp.Expr, e: sp.Expr) -> sp.Expr:
    """For one query and one key that it sees: a score, and what its value adds to the output."""
    return TERM * (d + e)


def projection_flops(tokens: sp.Expr) -> sp.Expr:
    """For the queries, keys and values of so many tokens, and the last projection."""
    columns = _heads * _d + _groups * (_d + _e) + _heads * _e
    return TERM * tokens * _width * columns


ATTENTION_FLOPS = Definition(
    "attention.flops",
    _batch * _heads * pair_flops(_d, _e) * window_definition.pairs(_t, _s),
    (),
    (),
    (_batch, _heads, _t, _s, _d, _e, *_LIMITS),
)
"""Of scores and averages over the visible pairs."""
PROJECTION_FLOPS = Definition(
    "attention.projection_flops",
    _batch * projection_flops(_t),
    (),
    (),
    (_batch, _heads, _groups, _t, _d, _e, _width),
)


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return (ATTENTION_FLOPS, PROJECTION_FLOPS)
