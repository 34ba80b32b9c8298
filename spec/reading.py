"""Definitions as claims read them: their symbols by name, and any number for the largest score of a
row, on which by `softmax.shift_invariance` no output depends."""

from __future__ import annotations

import sympy as sp

from attnspec.spec.definition import Maximum, unmarked

shift = sp.Symbol("M", real=True)
"""Any number in place of a row's largest score."""


def named(expression: sp.Expr) -> dict[str, sp.Symbol]:
    """The indices and parameters in an expression, by name."""
    return {str(node): node for node in expression.atoms(sp.Symbol)}


def any_shift(expression: sp.Expr) -> sp.Expr:
    """Without marks, and with any number M for the row maximum."""
    return unmarked(expression).replace(lambda node: isinstance(node, Maximum), lambda _: shift)
