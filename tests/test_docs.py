"""The site: pages that are valid and say what the records say, and a place that is written whole or
not at all. In a browser it is opened by `test_docs_browser`."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sympy as sp
from click.testing import CliRunner
from justhtml import Element

from attnspec.cli import main
from attnspec.docs import building, proofs
from attnspec.docs.building import build
from attnspec.docs.content import Register, components, definitions, register
from attnspec.docs.equations import equations, named_equations
from attnspec.docs.formulas import FormulaError, latex_of, mathml
from attnspec.docs.gallery import DRAWINGS
from attnspec.docs.index import entries
from attnspec.docs.pages import Pages, prose, report
from attnspec.docs.picture import PALETTE, Picture, ranges
from attnspec.docs.place import MARKER, check_place, replaced
from attnspec.docs.proofs import OpenError, Proof
from attnspec.oracle.conventions import CONVENTIONS
from attnspec.oracle.expected import tape_of
from attnspec.oracle.source import source
from attnspec.spec import CLAIMS
from attnspec.spec.attention_definition import Options, attention, log_sum_exp
from attnspec.spec.claim import Claim, Counterexample, Step
from attnspec.spec.definition import Definition, choice, rnd, unmarked
from attnspec.spec.rope_definition import rope
from attnspec.spec.softmax_definition import DEFINITION as SOFTMAX
from attnspec.usage import UsageError
from tests.sites import (
    COMPONENTS,
    Page,
    broken_links,
    elements,
    loaded_from_elsewhere,
    pages,
    small_register,
    written,
)

ROOT = Path(__file__).resolve().parents[1]


def silent(label: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class Site:
    """A built site and what it was built from."""

    directory: Path
    table: Register
    told: list[tuple[str, int, int]]

    @cached_property
    def pages(self) -> list[Page]:
        return pages(self.directory)

    def page(self, name: str) -> Page:
        (page,) = [page for page in self.pages if page.path.stem == name]
        return page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    directory, table = tmp_path_factory.mktemp("docs") / "site", small_register()
    told: list[tuple[str, int, int]] = []
    made = build(directory, lambda *row: told.append(row), workers=1, table=table)
    assert made == len(pages(directory)) == len(COMPONENTS) + 3
    return Site(directory, table, told)


# what a page is


def test_pages_are_valid(site: Site) -> None:
    for page in site.pages:
        assert page.tree.errors == []
        assert page.path.read_text("utf-8").startswith('<!DOCTYPE html>\n<html lang="en">')


def test_ids_are_unique(site: Site) -> None:
    for page in site.pages:
        assert [name for name, times in Counter(page.ids).items() if times > 1] == []


def test_links_lead_somewhere(site: Site) -> None:
    assert broken_links(site.directory) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<!DOCTYPE html><html><head><title>a</title></head><body><a id="x" href="#y">1</a>'
        '<a href="b.html">2</a><a href="https://example.org">3</a><a href="#x">4</a></body></html>'
    )
    assert len(broken_links(tmp_path)) == 3


def test_nothing_is_loaded_from_elsewhere(site: Site) -> None:
    for page in site.pages:
        assert loaded_from_elsewhere(page) == []
    for name in ("style.css", "script.js"):
        text = (site.directory / name).read_text("utf-8")
        assert not re.search(r"https?:|//\w|url\(|@import|fetch\(|XMLHttp", text)


def test_headings_do_not_skip_a_level(site: Site) -> None:
    for page in site.pages:
        levels = [int(node.name[1]) for node in page.all("h1, h2, h3, h4, h5, h6")]
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_control_has_a_name(site: Site) -> None:
    for page in site.pages:
        labelled = {node.attrs["for"] for node in page.all("label[for]")}
        assert all(node.attrs["id"] in labelled for node in page.all("input"))
        for node in page.all("svg"):
            assert node.attrs["role"] == "img"
            assert node.attrs["aria-labelledby"] in page.ids
        # what scrolls can be reached by keyboard, and says what it is
        for node in page.all(".scroll"):
            assert node.attrs["tabindex"] == "0"
            assert node.attrs["aria-label"]


def test_the_same_register_gives_the_same_site(site: Site, tmp_path: Path) -> None:
    again = tmp_path / "again"
    build(again, silent, workers=1, table=site.table)
    for path in sorted(site.directory.iterdir()):
        assert (again / path.name).read_bytes() == path.read_bytes(), path.name


def test_progress_ends_with_all_of_it(site: Site) -> None:
    total = len(site.table.claims) + len(COMPONENTS)
    assert [done for _, done, _ in site.told] == list(range(1, total + 1))
    assert {of for *_, of in site.told} == {total}


def test_readers_can_tell_the_colors_apart() -> None:
    """WCAG's contrast of text, 4.5, and of lines in pictures, 3, in both themes."""
    text = (ROOT / "attnspec/docs/assets/style.css").read_text("utf-8")
    colors = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\);", text))
    for theme in (0, 1):
        shades = {name: luminance(pair.split(", ")[theme]) for name, pair in colors.items()}
        for ground in ("paper", "panel", "code"):
            for name in shades.keys() - {"paper", "panel", "code", "line"}:
                least = 3.0 if name.startswith("series") else 4.5
                if ground == "code" and name not in ("ink", "faint"):
                    continue
                assert contrast(shades[name], shades[ground]) >= least, (name, ground, theme)
    assert set(PALETTE.values()) <= {f"var(--{name})" for name in colors}


