"""What `attnspec docs` does."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from attnspec.progress import bar
from attnspec.report import print_line
from attnspec.usage import UsageError

NEEDED = ("jinja2", "math_core", "matplotlib", "torch")
"""Modules of the extra `docs`; the catalogue of mistakes imports torch."""


def written_exit(console: Console, directory: Path, workers: int | None) -> int:
    """Build, say where; the exit status: 1 where a derivation doesn't close, and nothing is
    written then. Raises UsageError for a place that cannot be written, and where something that
    the site is made with isn't installed."""
    lacking = [name for name in NEEDED if find_spec(name) is None]
    if lacking:
        verb = "is" if len(lacking) == 1 else "are"
        raise UsageError(
            f"`attnspec docs` needs {', '.join(lacking)}, which {verb} not installed: "
            "pip install 'attnspec[docs]'"
        )
    from attnspec.docs.building import build
    from attnspec.docs.proofs import OpenError

    try:
        with bar("docs") as told:
            pages = build(directory, told, workers=workers)
    except OpenError as error:
        print_line(console, f"nothing was written: {error}", "bold red")
        return 1
    print_line(console, f"{pages} pages: open {directory / 'index.html'}")
    return 0
