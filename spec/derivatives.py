"""How a closed gradient is proved: as sympy's derivative of a scalar, sizes symbolic.

The scalar is the sum of upstream times the result. sympy knows nothing of tapes, so this is a way
to a gradient of its own. The row maximum of softmax enters as data, an array of any numbers: that
nothing depends on it is the claim `softmax.gradient_of_shift_vanishes`.
"""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp

from attnspec.spec.claim import Step
from attnspec.spec.definition import Definition, Maximum, unmarked
from attnspec.spec.normal import normal

shift = sp.IndexedBase("M", real=True)
"""What is subtracted from the scores of a row."""


def derivative(total: sp.Expr, entry: sp.Indexed) -> sp.Expr:
    """The derivative of a scalar with respect to one entry of an array.

    Raises ValueError where the scalar binds an index of the entry: a sum over i would take the
    entry at i for one of its own.
    """
    bound = {limit[0] for node in total.atoms(sp.Sum) for limit in node.limits}
    shared = bound & entry.free_symbols
    if shared:
        raise ValueError(f"an index of {entry} is bound in what is differentiated: {shared}")
    return sp.diff(total, entry)


def plain(expression: sp.Expr, scores: sp.IndexedBase) -> sp.Expr:
    """The expression without marks, with data for the row maxima: `scores` is the array whose
    entries' indices, but the last, say which row it is."""

    def given(node: Maximum) -> sp.Indexed:
        (row,) = {a.indices[:-1] for a in node.atoms(sp.Indexed) if a.base == scores}
        return shift[row]

    return unmarked(expression).replace(lambda node: isinstance(node, Maximum), given)


def places(definition: Definition) -> dict[sp.Symbol, sp.Symbol]:
    """For each axis the index of one entry of the result, which no sum binds."""
    return {
        axis: sp.Symbol(f"{axis.name}_0", integer=True, nonnegative=True)
        for axis, _ in definition.axes
    }


def ranges(definition: Definition) -> Mapping[sp.Symbol, sp.Expr]:
    """The sizes in which those indices are."""
    sizes = (size for _, size in definition.axes)
    return dict(zip(places(definition).values(), sizes, strict=True))


def entry_of(definition: Definition, scores: sp.IndexedBase) -> sp.Expr:
    """One entry of a closed formula."""
    return plain(definition.expression, scores).xreplace(places(definition))


def gradient_step(
    says: str, formula: Definition, total: sp.Expr, array: sp.IndexedBase, scores: sp.IndexedBase
) -> Step:
    """That the formula is the derivative of the total with respect to the array."""
    found = derivative(plain(total, scores), array[tuple(places(formula).values())])
    return Step(says, normal(entry_of(formula, scores) - found, ranges(formula)))
