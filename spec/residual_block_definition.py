"""A residual block as an expression: where its norm stands.

Sources: document 004 (3.8, post-norm and pre-norm). `block` builds one from any norm and sublayer;
the definitions below are for those that can be done without error, which scale channels by powers
of two and permute them (by zero: nothing is left), and for the norms of the documents without
weights. Norm and sublayer return tensors, so their results are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition, rnd
from attnspec.spec.layer_norm_definition import layer_normalised
from attnspec.spec.moments import eps
from attnspec.spec.rms_norm_definition import Entry, rms_normalised

_a, _c = sp.symbols("a c", integer=True, nonnegative=True)
_rows, _d = sp.symbols("rows d", integer=True, positive=True)
_x = sp.IndexedBase("x", shape=(_rows, _d), real=True)

PLACEMENTS = ("pre", "post")
NORMS = ("moved", "layer_norm", "rms_norm")

Layer = Callable[[Entry], Entry]
"""From a row to a row."""


def block(placement: str, x: Entry, sublayer: Layer, norm: Layer) -> Entry:
    """x + sublayer(norm(x)), or norm(x + sublayer(x)). Raises ValueError for another placement."""
    if placement == "pre":
        branch = sublayer(norm(x))
        return lambda at: x(at) + branch(at)
    if placement == "post":
        branch = sublayer(x)
        return norm(lambda at: rnd(x(at) + branch(at), "activations"))
    raise ValueError(f"unknown placement {placement!r}; allowed: {', '.join(PLACEMENTS)}")


def moved(name: str) -> tuple[Layer, tuple[sp.IndexedBase, ...]]:
    """A layer that is exact, and its arrays: channel c is channel order[c], times factor[c]."""
    factor = sp.IndexedBase(f"{name}_factor", shape=(_d,), real=True)
    order = sp.IndexedBase(sp.Symbol(f"{name}_order", integer=True), shape=(_d,))
    return lambda x: lambda at: factor[at] * x(order[at]), (factor, order)


def _norm(name: str) -> tuple[Layer, tuple[sp.IndexedBase, ...]]:
    """A norm, and its arrays."""
    if name == "moved":
        return moved("norm")

    def stored(x: Entry) -> Entry:
        if name == "layer_norm":
            row = layer_normalised(x, _c, _d)
        else:
            row = rms_normalised(x, _c, _d)
        return lambda at: rnd(row(at), "output")

    return stored, ()


@cache
def residual_block(placement: str, norm: str) -> Definition:
    """x[a, c] -> y[a, c]: a block with an exact sublayer and one of NORMS."""
    sublayer, arrays = moved("sublayer")
    inner, more = _norm(norm)
    value = block(placement, lambda at: _x[_a, at], sublayer, inner)(_c)
    return Definition(
        f"residual_block.{placement}.{norm}",
        value if placement == "post" and norm != "moved" else rnd(value, "output"),
        ((_a, _rows), (_c, _d)),
        (_x, *arrays, *more),
        (_rows, _d, *(() if norm == "moved" else (eps,))),
    )


@cache
def residual_sum() -> Definition:
    """x[a, c], branch[a, c] -> y[a, c]: the sum of a stream and a branch, which a block's backward
    pass forms too, of what comes back past the branch and through it."""
    branch = sp.IndexedBase("branch", shape=(_rows, _d), real=True)
    return Definition(
        "residual_block.sum",
        rnd(_x[_a, _c] + branch[_a, _c], "output"),
        ((_a, _rows), (_c, _d)),
        (_x, branch),
        (_rows, _d),
    )


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    blocks = (residual_block(placement, norm) for placement in PLACEMENTS for norm in NORMS)
    return (*blocks, residual_sum())
