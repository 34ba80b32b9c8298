"""RoPE as expressions: what `rope` and `rope_apply` are.

Sources: document 000 (2, 4), document 003 (2, 3), document 004 (3.5 and 3.6, partial RoPE).
Channel c of the first r turns in the plane of one partner, by the angle of its pair: pair i at
position m turns by m base^(-2i/r). Channels from r on are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition, rnd

_a, _h, _m, _c = sp.symbols("a h m c", integer=True, nonnegative=True)
_batch, _heads, _length, _d, _r = sp.symbols("batch heads length d r", integer=True, positive=True)
_base = sp.Symbol("base", positive=True)
_x = sp.IndexedBase("x", shape=(_batch, _heads, _length, _d), real=True)
_positions = sp.IndexedBase(sp.Symbol("positions", integer=True))
_tables = sp.Symbol("tables", integer=True, positive=True)
_cos, _sin = (
    sp.IndexedBase(name, shape=(_tables, _length, sp.floor(_d / 2)), real=True)
    for name in ("cos", "sin")
)

LAYOUTS = ("interleaved", "half")
DIRECTIONS = ("forward", "backward")

Plane = tuple[sp.Expr, sp.Expr, sp.Expr]
"""Of a channel: its pair, its partner, and whether it is the first of the two."""


def plane(layout: str, c: sp.Expr, r: sp.Expr) -> Plane:
    """The plane in which channel c turns: pairs (2i, 2i+1), or (i, i + r/2)."""
    if layout == "interleaved":
        return sp.floor(c / 2), c + 1 - 2 * sp.Mod(c, 2), sp.Eq(sp.Mod(c, 2), 0)
    first = c < sp.floor(r / 2)
    partner = sp.Piecewise((c + sp.floor(r / 2), first), (c - sp.floor(r / 2), True))
    return sp.Mod(c, sp.floor(r / 2)), partner, first


def frequency(i: sp.Expr, r: sp.Expr, base: sp.Expr) -> sp.Expr:
    """The angle by which pair i turns from one position to the next."""
    return base ** (-2 * i / r)


def turned(
    x: Callable[[sp.Expr], sp.Expr], partner: sp.Expr, first: sp.Expr, cos: sp.Expr, sin: sp.Expr
) -> sp.Expr:
    """Channel c of the rotated vector: x0 cos - x1 sin on the first of a pair, x1 cos + x0 sin
    on the second."""
    across = sp.Piecewise((-x(partner), first), (x(partner), True))
    return rnd(x(_c) * cos, "activations") + rnd(across * sin, "activations")


def _entry(c: sp.Expr) -> sp.Expr:
    return _x[_a, _h, _m, c]


def rope(layout: str, direction: str) -> Definition:
    """x[a, h, m, c], positions[a, m] -> x turned: RoPE in one layout and direction."""
    pair, partner, first = plane(layout, _c, _r)
    position = rnd(_positions[_a, _m], "angles")
    angle = rnd(position * rnd(frequency(pair, _r, _base), "angles"), "angles")
    cos = rnd(rnd(sp.cos(angle), "angles"), "tables")
    sin = rnd(rnd(sp.sin(angle), "angles"), "tables")
    value = turned(_entry, partner, first, cos, sin if direction == "forward" else -sin)
    return Definition(
        f"rope.{layout}.{direction}",
        sp.Piecewise((rnd(value, "output"), _c < _r), (_entry(_c), True)),
        ((_a, _batch), (_h, _heads), (_m, _length), (_c, _d)),
        (_x, _positions),
        (_batch, _heads, _length, _d, _r, _base),
    )


def rope_apply(layout: str, direction: str) -> Definition:
    """x[a, h, m, c], cos[a, m, i], sin[a, m, i] -> x turned by the tables' angles. One table
    counts for all batch entries, or each has its own."""
    pair, partner, first = plane(layout, _c, _d)
    own = sp.Mod(_a, _tables)
    cos, sin = _cos[own, _m, pair], _sin[own, _m, pair]
    value = turned(_entry, partner, first, cos, sin if direction == "forward" else -sin)
    return Definition(
        f"rope_apply.{layout}.{direction}",
        rnd(value, "output"),
        ((_a, _batch), (_h, _heads), (_m, _length), (_c, _d)),
        (_x, _cos, _sin),
        (_batch, _heads, _length, _d, _tables),
    )


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return tuple(
        make(layout, direction)
        for make in (rope, rope_apply)
        for layout in LAYOUTS
        for direction in DIRECTIONS
    )
