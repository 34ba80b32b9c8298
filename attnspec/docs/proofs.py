"""Derivations and counterexamples, run while a site is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from attnspec.docs.formulas import latex_of, signed
from attnspec.proving import OPEN, Progress, Proof, each, proof_of
from attnspec.spec.claim import Claim, Counterexample

DIGITS = 6
"""Of a number's decimals."""
LONGEST = 10**9
"""Integers below it are shown as they are."""


class OpenError(Exception):
    """A derivation that doesn't hold, so that nothing may be built on it."""


def proof(claim: Claim) -> Proof:
    """Run a claim's derivation and its counterexample. Raises OpenError where they don't hold."""
    found = proof_of(claim)
    if not found.holds:
        problem = found.problems[0].removeprefix(OPEN)
        raise OpenError(f"the derivation of {claim.id} does not close: {problem}")
    return found


def proofs(claims: Sequence[Claim], told: Progress, workers: int | None) -> dict[str, Proof]:
    """Id to proof of each claim; `workers` processes work, by default one a core. Raises
    OpenError."""
    return {found.claim: found for found in each(proof, claims, workers, told)}


@dataclass(frozen=True)
class Shown:
    """A counterexample, with its two numbers as LaTeX and as decimals."""

    inputs: str
    stated: str
    actual: str
    decimals: tuple[str, str]
    """Of the two numbers; empty for an integer."""


def shown(found: Counterexample) -> Shown:
    """A counterexample for a page."""
    stated, actual = sp.sympify(found.stated), sp.sympify(found.actual)
    decimals = (_decimal(stated), _decimal(actual))
    return Shown(found.inputs, latex_of(stated), latex_of(actual), decimals)


def _decimal(value: sp.Expr) -> str:
    if (value.is_Integer and abs(value) < LONGEST) or value.is_infinite or value.is_Boolean:
        return ""
    text = str(sp.N(value, DIGITS))
    return signed(text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text)