def luminance(color: str) -> float:
    """The relative luminance of `#rrggbb`, by WCAG's formula."""
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: float, other: float) -> float:
    light, dark = max(one, other), min(one, other)
    return (light + 0.05) / (dark + 0.05)


# what a page says


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


def plain(text: str) -> str:
    """A text without the marks of code in it, on one line."""
    return " ".join(text.replace("`", "").split())


def test_what_the_document_says_stands_beside_what_is_true(site: Site) -> None:
    for claim in site.table.claims:
        if claim.verdict in ("corrected", "refuted"):
            for page in (site.page(claim.id.partition(".")[0]), site.page("errata")):
                (beside,) = [n for n in page.all("article > .beside") if claim.number in written(n)]
                document, truth = elements(beside.query("section"))
                assert plain(claim.source.says) in written(document)
                assert plain(claim.truth) in written(truth)


def test_a_law_is_shown_with_what_it_rejects_and_is_blind_to(site: Site) -> None:
    for law in site.table.laws:
        page = site.page(law.component)
        (article,) = [n for n in page.all("article") if n.attrs["id"] == f"law-{law.id}"]
        text = written(article)
        given = [law.says, law.means, *law.claims, *law.rejects, *law.blind_to, *law.options]
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
    proved = {c.id: Proof(shown=None) for c in table.claims} | {old.id: proofs.proof(old)}
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


# formulas


def test_every_formula_of_the_register_is_latex() -> None:
    wrong = []
    for claim in CLAIMS:
        try:
            mathml(claim.latex)
        except FormulaError as error:
            wrong.append(f"{claim.id}: {error}")
    assert wrong == []


def test_every_definition_can_be_written() -> None:
    for definition in definitions():
        for line in equations(definition):
            assert "<math" in mathml(line)


def test_every_module_of_definitions_has_its_table() -> None:
    for path in sorted((ROOT / "spec").glob("*_definition.py")):
        assert import_module(f"attnspec.spec.{path.stem}").definitions(), path.name


def test_what_is_no_latex_is_an_error() -> None:
    for latex in (r"\nosuch x", r"\frac{1}", "a}", r"x_1_2"):
        with pytest.raises(FormulaError):
            mathml(latex)


@pytest.mark.parametrize(
    "definition",
    [
        SOFTMAX,
        rope("interleaved", "forward"),
        rope("half", "backward"),
        attention(Options()),
        log_sum_exp(Options(ranges=True)),
        attention(Options(mask=True, bias=True, softcap=True, ranges=True)),
    ],
    ids=lambda d: d.name,
)
def test_equations_say_what_the_definition_says(definition: Definition) -> None:
    """With what each name stands for put in its place again, the definition is back."""
    result, names = named_equations(definition)
    for symbol, value in names:
        result = result.xreplace({symbol: value})
    assert not result.atoms(sp.Dummy)
    assert ordered(result) == ordered(unmarked(definition.expression))


def ordered(expression: Any) -> Any:
    """An expression as nested tuples in which the order of factors, summands and conditions, which
    sympy keeps as they came, doesn't count."""
    if not expression.args:
        return str(expression)
    parts = [ordered(part) for part in expression.args]
    free = isinstance(expression, (sp.Add, sp.Mul, sp.And, sp.Or))
    return (expression.func.__name__, *(sorted(parts, key=str) if free else parts))


