"""What a norm's definition says of one row: its value in terms of the row's mean and mean square,
and at given numbers. The claims about norms start from here, and so from what is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy as sp

from attnspec.spec.definition import Definition, larger, unmarked
from attnspec.spec.layer_norm_definition import layer_norm
from attnspec.spec.rms_norm_definition import rms_norm
from attnspec.spec.sums import distributed
from attnspec.spec.symbols import c, x

d = layer_norm().axes[-1][1]
"""How many channels a row has."""
channels = (c, 0, d - 1)
weight, bias = (sp.IndexedBase(name, real=True) for name in ("weight", "bias"))
mu = sp.Symbol("mu", real=True)
v, q = sp.symbols("v q", nonnegative=True)
"""Of a row: its mean, its variance, its mean square."""
ROW_SUM, SQUARE_SUM = sp.Sum(x[c], channels), sp.Sum(x[c] ** 2, channels)


@dataclass(frozen=True)
class Form:
    """One channel of a norm: the value, with symbols for the statistics, and the sums for which
    these stand, divided by d."""

    value: sp.Expr
    sums: tuple[sp.Sum, ...]


def row_of(definition: Definition) -> sp.Expr:
    """The definition without marks, for one row x[c]. Raises ValueError if others enter."""
    rows = definition.axes[0][0]
    plain = unmarked(definition.expression)
    if rows in {index for node in plain.atoms(sp.Indexed) for index in node.indices[1:]}:
        raise ValueError(f"{definition.name}: a row's number is read as a channel")

    def entry(node: sp.Indexed) -> sp.Indexed:
        *row, channel = node.indices
        if row not in ([], [rows]):
            raise ValueError(f"{definition.name}: row {row} enters into row {rows}")
        return sp.IndexedBase(str(node.base.label), real=True)[channel]

    return plain.replace(lambda node: isinstance(node, sp.Indexed), entry).replace(larger, sp.Max)


def layer_norm_form(*, placement: str = "inside", affine: bool = True) -> Form:
    """LayerNorm of x[c] in terms of mu and v."""
    row = row_of(layer_norm(weight=affine, bias=affine, eps_placement=placement))
    means = [node for node in row.atoms(sp.Sum) if node.function == x[c]]
    centred = row.xreplace(dict.fromkeys(means, d * mu))
    (squares,) = centred.atoms(sp.Sum)
    return Form(centred.xreplace({squares: d * v}), (*means, squares))


def rms_norm_form(*, placement: str = "inside", gain: str | None = "plain") -> Form:
    """RMSNorm of x[c] in terms of q."""
    row = row_of(rms_norm(weight=gain is not None, eps_placement=placement, gain=gain or "plain"))
    (squares,) = row.atoms(sp.Sum)
    return Form(row.xreplace({squares: d * q}), (squares,))


def in_moments(total: sp.Sum) -> sp.Expr:
    """A sum over the channels of a polynomial in x[c], in terms of mu and v: the sum of x is d mu,
    that of x^2 is d (v + mu^2)."""
    plain = distributed(total).doit()
    return sp.simplify(plain.subs({ROW_SUM: d * mu, SQUARE_SUM: d * (v + mu**2)}))


def at(
    definition: Definition,
    row: Sequence[sp.Expr],
    eps: sp.Expr = sp.S.Zero,
    **arrays: Sequence[sp.Expr],
) -> tuple[sp.Expr, ...]:
    """The exact result for one row of numbers; other arrays by name."""
    given: Mapping[str, Sequence[sp.Expr]] = {"x": row, **arrays}
    named = {str(p): p for p in definition.parameters}
    value = row_of(definition).subs(named["d"], len(row))
    if "eps" in named:
        value = value.subs(named["eps"], eps)
    value = value.doit()

    def entry(node: sp.Indexed) -> sp.Expr:
        return sp.sympify(given[str(node.base.label)][int(node.indices[0])])

    return tuple(
        sp.simplify(
            value.subs(c, channel).replace(lambda node: isinstance(node, sp.Indexed), entry)
        )
        for channel in range(len(row))
    )
