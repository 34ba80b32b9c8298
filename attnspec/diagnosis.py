"""What a failure looks like: which declared convention, looser precision or known wrong
implementation would give the same results.

A hypothesis must explain every failing call and break no passing one. It is tried on the calls
as they were drawn, not on simplified ones, which too many mistakes fail alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, product

from attnspec.arrays import has_torch
from attnspec.catalogue import all_faults
from attnspec.evidence import Evidence
from attnspec.impls.faults.fault import Fault
from attnspec.oracle.conventions import others
from attnspec.oracle.precision import FORMATS, PLACES, Format
from attnspec.subject import Subject

NARROWER = ("float32", "tf32", "float16", "bfloat16")
"""Formats to which a mistaken rounding may go, from fine to coarse."""
CLOSE = 0.5
"""Of several looser contracts, those speak that leave at most so much more room than the tightest:
a loose one explains any small error."""
MULTIPLIED = ("products",)
"""Places where hardware rounds to tf32."""
UNSPECIFIED = "unspecified"
"""The value of a convention that promises nothing."""
OUTPUT = "output"
"""The result itself, whose format is the storage dtype and cannot be declared."""
ADVISABLE = 0.03
"""A rounding that moves a result by more than this share of it is nothing to be declared."""


@dataclass(frozen=True)
class Explanation:
    """One hypothesis that reproduces what the target gave."""

    id: str
    """`convention:NAME=VALUE`, `precision:PLACE=FORMAT`, or the id of a fault."""
    distance: float
    """Largest error over allowance left under it."""
    says: str
    """What it means, and what to do."""

    @property
    def verb(self) -> str:
        """A rounding is told by the size of the errors alone, all else by the results."""
        return "could be" if self.id.startswith("precision:") else "looks like"


def explanations(evidence: Evidence) -> tuple[Explanation, ...]:
    """Everything that explains the failures, best first: conventions to declare, then known
    wrong implementations, then looser precision."""
    faults = sorted(_by_fault(evidence), key=lambda e: e.distance)
    found = [*_by_convention(evidence), *faults]
    # a looser contract explains any small error, so it speaks only where nothing else does
    return tuple(found or _by_precision(evidence))


def _by_convention(evidence: Evidence) -> list[Explanation]:
    """Single conventions, or pairs of them where no single one will do."""
    subject = evidence.subject
    single = [(change,) for change in others(subject.component, subject.conventions)]
    double = [(a[0], b[0]) for a, b in combinations(single, 2) if a[0][0] != b[0][0]]
    for changes in (single, double):
        found: dict[tuple[tuple[str, str], ...], Explanation] = {}
        for change in changes:
            other = subject.with_conventions({**subject.conventions, **dict(change)})
            distance = evidence.distance_under(other)
            if distance is not None:
                pairs = "+".join(f"{name}={value}" for name, value in change)
                declare = ", ".join(f'"{name}": "{value}"' for name, value in change)
                says = f"declare conventions={{{declare}}} in TARGET, if that is what it follows"
                found[change] = Explanation(f"convention:{pairs}", distance, says)
        if found:
            return sorted(_telling(found), key=lambda e: e.distance)
    return []


def _telling(found: Mapping[tuple[tuple[str, str], ...], Explanation]) -> list[Explanation]:
    """Those that promise something, if any does: `unspecified` explains whatever is there."""
    vague = {change for change in found if any(value == UNSPECIFIED for _, value in change)}
    return [found[change] for change in found if change not in vague] or list(found.values())


def _by_precision(evidence: Evidence) -> list[Explanation]:
    """Places that may be rounded to a narrower format: that which leaves the least room first."""
    contract = evidence.subject.contract
    found = []
    for name, place in product(NARROWER, (*PLACES, OUTPUT)):
        declared, fmt = contract.format(place), FORMATS[name]
        if not _narrower(fmt, declared) or (name == "tf32" and place not in MULTIPLIED):
            continue
        field = "storage" if place == OUTPUT else place
        other = evidence.subject.with_contract(replace(contract, **{field: name}))
        distance = evidence.distance_under(other)
        if distance is None or not evidence.looks_rounded(other, place, fmt):
            continue
        if evidence.breaks_others(other):
            continue
        word = "storage" if name == contract.storage else name
        says = f"{place} may be rounded to {name}, where {declared.name} is promised"
        says += f": if so, keep it in {declared.name}"
        if evidence.share <= ADVISABLE and place != OUTPUT:
            says += f', or declare precision={{"{place}": "{word}"}}'
        found.append(Explanation(f"precision:{place}={word}", distance, says))
    found.sort(key=lambda e: -e.distance)
    return [e for e in found if e.distance >= CLOSE * found[0].distance]


def _narrower(fmt: Format, declared: Format) -> bool:
    """Whether it rounds more coarsely, or has a smaller range."""
    return fmt.width < declared.width or fmt.normal > declared.normal


def _by_fault(evidence: Evidence) -> Iterator[Explanation]:
    if not has_torch():
        return
    for fault in all_faults().values():
        if _is_about_gradients(fault) and not evidence.law.gradients:
            # its results are right, under conventions that may be other ones
            continue
        wrong = _as_subject(fault, evidence.subject)
        if wrong is None or evidence.outputs_differ(wrong):
            continue
        # anew: it may keep something from the call that it has answered
        wrong = _as_subject(fault, evidence.subject)
        distance = None if wrong is None else evidence.distance_to(wrong)
        if distance is not None:
            yield Explanation(fault.id, distance, f"it {fault.reason}. {fault.remedy}")


def _is_about_gradients(fault: Fault) -> bool:
    from attnspec.oracle import LAWS

    return any(law.gradients for law in LAWS if law.id == fault.law)


def _as_subject(fault: Fault, subject: Subject) -> Subject | None:
    """A wrong implementation in the place of the target; None where it cannot be compared."""
    seen = fault.dtypes is None or subject.dtype in fault.dtypes
    itself = subject.loaded.given == f"fault:{fault.id}"
    if fault.component != subject.component or not seen or itself:
        return None
    functions = fault.functions()
    if fault.component not in functions:
        return None
    declaration = replace(subject.loaded.declaration, arrays="torch")
    loaded = replace(subject.loaded, declaration=declaration, make=fault.functions)
    wrong = Subject(loaded, fault.component, subject.dtype, "cpu", functions)
    wrong.contract, wrong.conventions = subject.contract, subject.conventions
    return wrong
