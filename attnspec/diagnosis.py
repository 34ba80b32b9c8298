"""What a failure looks like: which declared convention, looser precision or known wrong
implementation would give the same results.

A hypothesis must explain every failing call and break no passing one. It is tried on the calls
as they were drawn, not on simplified ones, which too many mistakes fail alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from attnspec.arrays import has_torch
from attnspec.catalogue import all_faults
from attnspec.judging import HELD, Judgement, LawError, judged
from attnspec.oracle.comparison import Comparison, verdict
from attnspec.oracle.conventions import others
from attnspec.oracle.law import Inputs, Law
from attnspec.oracle.precision import FORMATS, JUDGED_SHARE, PLACES, contract
from attnspec.subject import Subject

NARROWER = ("storage", "float16", "bfloat16")
"""Formats to which a mistaken rounding may go, tried in this order at each place."""
TELLING_SHARE = 0.5
"""A looser contract may leave too little of a failing call to be judged. So many of them must
be judged under it, or it explains nothing."""


@dataclass(frozen=True)
class Explanation:
    """One hypothesis that reproduces what the target gave."""

    id: str
    """`convention:NAME=VALUE`, `precision:PLACE=FORMAT`, or the id of a fault."""
    distance: float
    """Largest error over allowance left under it: best first."""
    says: str
    """What it means, and what to do."""


Failure = tuple[Inputs, Judgement]


def explanations(
    law: Law, subject: Subject, failures: Sequence[Failure], passes: Sequence[Inputs]
) -> tuple[Explanation, ...]:
    """Everything that explains the failures, best first: conventions to declare, then known
    wrong implementations, then looser precision."""
    found = [
        *_by_convention(law, subject, failures, passes),
        *sorted(_by_fault(law, subject, failures, passes), key=lambda e: e.distance),
    ]
    # a looser contract explains any small error, so it speaks only where nothing else does
    return tuple(found or _by_precision(law, subject, failures))


def _by_convention(
    law: Law, subject: Subject, failures: Sequence[Failure], passes: Sequence[Inputs]
) -> list[Explanation]:
    single = [(change,) for change in others(subject.component, subject.conventions)]
    double = [(a[0], b[0]) for a, b in combinations(single, 2) if a[0][0] != b[0][0]]
    for changes in (single, double):
        found = []
        for change in changes:
            other = subject.with_conventions({**subject.conventions, **dict(change)})
            distance = _distance_of(law, other, [f[0] for f in failures], passes)
            if distance is not None:
                pairs = "+".join(f"{name}={value}" for name, value in change)
                declare = ", ".join(f'"{name}": "{value}"' for name, value in change)
                says = f"declare conventions={{{declare}}} in TARGET, if that is what it follows"
                found.append(Explanation(f"convention:{pairs}", distance, says))
        if found:
            return sorted(found, key=lambda e: e.distance)
    return []


def _by_precision(law: Law, subject: Subject, failures: Sequence[Failure]) -> list[Explanation]:
    found = []
    for place in PLACES:
        declared = subject.contract.format(place)
        for word in NARROWER:
            name = subject.contract.storage if word == "storage" else word
            if FORMATS[name].width >= declared.width:
                continue
            other = subject.with_contract(replace(subject.contract, **{place: name}))
            distance = _distance_of(law, other, [f[0] for f in failures], ())
            if distance is not None:
                says = (
                    f"{place} seem to be rounded to {name}, where {declared.name} is promised:"
                    f' keep them in {declared.name}, or declare precision={{"{place}": "{word}"}}'
                )
                found.append(Explanation(f"precision:{place}={word}", distance, says))
                break
    return sorted(found, key=lambda e: e.distance)


def _distance_of(
    law: Law, other: Subject, failing: Sequence[Inputs], passes: Sequence[Inputs]
) -> float | None:
    """Worst ratio under a hypothesis, or None where it explains too little."""
    worst, telling = 0.0, 0
    for number, inputs in enumerate((*failing, *passes)):
        judgement = _judged(law, other, inputs)
        if judgement is None or judgement.breach is not None or judgement.ratio is None:
            return None
        if judgement.ratio > HELD:
            return None
        done, elements = judgement.judged
        telling += number < len(failing) and done >= JUDGED_SHARE * elements
        worst = max(worst, judgement.ratio)
    return worst if telling >= TELLING_SHARE * len(failing) else None


def _by_fault(
    law: Law, subject: Subject, failures: Sequence[Failure], passes: Sequence[Inputs]
) -> Iterator[Explanation]:
    if not has_torch():
        return
    for fault in all_faults().values():
        seen = fault.dtypes is None or subject.dtype in fault.dtypes
        if fault.component != subject.component or not seen:
            continue
        if subject.loaded.given == f"fault:{fault.id}":
            continue
        functions = fault.functions()
        if fault.component not in functions:
            continue
        torch_target = replace(subject.loaded.declaration, arrays="torch")
        loaded = replace(subject.loaded, declaration=torch_target, make=fault.functions)
        wrong = Subject(loaded, fault.component, subject.dtype, "cpu", functions)
        wrong.contract, wrong.conventions = subject.contract, subject.conventions
        distance = _likeness(law, wrong, failures, passes)
        if distance is not None:
            yield Explanation(fault.id, distance, f"it {fault.reason}. {fault.remedy}")


def _likeness(
    law: Law, wrong: Subject, failures: Sequence[Failure], passes: Sequence[Inputs]
) -> float | None:
    """How far the target's results are from those of a wrong implementation, in allowances; None
    where some are not alike."""
    worst = 0.0
    for inputs, actual in failures:
        judgement = _judged(law, wrong, inputs)
        if judgement is None or judgement.kind != actual.kind:
            return None
        distance = _apart(actual, judgement)
        if distance is None:
            return None
        worst = max(worst, distance)
    for inputs in passes:
        judgement = _judged(law, wrong, inputs)
        if judgement is None or judgement.fails:
            return None
    return worst


def _apart(target: Judgement, wrong: Judgement) -> float | None:
    if target.breach is not None or wrong.breach is not None:
        same = _headline(target) == _headline(wrong)
        return 0.0 if same else None
    if len(target.comparisons) != len(wrong.comparisons):
        return None
    worst, compared = 0.0, 0
    for a, b in zip(target.comparisons, wrong.comparisons, strict=True):
        if not a.promised or a.actual.shape != b.actual.shape:
            continue
        found = verdict(_between(a, b))
        if not found.holds:
            return None
        worst = max(worst, found.ratio)
        compared += found.judged
    return worst if compared else None


def _between(a: Comparison, b: Comparison) -> Comparison:
    return replace(a, expected=b.actual, residual=None)


def _headline(judgement: Judgement) -> str:
    # without the place in the code
    return str(judgement.breach).partition(" (")[0]


def _judged(law: Law, other: Subject, inputs: Inputs) -> Judgement | None:
    try:
        return judged(law, other, inputs)
    except LawError:
        # a hypothesis may be one that a law cannot be asked about
        return None


def tightest(law: Law, subject: Subject, passes: Sequence[Inputs], names: Sequence[str]) -> str:
    """The last of `names`, presets from loose to tight, of which each and every looser one holds
    on the passing calls; empty where none does."""
    met, held = "", subject.contract
    for name in names:
        other = subject.with_contract(contract(subject.dtype, name))
        # in float32 and wider the presets are one and the same
        for inputs in passes if other.contract != held else ():
            judgement = _judged(law, other, inputs)
            if judgement is None or judgement.fails:
                return met
        met, held = name, other.contract
    return met
