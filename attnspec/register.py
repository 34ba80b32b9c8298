"""The register of claims as users ask for it: chosen, looked up, and as JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from attnspec import __version__
from attnspec.catalogue import all_faults
from attnspec.impls.faults.fault import Fault
from attnspec.oracle.law import Law
from attnspec.runner import all_laws
from attnspec.spec import CLAIMS
from attnspec.spec.claim import Claim, Form, Verdict
from attnspec.spec.sources import DOCUMENTS
from attnspec.usage import UsageError, suggestion, unknown

VERDICTS: tuple[str, ...] = get_args(Verdict)
FORMS: tuple[str, ...] = get_args(Form)
_NUMBER = re.compile(r"([A-Za-z]?)0*(\d+)")


@dataclass(frozen=True)
class Choice:
    """Which claims are asked for; an empty field asks for all."""

    components: Sequence[str] = ()
    documents: Sequence[str] = ()
    verdicts: Sequence[str] = ()
    forms: Sequence[str] = ()


@dataclass(frozen=True)
class Tied:
    """What the suite does about a claim."""

    laws: tuple[Law, ...]
    """Laws that rest on it."""
    faults: tuple[Fault, ...]
    """Wrong implementations that these laws reject, in the catalogue's order."""


def component_of(id: str) -> str:
    """The component to which an id belongs: the word before the point."""
    return id.partition(".")[0]


def _components() -> dict[str, None]:
    """Those that have a claim, in the register's order."""
    return dict.fromkeys(component_of(claim.id) for claim in CLAIMS)


def chosen(choice: Choice) -> tuple[Claim, ...]:
    """The claims of a choice, in the register's order; names in any case. Raises UsageError for a
    name that the register does not know, and where nothing is left."""
    fields: tuple[tuple[str, Sequence[str], Iterable[str], Callable[[Claim], str]], ...] = (
        ("component", choice.components, _components(), lambda c: component_of(c.id)),
        ("document", choice.documents, [d.number for d in DOCUMENTS], lambda c: c.source.document),
        ("verdict", choice.verdicts, VERDICTS, lambda c: c.verdict),
        ("proof form", choice.forms, FORMS, lambda c: c.form),
    )
    claims = CLAIMS
    for what, given, allowed, of in fields:
        for name in given:
            if name.lower() not in allowed:
                raise UsageError(unknown(what, name, allowed))
        wanted = {name.lower() for name in given}
        claims = tuple(claim for claim in claims if not given or of(claim) in wanted)
    if not claims:
        raise UsageError("no claim is all of that at once; leave out one of the options")
    return claims


def claim_of(name: str) -> Claim:
    """The claim of an id, or of a number of the documents' statements such as C042, in any case
    and without its zeros. Raises UsageError, with the nearest names."""
    given = name.strip()
    parts = _parts(given)
    for claim in CLAIMS:
        if given.lower() == claim.id or (claim.number and parts == _parts(claim.number)):
            return claim
    raise UsageError(f"unknown claim {name!r};{_near(given)}")


def _near(given: str) -> str:
    """What somebody may have meant who named no claim."""
    if given.lower() in _components():
        return f" `attnspec claims --component {given.lower()}` lists those of the component"
    numbers = [claim.number for claim in CLAIMS if claim.number]
    letter, digits = _parts(given) or ("", "")
    same = sorted(n for n in numbers if digits and _parts(n) == (n[0], digits))
    if same and not letter:
        return f" did you mean {' or '.join(same)}?"
    names = [claim.id for claim in CLAIMS] + numbers
    near = suggestion(given, names) or suggestion(given.upper(), names)
    return f"{near} `attnspec claims` lists them"


def _parts(number: str) -> tuple[str, str] | None:
    """A number's letter and digits: C and 42 of C042, c42 and so on."""
    match = _NUMBER.fullmatch(number)
    return (match[1].upper(), match[2]) if match else None


def original(claim: Claim) -> Claim:
    """The claim whose derivation counts: its own, or that of the statement which it repeats."""
    return claim_of(claim.same_as) if claim.same_as else claim


def laws_on(claim: Claim, laws: Iterable[Law]) -> tuple[Law, ...]:
    """Those of these laws that rest on a claim."""
    return tuple(law for law in laws if claim.id in law.claims)


def tied(claim: Claim) -> Tied:
    """The laws that name a claim, and the faults that they reject."""
    laws = laws_on(claim, all_laws())
    named = {law.id for law in laws}
    rejected = {fault for law in laws for fault in law.rejects}
    faults = tuple(f for f in all_faults().values() if f.id in rejected or f.law in named)
    return Tied(laws, faults)


def counts(claims: Iterable[Claim]) -> Mapping[str, int]:
    """How many have each verdict, in the verdicts' order."""
    found = Counter(claim.verdict for claim in claims)
    return {verdict: found[verdict] for verdict in VERDICTS if found[verdict]}  # type: ignore[index]


def claims_json(claims: Sequence[Claim]) -> dict[str, Any]:
    """Statements of the documents, and lemmas of our own on which they rest."""
    stated = [claim for claim in claims if claim.number]
    return {
        "version": __version__,
        "counts": dict(counts(stated)),
        "claims": [_row(claim) for claim in stated],
        "lemmas": [_row(claim) for claim in claims if not claim.number],
    }


def _row(claim: Claim) -> dict[str, Any]:
    return {
        "id": claim.id,
        "number": claim.number or None,
        "component": component_of(claim.id),
        "document": claim.source.document,
        "section": claim.source.section,
        "verdict": claim.verdict,
        "form": claim.form,
        "statement": claim.statement,
        "latex": claim.latex,
        "says": claim.source.says,
        "conditions": [{"label": c.label, "text": c.text} for c in claim.conditions],
        "truth": claim.truth or None,
        "same_as": claim.same_as or None,
    }
