"""What the register says of a claim, for the tests that compute it by other means."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import sympy as sp

from attnspec.spec import claim
from attnspec.spec.claim import Counterexample, is_closed


def shown(claim_id: str) -> Counterexample:
    """A claim's counterexample."""
    counterexample = claim(claim_id).counterexample
    assert counterexample is not None
    return counterexample()


def numbers(claim_id: str) -> tuple[Any, Any]:
    """What its counterexample says is stated, and what is so, as fractions."""
    found = shown(claim_id)
    return fraction(found.stated), fraction(found.actual)


def fraction(number: sp.Basic) -> Fraction:
    """A rational number of sympy as Python's."""
    assert isinstance(number, sp.Rational)
    return Fraction(int(number.p), int(number.q))


def still_open(claim_id: str) -> list[str]:
    """What the steps say that don't close when its derivation is run now."""
    derivation = claim(claim_id).derivation
    assert derivation is not None
    return [step.says for step in derivation() if not is_closed(step)]
