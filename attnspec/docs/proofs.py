"""Derivations and counterexamples, run while a site is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sympy as sp

from attnspec.docs.formulas import latex_of, signed
from attnspec.processes import results
from attnspec.proving import cores
from attnspec.register import claim_of
from attnspec.spec.claim import Claim, is_closed

Told = Callable[[str, int, int], None]
DIGITS = 6
"""Of a number's decimals."""
LONGEST = 10**9
"""Integers below it are shown as they are."""


class OpenError(Exception):
    """A derivation with a step that doesn't close, so that nothing may be built on it."""


@dataclass(frozen=True)
class Shown:
    """A counterexample, with its two numbers as LaTeX and as decimals."""

    inputs: str
    stated: str
    actual: str
    decimals: tuple[str, str]
    """Of the two numbers; empty for an integer."""


@dataclass(frozen=True)
class Proof:
    """What a claim rests on, as text."""

    steps: tuple[tuple[str, str], ...] = ()
    """What each step says, and what came out: 0, a matrix of zeros, or true."""
    shown: Shown | None = None


def proof(claim: Claim) -> Proof:
    """Run a claim's derivation and its counterexample. Raises OpenError for a step that doesn't
    close."""
    steps = claim.derivation() if claim.derivation else ()
    for step in steps:
        if not is_closed(step):
            raise OpenError(f"the derivation of {claim.id} does not close: {step.says}")
    return Proof(tuple((step.says, _outcome(step.residual)) for step in steps), _shown(claim))


def proofs(claims: Sequence[Claim], told: Told, workers: int | None) -> dict[str, Proof]:
    """Id to proof of each claim; `workers` processes work, by default one a core. Raises
    OpenError."""
    found: dict[str, Proof] = {}
    count = workers or cores()
    if count == 1:
        for claim in claims:
            found[claim.id] = proof(claim)
            told(claim.id, len(found), len(claims))
        return found
    with results(_proof_of, [(claim.id,) for claim in claims], count, cores) as futures:
        for claim, future in zip(claims, futures, strict=True):
            found[claim.id] = future.result()
            told(claim.id, len(found), len(claims))
    return found


def _proof_of(identity: str) -> Proof:
    return proof(claim_of(identity))


def _outcome(residual: sp.Basic | bool) -> str:
    if residual is True or residual == sp.true:
        return "true"
    shape = getattr(residual, "shape", None)
    return "0" if shape is None else f"0 ({shape[0]} by {shape[1]})"


def _shown(claim: Claim) -> Shown | None:
    if claim.counterexample is None:
        return None
    found = claim.counterexample()
    stated, actual = sp.sympify(found.stated), sp.sympify(found.actual)
    decimals = (_decimal(stated), _decimal(actual))
    return Shown(found.inputs, latex_of(stated), latex_of(actual), decimals)


def _decimal(value: sp.Expr) -> str:
    if (value.is_Integer and abs(value) < LONGEST) or value.is_infinite or value.is_Boolean:
        return ""
    text = str(sp.N(value, DIGITS))
    return signed(text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text)