def test_a_name_has_the_indices_that_its_value_depends_on() -> None:
    (first, *_), parts = equations(SOFTMAX), "".join(equations(SOFTMAX))
    assert first == r"\mathrm{out}_{a,j} = \frac{E_{a,j}}{\sum_{j=0}^{n - 1} E_{a,j}}"
    assert r"M_{a} = \max_{0 \le j \le n - 1} x_{a,j}" in parts


def test_marks_leave_brackets_right() -> None:
    a, b, c = sp.symbols("a b c")
    marked = Definition("x", rnd(a + b, "scores") * c, (), (), ())
    assert equations(marked) == (r"\mathrm{out} = c\,\left(a + b\right)",)
    assert latex_of(choice(a, sp.Lt(a, b), c)) == (
        r"\begin{cases} a & \text{if } a < b \\ c & \text{otherwise} \end{cases}"
    )
    assert latex_of(sp.Symbol("num_buckets")) == r"\mathrm{num\_buckets}"
    assert latex_of(sp.Symbol("theta_0")) == r"\theta_{\mathrm{0}}"


def test_texts_are_escaped() -> None:
    assert str(prose("a < b and `x & y`")) == "a &lt; b and <code>x &amp; y</code>"
    assert 'href="https://github.com/pytorch/pytorch/issues/7"' in str(report("pytorch/pytorch #7"))
    assert str(report("<b>")) == "&lt;b&gt;"


def test_every_value_of_a_convention_has_a_meaning() -> None:
    for name, convention in CONVENTIONS.items():
        assert len(convention.meanings) == len(convention.values), name
        assert len(set(convention.meanings)) == len(convention.meanings), name
        assert all(convention.meanings)


# pictures


@pytest.fixture(scope="module")
def gallery() -> dict[str, Picture]:
    made = [drawing.made() for drawing in DRAWINGS]
    assert len({picture.id for picture in made}) == len(made)
    return {picture.id: picture for picture in made}


def test_pictures_use_the_colors_of_the_page(gallery: dict[str, Picture]) -> None:
    for picture in gallery.values():
        assert re.findall(r"#[0-9a-f]{6}\b", picture.svg) == [], picture.id
        assert "<image" not in picture.svg
        own = re.findall(r'\bid="([^"]+)"', picture.svg)
        assert all(name.startswith(f"{picture.id}-") for name in own)
        assert {len(row) for row in picture.rows} == {len(picture.columns)}


def test_pictures_show_claims_that_there_are(gallery: dict[str, Picture]) -> None:
    ids = {claim.id for claim in CLAIMS}
    assert [c for picture in gallery.values() for c in picture.claims if c not in ids] == []


def near(text: str, value: float) -> bool:
    """Whether a number of a table is that value, to the digits that it shows."""
    return text == f"{value:.5g}"


def test_kernel_by_cosines(gallery: dict[str, Picture]) -> None:
    angles = [10000 ** (-i / 64) for i in range(64)]
    for t, (place, score, common, _) in enumerate(gallery["rope-kernel"].rows):
        assert place == str(t)
        cos, sin = (sum(f(t * a) for a in angles) / 64 for f in (math.cos, math.sin))
        assert near(score, cos)
        assert near(common, math.hypot(cos, sin))
    assert "t = 11" in gallery["rope-kernel"].svg


def test_frequencies_by_powers(gallery: dict[str, Picture]) -> None:
    picture = gallery["rope-frequencies"]
    for i, (pair, angle, turn) in enumerate(picture.rows):
        assert pair == str(i)
        assert near(angle, 10000 ** (-i / 64))
        assert near(turn, 2 * math.pi * 10000 ** (i / 64))
    slow = sum(2 * math.pi * 10000 ** (i / 64) > 4096 for i in range(64))
    assert f"{slow} of the 64 pairs" in picture.caption


def test_saturation_by_logistic(gallery: dict[str, Picture]) -> None:
    for gap, one, many, bound in gallery["softmax-saturation"].rows:
        for text, others in ((one, 1), (many, 1000)):
            odds = math.exp(-float(gap)) * others
            assert near(text, odds / (1 + odds) ** 2)
        assert near(bound, math.exp(-float(gap)))


