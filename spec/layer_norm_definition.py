"""LayerNorm as an expression.

Sources: document 004 (3.8, LayerNorm). The variance is the mean of the squared differences to the
mean, over d and not d - 1, formed in two passes or by updating: both lose what the mean's own error
makes of it. The mean of the squares less the square of the mean loses far more where the mean is
large, and is not a form of this definition.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition, rnd
from attnspec.spec.moments import eps, inverse_root, mean
from attnspec.spec.rms_norm_definition import Entry

_a, _c = sp.symbols("a c", integer=True, nonnegative=True)
_rows, _d = sp.symbols("rows d", integer=True, positive=True)
_x = sp.IndexedBase("x", shape=(_rows, _d), real=True)
_weight, _bias = (sp.IndexedBase(name, shape=(_d,), real=True) for name in ("weight", "bias"))

PLACEMENTS = ("inside", "outside")
"""Where eps stands: added to the variance under the root, or to the root."""


def centred(x: Entry, c: sp.Symbol, size: sp.Expr) -> Entry:
    """A row less its mean; c is an index for its channels."""
    middle = mean(x(c), c, size)
    return lambda at: rnd(x(at) - middle, "statistics")


def variance(x: Entry, c: sp.Symbol, size: sp.Expr) -> sp.Expr:
    """The mean of the squared differences of a row to its mean."""
    return mean(rnd(centred(x, c, size)(c) ** 2, "statistics"), c, size)


def layer_normalised(
    x: Entry,
    c: sp.Symbol,
    size: sp.Expr,
    *,
    placement: str = "inside",
    weight: Entry | None = None,
    bias: Entry | None = None,
) -> Entry:
    """LayerNorm of a row, before it is stored; c is an index for its channels."""
    difference, inverse = centred(x, c, size), inverse_root(variance(x, c, size), placement)

    def row(at: sp.Expr) -> sp.Expr:
        value = difference(at) * inverse
        if weight is not None:
            value = rnd(value, "normalised") * weight(at)
        return value if bias is None else rnd(value, "normalised") + bias(at)

    return row


@cache
def layer_norm(
    *, weight: bool = True, bias: bool = True, eps_placement: str = "inside"
) -> Definition:
    """x[a, c], weight[c], bias[c] -> y[a, c]: LayerNorm of rows."""
    row = layer_normalised(
        _entry,
        _c,
        _d,
        placement=eps_placement,
        weight=(lambda at: _weight[at]) if weight else None,
        bias=(lambda at: _bias[at]) if bias else None,
    )
    given = "".join(("w" if weight else "", "b" if bias else "")) or "bare"
    return Definition(
        f"layer_norm.{eps_placement}.{given}",
        rnd(row(_c), "output"),
        ((_a, _rows), (_c, _d)),
        (_x, *((_weight,) if weight else ()), *((_bias,) if bias else ())),
        (_rows, _d, eps),
    )


def _entry(at: sp.Expr) -> sp.Expr:
    return _x[_a, at]


@cache
def layer_norm_centred() -> Definition:
    """x[a, c] -> the differences of a row to its mean."""
    value = centred(_entry, _c, _d)(_c)
    axes = ((_a, _rows), (_c, _d))
    return Definition("layer_norm_centred", value, axes, (_x,), (_rows, _d))


@cache
def layer_norm_variance() -> Definition:
    """x[a, c] -> v[a]: the variance of a row."""
    value = variance(_entry, _c, _d)
    return Definition("layer_norm_variance", value, ((_a, _rows),), (_x,), (_rows, _d))


@cache
def layer_norm_factor(eps_placement: str = "inside") -> Definition:
    """x[a, c] -> r[a]: what the differences are multiplied by, before the weight."""
    value = inverse_root(variance(_entry, _c, _d), eps_placement)
    name = f"layer_norm_factor.{eps_placement}"
    return Definition(name, value, ((_a, _rows),), (_x,), (_rows, _d, eps))


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return tuple(
        layer_norm(weight=weight, bias=bias, eps_placement=placement)
        for placement in PLACEMENTS
        for weight, bias in ((True, True), (True, False), (False, True), (False, False))
    )
