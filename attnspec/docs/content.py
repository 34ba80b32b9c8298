"""What the pages show, gathered from the records: one component, one page."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attnspec import spec
from attnspec.impls.faults.fault import Fault
from attnspec.oracle.components import CONTRACT
from attnspec.oracle.conventions import CONVENTIONS, Convention
from attnspec.oracle.law import Law
from attnspec.register import VERDICTS, component_of, laws_on
from attnspec.register import counts as counts_of
from attnspec.spec.claim import Claim
from attnspec.spec.definition import Definition


@dataclass(frozen=True)
class Register:
    """The tables from which a site is made."""

    claims: tuple[Claim, ...]
    definitions: tuple[Definition, ...]
    laws: tuple[Law, ...]
    faults: tuple[Fault, ...]

    def laws_of(self, claim: Claim) -> list[Law]:
        """The laws that rest on a claim."""
        return list(laws_on(claim, self.laws))

    def repeats_of(self, claim: Claim) -> list[Claim]:
        """The statements that say the same."""
        return [entry for entry in self.claims if entry.same_as == claim.id]


@dataclass(frozen=True)
class Component:
    """What the page of one component shows."""

    name: str
    about: str
    """What it is, in a paragraph; empty where no module says so."""
    claims: tuple[Claim, ...]
    definitions: tuple[Definition, ...]
    laws: tuple[Law, ...]
    faults: tuple[Fault, ...]
    conventions: Mapping[str, Convention]

    @property
    def statements(self) -> tuple[Claim, ...]:
        """Claims that a document makes."""
        return tuple(claim for claim in self.claims if claim.number)

    @property
    def lemmas(self) -> tuple[Claim, ...]:
        """Claims of our own."""
        return tuple(claim for claim in self.claims if not claim.number)


def register() -> Register:
    """Everything there is."""
    from attnspec.impls.faults.table import FAULTS
    from attnspec.oracle import LAWS

    return Register(spec.CLAIMS, definitions(), LAWS, FAULTS)


def definitions() -> tuple[Definition, ...]:
    """The definitions of all components, from the tables of the modules that hold them."""
    found: list[Definition] = []
    for name in sorted(m.name for m in pkgutil.iter_modules(spec.__path__)):
        if name.endswith("_definition"):
            module = importlib.import_module(f"{spec.__name__}.{name}")
            found += module.definitions()
    return tuple(found)


def components(table: Register) -> tuple[Component, ...]:
    """Every component that has a claim, a definition or a law, in the contract's order; those that
    are none of its functions last."""
    names = dict.fromkeys(
        [
            *(component_of(claim.id) for claim in table.claims),
            *(component_of(definition.name) for definition in table.definitions),
            *(law.component for law in table.laws),
        ]
    )
    ordered = [*(name for name in CONTRACT if name in names)]
    ordered += [name for name in names if name not in CONTRACT]
    return tuple(_component(name, table) for name in ordered)


def _component(name: str, table: Register) -> Component:
    return Component(
        name,
        _about(name),
        tuple(c for c in table.claims if component_of(c.id) == name),
        # the component itself before its parts and counts
        tuple(
            sorted(
                (d for d in table.definitions if component_of(d.name) == name),
                key=lambda d: d.name != name,
            )
        ),
        tuple(law for law in table.laws if law.component == name),
        tuple(fault for fault in table.faults if fault.component == name),
        {key: value for key, value in CONVENTIONS.items() if name in value.reaches},
    )


def _about(name: str) -> str:
    """The first paragraph of what the module of that name says, or of its definition's."""
    for module in (f"{spec.__name__}.{name}", f"{spec.__name__}.{name}_definition"):
        if importlib.util.find_spec(module) is not None:
            text = importlib.import_module(module).__doc__ or ""
            return " ".join(text.split("\n\n")[0].split())
    return ""


def counts(claims: Iterable[Claim]) -> dict[str, int]:
    """How many have each verdict, none too."""
    return dict.fromkeys(VERDICTS, 0) | dict(counts_of(claims))


def in_order(claims: Sequence[Claim]) -> list[Claim]:
    """Statements in the order of the documents: by the register's numbers."""
    return sorted((c for c in claims if c.number), key=lambda c: (c.number[0], int(c.number[1:])))
