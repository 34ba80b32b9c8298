"""The site as files: valid pages, links that lead somewhere, nothing from elsewhere, colors.

What the pages say is in `test_docs_records`; in a browser they are opened by `test_docs_browser`.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from attnspec.docs.building import build
from attnspec.docs.picture import PALETTE
from tests.sites import (
    COMPONENTS,
    Site,
    broken_links,
    loaded_from_elsewhere,
    pages,
    silent,
    small_site,
)

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return small_site(tmp_path_factory.mktemp("docs") / "site")


def test_pages_are_valid(site: Site) -> None:
    for page in site.pages:
        assert page.tree.errors == []
        assert page.path.read_text("utf-8").startswith('<!DOCTYPE html>\n<html lang="en">')


def test_ids_are_unique(site: Site) -> None:
    for page in site.pages:
        assert [name for name, times in Counter(page.ids).items() if times > 1] == []


def test_links_lead_somewhere(site: Site) -> None:
    assert broken_links(site.pages) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<!DOCTYPE html><html><head><title>a</title></head><body><a id="x" href="#y">1</a>'
        '<a href="b.html">2</a><a href="https://example.org">3</a><a href="#x">4</a></body></html>'
    )
    assert len(broken_links(pages(tmp_path))) == 3


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


def test_contents_list_every_section(site: Site) -> None:
    for page in (page for page in site.pages if page.path.stem != "index"):
        sections = [f"#{node.attrs['id']}" for node in page.all("h2")]
        assert [node.attrs["href"] for node in page.all("nav.contents a")] == sections != []


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
