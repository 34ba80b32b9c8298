"""What `attnspec docs` does."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from attnspec.progress import bar
from attnspec.report import print_line
from attnspec.usage import UsageError

NEEDED = ("jinja2", "markupsafe", "math_core", "matplotlib")
"""Modules of the extra `docs`."""


def written_exit(console: Console, directory: Path, workers: int | None) -> int:
    """Build, say where; the exit status: 1 where a derivation doesn't close, and nothing is
    written then. Raises UsageError for a place that cannot be written."""
    try:
        from attnspec.docs.building import build
        from attnspec.docs.proofs import OpenError
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        raise UsageError(
            f"`attnspec docs` needs {error.name}, which is not installed: "
            "pip install 'attnspec[docs]'"
        ) from error
    try:
        with bar("docs") as told:
            pages = build(directory, told, workers=workers)
    except OpenError as error:
        print_line(console, f"nothing was written: {error}", "bold red")
        return 1
    print_line(console, f"{pages} pages: open {directory / 'index.html'}")
    return 0
