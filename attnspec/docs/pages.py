"""The pages as text: templates filled with records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from attnspec import __version__
from attnspec.docs.content import Component, Register, counts, in_order
from attnspec.docs.equations import equations
from attnspec.docs.formulas import mathml
from attnspec.docs.picture import Picture
from attnspec.docs.proofs import shown as shown_of
from attnspec.impls.faults.fault import Fault
from attnspec.oracle.conventions import Convention
from attnspec.oracle.expected import tape_of
from attnspec.oracle.law import Law
from attnspec.oracle.source import source
from attnspec.proving import Proof
from attnspec.register import VERDICTS, component_of
from attnspec.showing import FORMS
from attnspec.spec.claim import Claim
from attnspec.spec.sources import DOCUMENTS, Document

MENU = (("index.html", "Components"), ("statements.html", "Statements"), ("errata.html", "Errata"))
VERDICT_MEANINGS = {
    "holds": "It is proved as it stands.",
    "holds-if": "It is proved under the conditions listed, which the text leaves out; a "
    "counterexample shows what fails without them.",
    "corrected": "It is false as written. A counterexample shows it, and a corrected statement is "
    "proved in its place.",
    "refuted": "It is false, and nothing of its kind is true.",
    "empirical": "It is about models, quality or speed, which mathematics does not decide; what "
    "follows from mathematics is derived.",
}
_CODE = re.compile(r"`([^`]+)`")
_REPORT = re.compile(r"([\w.-]+/[\w.-]+) #(\d+)")


def prose(text: str) -> Markup:
    """A plain text for a page: what stands in backticks is code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def named(identity: str) -> Markup:
    """An id, or a path of words, that may be broken after a point or an underscore."""
    return Markup(re.sub(r"([._])", r"\1<wbr>", str(escape(identity))))


def report(text: str) -> Markup:
    """A link to the public report `owner/repository #number`."""
    match = _REPORT.fullmatch(text)
    if match is None:
        return escape(text)
    repository, number = match.groups()
    address = f"https://github.com/{repository}/issues/{number}"
    return Markup('<a rel="external noreferrer" href="{}">{}#{}</a>').format(
        address, repository, number
    )


def place(entry: Claim | Law | Fault) -> str:
    """The address of a record's entry."""
    kind = {Claim: "claim", Law: "law", Fault: "fault"}[type(entry)]
    return f"{component_of(entry.id)}.html#{kind}-{entry.id}"


def meanings(convention: Convention) -> Iterator[tuple[str, str]]:
    """Each value of a convention with what it says."""
    return zip(convention.values, convention.meanings, strict=True)


class Pages:
    """The pages of one site."""

    def __init__(
        self, table: Register, shown: Sequence[Component], proofs: Mapping[str, Proof]
    ) -> None:
        self.table, self.shown, self.proofs = table, shown, proofs
        self.environment = Environment(
            loader=PackageLoader("attnspec.docs"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        claims = {claim.id: claim for claim in table.claims}
        laws = {law.id: law for law in table.laws}
        faults = {fault.id: fault for fault in table.faults}
        self.environment.filters |= {
            "prose": prose,
            "named": named,
            "report": report,
            "place": place,
            "meanings": meanings,
            "mathml": lambda latex, block: Markup(mathml(latex, block=block)),
            "claim": claims.__getitem__,
            "law": laws.__getitem__,
            "known": partial(_known, claims),
            "faults": partial(_known, faults),
            "shown": shown_of,
            "laws_of": table.laws_of,
            "repeats_of": table.repeats_of,
        }
        self.environment.globals |= {
            "menu": MENU, "version": __version__, "verdicts": VERDICTS, "forms": FORMS,
            "proofs": proofs,
        }  # fmt: skip

    def index(self, pictures: Sequence[tuple[str, Picture]]) -> str:
        """The first page."""
        statements = in_order(self.table.claims)
        return self._filled(
            "index.html",
            statements=statements,
            total=counts(statements),
            components=[(c, counts(c.statements)) for c in self.shown],
            documents=[
                (d, counts(c for c in statements if c.source.document == d.number))
                for d in DOCUMENTS
            ],
            lemmas=sum(not claim.number for claim in self.table.claims),
            definitions=len(self.table.definitions),
            laws=len(self.table.laws),
            faults=len(self.table.faults),
            meanings=VERDICT_MEANINGS,
            pictures=pictures,
        )

    def component(self, component: Component, pictures: Sequence[Picture]) -> str:
        """The page of one component."""
        claims = {claim.id: claim for claim in self.table.claims}
        shown = [(d, equations(d), source(tape_of(d))) for d in component.definitions]
        return self._filled(
            "component.html",
            page=f"{component.name}.html",
            component=component,
            counted=counts(component.statements),
            kin=[c.name for c in self.shown if _is_kin(c, component)],
            definitions=shown,
            pictures=[_Shown(picture, _known(claims, picture.claims)) for picture in pictures],
        )

    def errata(self) -> str:
        """What the documents say wrongly, and under which conditions they are right."""
        statements = in_order(self.table.claims)
        wrong = [c for c in statements if c.verdict in ("corrected", "refuted")]
        conditional = [c for c in statements if c.verdict == "holds-if"]
        return self._filled(
            "errata.html",
            counted=counts([*wrong, *conditional]),
            documents=_by_section(wrong),
            conditional=conditional,
        )

    def statements(self) -> str:
        """All statements, in the documents' order."""
        statements = in_order(self.table.claims)
        return self._filled(
            "statements.html", total=len(statements), documents=_by_section(statements)
        )

    def _filled(self, template: str, **given: Any) -> str:
        return self.environment.get_template(template).render({"page": template, **given})


class _Shown:
    """A picture on a page, with the records of the claims that it shows."""

    def __init__(self, picture: Picture, shown: Sequence[Claim]) -> None:
        self.picture, self.shown = picture, shown

    def __getattr__(self, name: str) -> Any:
        return getattr(self.picture, name)


def _is_kin(one: Component, other: Component) -> bool:
    """Whether two components are parts of one thing: `mla` and `mla_decode`."""
    words = {c.name.partition("_")[0] for c in (one, other)}
    return one is not other and len(words) == 1


def _known(records: Mapping[str, Any], ids: Sequence[str]) -> list[Any]:
    """The records of these ids, those that there are."""
    return [records[id] for id in ids if id in records]


def _by_section(claims: Sequence[Claim]) -> list[tuple[Document, list[tuple[str, list[Claim]]]]]:
    """Claims by document and section, in the documents' order."""
    return [
        (
            document,
            [
                (section, found)
                for section in document.sections
                if (found := [
                    c for c in claims
                    if (c.source.document, c.source.section) == (document.number, section)
                ])
            ],
        )
        for document in DOCUMENTS
    ]  # fmt: skip
