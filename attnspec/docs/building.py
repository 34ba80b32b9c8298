"""The site from beginning to end."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from attnspec import __version__
from attnspec.docs.content import Register, components, register
from attnspec.docs.gallery import drawings_of, pictures
from attnspec.docs.index import script
from attnspec.docs.pages import Pages
from attnspec.docs.place import check_place, replaced
from attnspec.docs.proofs import proofs
from attnspec.proving import Progress

ASSETS = ("style.css", "script.js")


def build(
    directory: Path, told: Progress, *, workers: int | None = None, table: Register | None = None
) -> int:
    """Write the site of the whole register, or of a smaller one; returns how many pages it has.
    Raises UsageError for a place that cannot be written, before any work, and OpenError for a
    derivation that doesn't close; then nothing is written."""
    directory = directory.absolute()
    check_place(directory)
    table = register() if table is None else table
    shown = components(table)
    total = len(table.claims) + len(shown)

    def told_proofs(label: str, done: int, _: int) -> None:
        told(label, done, total)

    proved = proofs(table.claims, told_proofs, workers)
    pages = Pages(table, shown, proved)
    drawings = drawings_of(component.name for component in shown)
    listed = []
    with replaced(directory, __version__) as folder:
        for count, component in enumerate(shown, 1):
            drawn = pictures(drawings[component.name])
            listed += [(component.name, picture) for picture in drawn]
            _write(folder / f"{component.name}.html", pages.component(component, drawn))
            told(component.name, len(table.claims) + count, total)
        _write(folder / "index.html", pages.index(listed))
        _write(folder / "errata.html", pages.errata())
        _write(folder / "statements.html", pages.statements())
        _write(folder / "search-index.js", script(table, shown))
        assets = files("attnspec.docs") / "assets"
        for name in ASSETS:
            _write(folder / name, assets.joinpath(name).read_text("utf-8"))
    return len(shown) + 3


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
