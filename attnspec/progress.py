"""A bar that says how far a long command is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn


@contextmanager
def bar(title: str) -> Iterator[Any]:
    """A function to tell progress to: (label, done, total). Shown on a terminal only."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as p:
        task = p.add_task(title, total=None)
        yield lambda label, done, total: p.update(
            task, description=f"{title}: {label}", completed=done, total=total
        )