def test_masks_by_loops(gallery: dict[str, Picture]) -> None:
    for i, row in enumerate(gallery["window-masks"].rows):
        both = [abs(i - j) <= 2 for j in range(12)]
        back = [0 <= i - j <= 2 for j in range(12)]
        total = [0 <= i - j < 2 for j in range(12)]
        assert row == (str(i), ranges(both), ranges(back), ranges(total))
    for i, row in enumerate(gallery["causal-alignment"].rows):
        assert row == (str(i), ranges([j <= i + 4 for j in range(9)]),
                       ranges([j <= i for j in range(9)]))  # fmt: skip
    for i, row in enumerate(gallery["longformer-mask"].rows):
        seen = [abs(i - j) <= 2 or i in (0, 9) or j in (0, 9) for j in range(16)]
        assert row == (str(i), ranges(seen))


def test_ranges() -> None:
    assert ranges([True, True, False, True]) == "0-1, 3"
    assert ranges([False]) == "none"


def test_buckets_by_fractions(gallery: dict[str, Picture]) -> None:
    def bucket(distance: int, buckets: int) -> int:
        half = buckets // 2
        if distance < half:
            return distance
        power = Fraction(distance, half) ** half
        return min(
            buckets - 1,
            half + max(k for k in range(40) if power >= Fraction(128, half) ** k),
        )

    for place, both, earlier in gallery["t5-buckets"].rows:
        p = int(place)
        assert int(both) == bucket(abs(p), 16) + (16 if p > 0 else 0)
        assert int(earlier) == bucket(max(0, -p), 32)


def test_slopes_by_powers(gallery: dict[str, Picture]) -> None:
    for h, (_, few, paper, geometric) in enumerate(gallery["alibi-slopes"].rows):
        assert few == ("" if h >= 8 else f"{2.0 ** -(h + 1):.5g}")
        assert near(paper, 2.0 ** -(h + 1) if h < 8 else 2.0 ** (-0.5 * (2 * (h - 8) + 1)))
        assert near(geometric, 2.0 ** (-8 * (h + 1) / 12))


def test_caches_by_counting(gallery: dict[str, Picture]) -> None:
    counted = [row[1] for row in gallery["cache-sizes"].rows]
    assert counted == [f"{n:,}" for n in (2 * 128 * 128, 2 * 8 * 128, 2 * 128, 512 + 64)]


def test_transform_by_signs(gallery: dict[str, Picture]) -> None:
    rows = gallery["hadamard-spread"].rows
    x = [float(before) for _, before, _ in rows]
    for c, (_, _, after) in enumerate(rows):
        terms = (-v if (c & e).bit_count() % 2 else v for e, v in enumerate(x))
        assert near(after, sum(terms) / 4)


# where it is written


