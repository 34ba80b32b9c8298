"""What a component's definition is made of, beside plain sympy.

A definition is one sympy expression over `IndexedBase`, `Sum` and `Piecewise` with symbolic
sizes. Six nodes are added: `rnd`, which marks a place where an implementation may round; `either`,
for a number that implementations compute in two equal ways; `choice` and `larger`, which are
Piecewise and Max but opaque to sympy; `weights`, which says that a number is a softmax weight; and
`Maximum`, the largest entry along an index, which sympy lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy as sp
from sympy.concrete.expr_with_limits import ExprWithLimits
from sympy.core.symbol import Str

MARKS = (
    "scores", "probabilities", "normalised", "tables", "angles", "activations", "statistics",
    "reductions", "lse", "accumulate", "output",
)  # fmt: skip
REGIONS = ("angles", "statistics")
"""Marks that also say in which precision the operations below them run."""


class rnd(sp.Function):  # type: ignore[misc]  # sympy is untyped  # noqa: N801
    """`rnd(x, "scores")`: the number x, which may be stored as scores are. To mathematics it is
    x itself; `unmarked` takes all marks out. `rnd(x, "lse", n)`: a running value, which may be
    stored n times on its way to x."""

    nargs = (2, 3)

    @classmethod
    def eval(cls, value: sp.Expr, mark: Any, times: Any = None) -> None:
        """Nothing is evaluated; an unknown mark is an error."""
        if str(mark) not in MARKS:
            raise ValueError(f"unknown mark {mark}; allowed: {', '.join(MARKS)}")

    def __new__(cls, value: Any, mark: Any, *times: Any) -> Any:
        """A mark is kept as a string, so that it isn't among the free symbols."""
        name = mark if isinstance(mark, Str) else Str(str(mark))
        return super().__new__(cls, value, name, *times)

    def fdiff(self, argindex: int = 1) -> Any:
        """The derivative of the identity."""
        return sp.Integer(1)

    def _eval_is_integer(self) -> Any:
        return self.args[0].is_integer


class either(sp.Function):  # type: ignore[misc]  # sympy is untyped  # noqa: N801
    """`either(a, b)`: one number that implementations compute in two ways. a is its value; that
    b equals it is a claim. What an implementation may be off is the larger of the two errors."""

    nargs = 2


class choice(sp.Function):  # type: ignore[misc]  # sympy is untyped  # noqa: N801
    """`choice(value, condition, otherwise)`: the value where the condition holds.

    A Piecewise, but one that sympy leaves alone: it folds a Piecewise out of a Sum, and where an
    index is bound again inside (a normaliser over the same keys) conditions get lost on the way.
    """

    nargs = 3

    @classmethod
    def eval(cls, value: sp.Expr, condition: Any, otherwise: sp.Expr) -> Any:
        """Decided where the condition is."""
        if condition is sp.true:
            return value
        return otherwise if condition is sp.false else None

    def _eval_is_integer(self) -> Any:
        return self.args[0].is_integer and self.args[2].is_integer


def one_if(condition: sp.Basic) -> sp.Expr:
    """1 where the condition holds, else 0."""
    return choice(sp.Integer(1), condition, sp.Integer(0))


class larger(sp.Function):  # type: ignore[misc]  # sympy is untyped  # noqa: N801
    """`larger(a, b)`: the larger of two numbers. sympy's own maximum compares what it knows to be
    real, which no marked number is."""

    nargs = 2

    def _latex(self, printer: Any, exp: str = "") -> str:
        """As a maximum."""
        formula = rf"\max\left({', '.join(printer.doprint(a) for a in self.args)}\right)"
        return rf"{{{formula}}}^{{{exp}}}" if exp else formula


class weights(sp.Function):  # type: ignore[misc]  # sympy is untyped  # noqa: N801
    """`weights(value, logits, j, seen)`: a value that is the softmax weight of entry j among the
    logits over the seen j, and 0 at others. To mathematics it is the value; that it is softmax is
    a claim. Whoever reads it may use what is true of softmax: its derivative, and how far it moves
    when logits do."""

    nargs = 4


class Maximum(ExprWithLimits):  # type: ignore[misc]  # sympy is untyped
    """`Maximum(x[i, k], (k, 0, n - 1))`: the largest of the x[i, k] over k."""

    is_commutative = True
    is_real = True

    def doit(self, **hints: Any) -> Any:
        """The maximum over numbers, where the range is one; else itself."""
        (index, low, high), *rest = self.limits
        if rest or not (low.is_Integer and high.is_Integer):
            return self
        return sp.Max(*[self.function.subs(index, m) for m in range(int(low), int(high) + 1)])


@dataclass(frozen=True)
class Definition:
    """The definition of one component, or of one convention of it."""

    name: str
    expression: sp.Expr
    axes: tuple[tuple[sp.Symbol, sp.Expr], ...]
    """The axes of the result, in order, with their sizes."""
    arrays: tuple[sp.IndexedBase, ...]
    """The inputs."""
    parameters: tuple[sp.Symbol, ...]
    """Sizes and other scalars on which it depends."""
    variant: str = ""
    """What sets it apart from another one with its name and inputs."""


def unmarked(expression: Any) -> Any:
    """The expression without its marks, in its first form: what the claims are about."""
    return expression.replace(
        lambda node: isinstance(node, (rnd, either, weights)), lambda node: node.args[0]
    )
