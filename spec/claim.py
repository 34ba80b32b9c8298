"""The records of which the register of claims is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import sympy as sp

Verdict = Literal["holds", "holds-if", "corrected", "refuted", "empirical"]
Form = Literal["symbolic", "block", "fixed", "exact", "numeric", "none"]


@dataclass(frozen=True)
class Source:
    """Where a statement stands: the document's number, its section, and what it says there
    in our own words."""

    document: str
    section: str
    says: str


@dataclass(frozen=True)
class Condition:
    """A hypothesis without which a statement is false, under the label that messages use."""

    label: str
    text: str


@dataclass(frozen=True)
class Step:
    """One step of a derivation.

    `residual` is what sympy must bring to zero (or `True`, for a relation that it must decide).
    """

    says: str
    residual: sp.Basic | bool


@dataclass(frozen=True)
class Counterexample:
    """The smallest exact input on which a statement fails, and both numbers on it."""

    inputs: str
    stated: sp.Basic
    actual: sp.Basic


@dataclass(frozen=True)
class Claim:
    """One statement of a document, and what mathematics says about it."""

    id: str
    number: str
    """The register's number of the statement, such as `A15`; empty for a lemma of our own,
    on which statements rest but which no document makes."""
    statement: str
    latex: str
    source: Source
    verdict: Verdict
    form: Form
    """The strongest form that the derivation reaches: symbolic size, generic block, fixed
    size with symbolic entries, exact instances, numeric, or none (a fact about models)."""
    conditions: tuple[Condition, ...] = ()
    truth: str = ""
    """What is true instead, for a corrected, refuted or empirical statement."""
    counterexample: Callable[[], Counterexample] | None = None
    derivation: Callable[[], tuple[Step, ...]] | None = None
    same_as: str = ""
    """The id of the claim that this statement repeats; then it has no derivation of its own."""


def is_closed(step: Step) -> bool:
    """Whether a step's residual is zero, entry by entry for a matrix, or a relation true.

    A residual with a floating-point number in it is never closed: rounding could be what
    brought it to zero. Neither is a matrix without entries, which says nothing.
    """
    residual = step.residual
    if residual is True or residual is sp.true:
        return True
    if isinstance(residual, sp.MatrixBase):
        return len(residual) > 0 and not residual.has(sp.Float) and bool(residual.is_zero_matrix)
    if not isinstance(residual, sp.Basic) or residual.has(sp.Float):
        return False
    return bool(residual == 0 or getattr(residual, "is_ZeroMatrix", False))