@pytest.fixture
def nothing_proved(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Builds a site of one claim without any work."""
    claim = next(c for c in CLAIMS if c.id == "softmax.definition")
    table = Register((claim,), (), (), ())
    return lambda directory: (build(directory, silent, workers=1, table=table), None)[1]


Quick = Callable[[Path], None]


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_site_is_replaced_whole(tmp_path: Path, nothing_proved: Quick) -> None:
    directory = tmp_path / "site"
    nothing_proved(directory)
    (directory / "index.html").write_text("old")
    stale = json.loads((directory / MARKER).read_text())
    (directory / MARKER).write_text(json.dumps({**stale, "files": [*stale["files"], "gone.html"]}))
    (directory / "gone.html").write_text("a page of an earlier version")
    nothing_proved(directory)
    assert (directory / "index.html").read_text() != "old"
    assert not (directory / "gone.html").exists()
    assert leftovers(tmp_path) == ["site"]


def test_an_empty_directory_is_used(tmp_path: Path, nothing_proved: Quick) -> None:
    (tmp_path / "site").mkdir()
    nothing_proved(tmp_path / "site")
    assert (tmp_path / "site" / "index.html").is_file()


def test_what_is_not_ours_is_left_alone(tmp_path: Path, nothing_proved: Quick) -> None:
    directory = tmp_path / "site"
    directory.mkdir()
    (directory / "thesis.tex").write_text("work of years")
    with pytest.raises(UsageError, match=r"it holds thesis\.tex, which no earlier site put there"):
        nothing_proved(directory)
    assert (directory / "thesis.tex").read_text() == "work of years"
    assert leftovers(tmp_path) == ["site"]


def test_a_file_that_was_put_into_a_site_is_left_alone(
    tmp_path: Path, nothing_proved: Quick
) -> None:
    directory = tmp_path / "site"
    nothing_proved(directory)
    (directory / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"it holds notes\.txt"):
        nothing_proved(directory)
    assert (directory / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "marker", ["not json", "[]", '{"files": "index.html"}', '{"written by": "x", "files": []}']
)
def test_a_marker_that_is_not_ours(tmp_path: Path, marker: str) -> None:
    (tmp_path / MARKER).write_text(marker)
    with pytest.raises(UsageError, match="cannot write"):
        check_place(tmp_path)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    for place, reason in (
        (tmp_path / "file", "is no directory"),
        (tmp_path / "link", "is no directory"),
        (tmp_path / "no" / "such", "there is no directory"),
        (Path("/proc/site"), "cannot write /proc/site"),
    ):
        with pytest.raises(UsageError, match=reason):
            check_place(place)
    assert leftovers(tmp_path) == ["file", "link"]


def test_a_build_that_fails_changes_nothing(
    tmp_path: Path, nothing_proved: Quick, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "site"
    nothing_proved(directory)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}

    def broken(self: Any) -> str:
        raise RuntimeError("in the middle")

    monkeypatch.setattr(Pages, "errata", broken)
    with pytest.raises(RuntimeError, match="in the middle"):
        nothing_proved(directory)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    assert leftovers(tmp_path) == ["site"]


def test_what_comes_in_between_is_not_overwritten(tmp_path: Path) -> None:
    directory = tmp_path / "site"

    def overtaken() -> None:
        with replaced(directory, "1") as folder:
            (folder / "index.html").write_text("ours")
            directory.mkdir()
            (directory / "theirs").write_text("")

    with pytest.raises(UsageError, match="it holds theirs"):
        overtaken()
    assert leftovers(directory) == ["theirs"]
    assert leftovers(tmp_path) == ["site"]


# the command


def test_the_command_writes_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "register", small_register)
    result = CliRunner().invoke(main, ["docs", str(tmp_path / "site"), "-n", "1"])
    assert result.exit_code == 0, result.output
    assert f"6 pages: open {tmp_path / 'site' / 'index.html'}" in result.output
    assert (tmp_path / "site" / "kv_cache.html").is_file()


def test_the_command_refuses_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "register", lambda: pytest.fail("it began to work"))
    (tmp_path / "thesis.tex").write_text("")
    result = CliRunner().invoke(main, ["docs", str(tmp_path)])
    assert result.exit_code == 2
    assert f"attnspec: cannot write {tmp_path}: it holds thesis.tex" in result.output


def open_claim() -> Claim:
    claim = next(c for c in CLAIMS if c.id == "softmax.definition")
    return replace(claim, derivation=lambda: (Step("one is two", sp.Integer(1)),))


def test_a_derivation_that_does_not_close_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "register", lambda: Register((open_claim(),), (), (), ()))
    result = CliRunner().invoke(main, ["docs", str(tmp_path / "site"), "-n", "1"])
    assert result.exit_code == 1
    assert (
        "nothing was written: the derivation of softmax.definition does not close: one is two"
        in (" ".join(result.output.split()))
    )
    assert leftovers(tmp_path) == []


def test_proofs_are_the_same_in_several_processes() -> None:
    claims = [c for c in CLAIMS if c.id.startswith("t5_bucket.")]
    assert proofs.proofs(claims, silent, 2) == proofs.proofs(claims, silent, 1)
    with pytest.raises(OpenError):
        proofs.proof(open_claim())


def test_numbers_of_a_counterexample() -> None:
    claim = replace(
        open_claim(),
        derivation=None,
        counterexample=lambda: Counterexample("x = 1", sp.Integer(3), sp.Rational(1, 3)),
    )
    shown = proofs.proof(claim).shown
    assert shown is not None
    assert (shown.stated, shown.actual) == ("3", r"\frac{1}{3}")
    assert shown.decimals == ("", "0.333333")


def test_without_the_extra_it_says_what_to_install() -> None:
    script = (
        "import sys\n"
        "sys.modules['math_core'] = None\n"
        "from attnspec.cli import main\n"
        "main(['docs', 'nowhere/site'])\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert finished.returncode == 2
    assert finished.stderr.startswith("attnspec: `attnspec docs` needs math_core, which is not")
    assert "pip install 'attnspec[docs]'" in finished.stderr


def test_the_whole_register_is_gathered() -> None:
    table = register()
    shown = components(table)
    assert sum(len(c.claims) for c in shown) == len(CLAIMS)
    assert sum(len(c.laws) for c in shown) == len(table.laws)
    assert sum(len(c.faults) for c in shown) == len(table.faults)
    assert sum(len(c.definitions) for c in shown) == len(table.definitions)
    assert {name for c in shown for name in c.conventions} == set(CONVENTIONS)
