"""What the pages say is what the records say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from justhtml import Element

from attnspec.docs import proofs
from attnspec.docs.content import Register, components
from attnspec.docs.equations import equations
from attnspec.docs.formulas import latex_of, mathml
from attnspec.docs.index import entries
from attnspec.docs.pages import Pages
from attnspec.oracle.conventions import CONVENTIONS
from attnspec.oracle.expected import tape_of
from attnspec.oracle.source import source
from attnspec.proving import Proof
from attnspec.spec import CLAIMS
from tests.sites import (
    COMPONENTS,
    Page,
    Site,
    elements,
    plain,
    small_site,
    written,
)

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return small_site(tmp_path_factory.mktemp("docs") / "site")


def formulas(page: Page) -> Iterator[tuple[str, str]]:
    """Where each formula of a page says it comes from, and its LaTeX."""
    marked = page.all("[data-of] > math")
    assert len(marked) == len(page.all("math")), "a formula that comes from nowhere"
    for node in marked:
        parent = node.parent
        assert isinstance(parent, Element)
        (annotation,) = node.query("annotation")
        yield str(parent.attrs["data-of"]), str(annotation.to_text(separator="", strip=False))


def latex_due(table: Register, of: str) -> set[str]:
    """What the record of a formula says that it is."""
    kind, name, *rest = of.split(":")
    if kind == "claim":
        return {claim.latex for claim in table.claims if claim.id == name}
    if kind == "definition":
        lines = [equations(d) for d in table.definitions if d.name == name]
        return {line[int(rest[0])] for line in lines if int(rest[0]) < len(line)}
    assert kind == "counterexample"
    (claim,) = [claim for claim in table.claims if claim.id == name]
    assert claim.counterexample
    return {latex_of(getattr(claim.counterexample(), rest[0]))}


def test_every_formula_comes_from_its_record(site: Site) -> None:
    shown = [pair for page in site.pages for pair in formulas(page)]
    for of, latex in shown:
        assert latex in latex_due(site.table, of), of
    names = {of for of, _ in shown}
    assert {f"claim:{claim.id}" for claim in site.table.claims if claim.latex} <= names
    for claim in site.table.claims:
        if claim.counterexample:
            assert {f"counterexample:{claim.id}:{side}" for side in ("stated", "actual")} <= names


def test_templates_hold_no_formula_and_no_record() -> None:
    ids = {claim.id for claim in CLAIMS} | set(CONVENTIONS)
    for path in (ROOT / "attnspec/docs/templates").iterdir():
        text = path.read_text("utf-8")
        assert "<math" not in text
        assert [name for name in ids if name in text] == []


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_claim_is_shown_whole(site: Site, name: str) -> None:
    page = site.page(name)
    for claim in (c for c in site.table.claims if c.id.startswith(f"{name}.")):
        (article,) = [n for n in page.all("article") if n.attrs["id"] == f"claim-{claim.id}"]
        text = written(article)
        texts = [claim.id, claim.verdict, claim.statement, claim.source.says, claim.truth]
        texts += [claim.number, claim.source.document, claim.source.section, claim.same_as]
        texts += [part for c in claim.conditions for part in (c.label, c.text)]
        if claim.counterexample:
            texts.append(claim.counterexample().inputs)
        if claim.derivation:
            texts += [step.says for step in claim.derivation()]
        texts += [law.id for law in site.table.laws if claim.id in law.claims]
        assert [t for t in texts if plain(t) not in text] == []


def test_what_the_document_says_stands_beside_what_is_true(site: Site) -> None:
    for claim in site.table.claims:
        if claim.verdict in ("corrected", "refuted"):
            component = site.page(claim.id.partition(".")[0])
            places = {
                f"claim-{claim.id}": component,
                f"erratum-{claim.number}": site.page("errata"),
            }
            for name, page in places.items():
                (article,) = [n for n in page.all("article") if n.attrs["id"] == name]
                assert written(article).count(claim.number) == 1
                (beside,) = elements(article.query(".beside"))
                document, truth = elements(beside.query("section"))
                assert plain(claim.source.says) in written(document)
                assert plain(claim.truth) in written(truth)


def test_a_law_is_shown_with_what_it_rejects_and_is_blind_to(site: Site) -> None:
    # a claim of a component that the site lacks has no place to be linked to
    ids = {claim.id for claim in site.table.claims}
    for law in site.table.laws:
        page = site.page(law.component)
        (article,) = [n for n in page.all("article") if n.attrs["id"] == f"law-{law.id}"]
        text = written(article)
        claims = [identity for identity in law.claims if identity in ids]
        assert claims or not law.claims
        given = [law.says, law.means, *claims, *law.rejects, *law.blind_to, *law.options]
        assert [t for t in given if plain(t) not in text] == []


def test_a_mistake_is_shown_with_its_report(site: Site) -> None:
    for fault in site.table.faults:
        (item,) = [
            n
            for n in site.page(fault.component).all("li")
            if n.attrs.get("id") == f"fault-{fault.id}"
        ]
        text = written(item)
        given = [fault.reason, fault.remedy, fault.law, fault.report.replace(" ", "")]
        assert [t for t in given if plain(t) not in text] == []


def test_titles_of_definitions_say_what_sets_them_apart(site: Site) -> None:
    first, second = site.page("t5_bucket").all(".definition")
    (heading,), (summary, *_) = (elements(first.query("h3")), elements(second.query("summary")))
    assert written(heading) == "t5_bucket(relative_position), both directions"
    assert written(summary) == "t5_bucket(relative_position), earlier keys only"


def test_the_source_is_what_the_oracle_prints(site: Site) -> None:
    for name in COMPONENTS:
        due = {
            source(tape_of(d)).strip() for d in site.table.definitions if d.name.startswith(name)
        }
        shown = {
            str(n.to_text(separator="", strip=False)).strip()
            for n in site.page(name).all("pre code")
        }
        assert shown == due


def test_the_index_counts_what_there_is(site: Site) -> None:
    rows = {written(*elements(row.query("th"))): row for row in site.page("index").all("tbody tr")}
    for component in components(site.table):
        cells = [written(n) for n in elements(rows[component.name].query("td"))]
        verdicts = [c.verdict for c in component.claims if c.number]
        counted = [verdicts.count(v) for v in ("holds", "holds-if", "corrected", "refuted")]
        assert cells[:4] == [str(n or "") for n in counted]
        assert cells[-2:] == [str(len(t) or "") for t in (component.laws, component.faults)]


def test_every_statement_is_listed_once(site: Site) -> None:
    shown = [i for i in site.page("statements").ids if i.startswith("statement-")]
    numbers = [claim.number for claim in site.table.claims if claim.number]
    assert sorted(shown) == sorted(f"statement-{number}" for number in numbers)


def test_a_page_changes_with_its_record(site: Site) -> None:
    """Text and object cannot drift apart: what is changed in a record is changed on the page."""
    old = next(c for c in site.table.claims if c.verdict == "corrected")
    new = replace(old, statement="another statement", latex="a+b", truth="another truth")
    table = replace(site.table, claims=tuple(new if c is old else c for c in site.table.claims))
    shown = components(table)
    proved = {c.id: Proof(c.id) for c in table.claims} | {old.id: proofs.proof(old)}
    made = Pages(table, shown, proved)
    (component,) = [c for c in shown if new in c.claims]
    text = made.component(component, [])
    assert "another statement" in text
    assert "another truth" in text
    assert mathml("a+b") in text
    assert old.statement not in text
    assert mathml(old.latex) not in text


def test_every_claim_law_and_mistake_can_be_searched(site: Site) -> None:
    text = (site.directory / "search-index.js").read_text("utf-8")
    given = json.loads(text.removeprefix("window.attnspecIndex = ").rstrip().removesuffix(";"))
    assert given == entries(site.table, components(site.table))
    ids = {entry["id"] for entry in given}
    for rows in (site.table.claims, site.table.laws, site.table.faults):
        assert {row.id for row in rows} <= ids
    known = {page.path.name: {"", *page.ids} for page in site.pages}
    for entry in given:
        name, _, anchor = entry["url"].partition("#")
        assert anchor in known[name]
