"""The tightest precision preset that a target meets, whatever it declares."""

from __future__ import annotations

from collections.abc import Sequence

from attnspec.evidence import attempted
from attnspec.oracle.law import Inputs, Law
from attnspec.oracle.precision import PRESETS, contract
from attnspec.subject import Subject


def is_exact(law: Law) -> bool:
    """Whether a law compares results, or gradients, with their exact values."""
    return law.kind == "oracle" or law.id.endswith(".gradients_match_oracle")


def tightest(law: Law, subject: Subject, passes: Sequence[Inputs]) -> str:
    """The tightest preset that holds, with every looser one, on calls that pass under the
    declared contract; empty where none does."""
    met, held = "", subject.contract
    if subject.row.whole:
        return met
    for name in PRESETS:
        other = subject.with_contract(contract(subject.dtype, name))
        # in float32 and wider the presets are one and the same
        for inputs in passes if other.contract != held else ():
            judgement = attempted(law, other, inputs)
            if judgement is None or judgement.fails:
                return met
        met, held = name, other.contract
    return met
