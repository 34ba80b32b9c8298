"""Options that several commands share. Each function adds some to a command, the first on top."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from attnspec.limits import Limits

Option = Callable[[Callable[..., Any]], Callable[..., Any]]
TIERS = "smoke, full or deep"


def effort(tier: str, help_seed: str) -> Option:
    """How many examples, and from which seed."""
    return _all(
        click.option("--tier", default=tier, show_default=True, help=f"{TIERS}."),
        click.option("--examples", type=click.IntRange(1), metavar="N",
                     help="Examples a law, instead of the tier's."),
        click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
                     metavar="N", help=help_seed),
    )  # fmt: skip


def workers(least: int) -> Option:
    """How many processes."""
    here = "; 0: in this one, which a target may end" if not least else ""
    return click.option("-n", "workers", type=click.IntRange(least), default=1, show_default=True,
                        metavar="WORKERS", help=f"Processes{here}.")  # fmt: skip


def limits() -> Option:
    """What a call of the target may use."""
    return _all(
        click.option("--call-limit", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
                     default=Limits.call, show_default=True,
                     help="A call that takes longer has failed."),
        click.option("--memory-limit", type=click.FloatRange(0, min_open=True), metavar="GIB",
                     help="So has one that needs more memory; by default nearly all there is."),
    )  # fmt: skip


def file(name: str, what: str) -> Option:
    """A file to write."""
    return click.option(name, f"{name[2:]}_file", type=click.Path(path_type=Path), help=what)


def _all(*options: Option) -> Option:
    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add
