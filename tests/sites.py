"""Sites that tests build, and how they read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

from justhtml import Element, JustHTML

from attnspec.docs.building import build
from attnspec.docs.content import Register, register
from attnspec.register import component_of

COMPONENTS = ("softmax", "t5_bucket", "kv_cache")
"""Of a small site: one with laws and mistakes, one with a picture, one without either."""


def small_register() -> Register:
    """Tables of a few components, whose derivations take seconds."""
    whole = register()
    return Register(
        tuple(c for c in whole.claims if component_of(c.id) in COMPONENTS),
        tuple(d for d in whole.definitions if component_of(d.name) in COMPONENTS),
        tuple(law for law in whole.laws if law.component in COMPONENTS),
        tuple(fault for fault in whole.faults if fault.component in COMPONENTS),
    )


def silent(label: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class Page:
    """One page as a browser reads it."""

    path: Path

    @cached_property
    def tree(self) -> JustHTML:
        """Its elements. Raises StrictModeError where it isn't valid."""
        return JustHTML(self.path.read_text("utf-8"), sanitize=False, strict=True)

    def all(self, selector: str) -> list[Element]:
        """The elements of a CSS selector."""
        return elements(self.tree.query(selector))

    @cached_property
    def ids(self) -> list[str]:
        """Every id, in order."""
        return [str(node.attrs["id"]) for node in self.all("[id]")]

    def links(self) -> Iterator[str]:
        """Where it leads, and what it loads."""
        for node in self.all("[href]"):
            yield str(node.attrs["href"])
        for node in self.all("[src]"):
            yield str(node.attrs["src"])


def elements(found: Iterable[object]) -> list[Element]:
    """What a query found, which selects elements only."""
    return [node for node in found if isinstance(node, Element)]


def pages(directory: Path) -> list[Page]:
    """The pages of a site."""
    return [Page(path) for path in sorted(directory.glob("*.html"))]


def broken_links(site: Sequence[Page]) -> list[str]:
    """A sentence for each link of these pages, which are a whole site, that leads nowhere, or out
    of the site without saying so."""
    known = {page.path.name: set(page.ids) for page in site}
    found = []
    for page in site:
        for link in page.links():
            name, _, anchor = link.partition("#")
            name = name or page.path.name
            if re.match(r"https://github\.com/[\w.-]+/[\w.-]+/issues/\d+$", link):
                continue
            if link == "data:,":
                continue
            if not (page.path.parent / name).is_file():
                found.append(f"{page.path.name} leads to {link}")
            elif anchor and unquote(anchor) not in known[name]:
                found.append(f"{page.path.name} leads to {link}, where there is no such id")
    return found


def loaded_from_elsewhere(page: Page) -> list[str]:
    """What a browser would fetch from outside of the site when it opens the page."""
    sources = [str(n.attrs["src"]) for n in page.all("[src]")]
    sources += [str(n.attrs["href"]) for n in page.all("link, use, image")]
    text = page.path.read_text("utf-8")
    sources += re.findall(r"url\(([^)]*)\)", text) + re.findall(r"@import[^;]*", text)
    return [s for s in sources if re.match(r"\W*(https?:)?//", s)]


def written(node: Element) -> str:
    """The text of an element on one line."""
    return " ".join(str(node.to_text(separator="", strip=False)).split())


def plain(text: str) -> str:
    """A text without the marks of code in it, on one line."""
    return " ".join(text.replace("`", "").split())


@dataclass(frozen=True)
class Site:
    """A built site, what it was built from, and what was told on the way."""

    directory: Path
    table: Register
    told: list[tuple[str, int, int]]

    @cached_property
    def pages(self) -> list[Page]:
        """Its pages, each read once."""
        return pages(self.directory)

    def page(self, name: str) -> Page:
        """The page of that name."""
        (page,) = [page for page in self.pages if page.path.stem == name]
        return page


def small_site(directory: Path) -> Site:
    """The site of the small register."""
    table = small_register()
    told: list[tuple[str, int, int]] = []
    made = build(directory, lambda *row: told.append(row), workers=1, table=table)
    assert made == len(pages(directory)) == len(COMPONENTS) + 3
    return Site(directory, table, told)
