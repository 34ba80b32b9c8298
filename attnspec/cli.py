"""The command line."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console

from attnspec import __version__, options
from attnspec.limits import Limits
from attnspec.usage import UsageError

UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EBADF)
"""What is raised where standard output takes no more."""
WIDTH = 100
"""Columns of plain output, where no terminal says how many it has."""


class _Group(click.Group):
    """Tells a usage error in one text, and an interruption without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UsageError as error:
            click.echo(f"attnspec: {error}", err=True)
        except KeyboardInterrupt:
            click.echo("attnspec: interrupted", err=True)
        except OSError as error:
            if error.filename is not None or error.errno not in UNWRITABLE:
                raise
            _drop_output()
            click.echo(f"attnspec: cannot write the output: {error.strerror}", err=True)
        return ctx.exit(2)


class _Output(Console):
    """Whoever reads it may leave early, as `head` does: that is no verdict."""

    def on_broken_pipe(self) -> NoReturn:
        self.quiet = True
        _drop_output()
        raise SystemExit(2)


def _drop_output() -> None:
    # what is still buffered would fail once more when the interpreter ends
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="attnspec")
def main() -> None:
    """Check attention kernels against laws that are derived from the mathematics.

    Exit status: 0 all is well, 1 it is not, 2 it could not be judged.
    """


@main.command()
@click.argument("targets", metavar="TARGET...", nargs=-1)
@click.option("--all", "every", is_flag=True,
              help="Every built-in target whose library is installed.")  # fmt: skip
@click.option("--component", "components", multiple=True, metavar="NAME", help="Only this one.")
@click.option("--law", "laws", multiple=True, metavar="ID", help="Only this law.")
@click.option("--dtype", "dtypes", multiple=True, metavar="NAME", help="Only this dtype.")
@click.option("--device", "devices", multiple=True, metavar="NAME", help="Only this device.")
@options.effort("full", "Chooses the examples.")
@options.workers(0)
@options.limits()
@click.option("--time-limit", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
              help="For all of it. Tier deep draws until then.")  # fmt: skip
@click.option("--cases", type=click.Path(path_type=Path), metavar="DIR", show_default=True,
              default=Path(".attnspec", "cases"), help="Folder of the failing calls.")  # fmt: skip
@click.option(
    "--known",
    "known_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Laws that are known to fail; they do not fail the run.",
)
@click.option("--write-known", "write_known_file", type=click.Path(path_type=Path),
              metavar="FILE", help="Write what fails now as such a file.")  # fmt: skip
@options.file("--json", "Write the results as JSON.")
@options.file("--junit", "Write the results as JUnit XML.")
@options.file("--html", "Write the results as one HTML page.")
@click.pass_context
def verify(ctx: click.Context, /, **given: Any) -> None:
    """Run every law that applies to TARGET.

    A TARGET is a file, pkg.mod, pkg.mod:object, a built-in name (see `attnspec targets`) or
    fault:ID (see `attnspec faults`). Options that select may be given several times.
    """
    from attnspec.verifying import Request, verified

    ctx.exit(verified(console(), Request(**given)))


@main.command()
@click.argument("files", metavar="FILE...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--target", metavar="TARGET", help="Another target than that of the case.")
@options.workers(0)
@options.limits()
@click.pass_context
def replay(
    ctx: click.Context, files: tuple[Path, ...], target: str | None, workers: int,
    call_limit: float, memory_limit: float | None,
) -> None:  # fmt: skip
    """Make the failing call in each FILE again, which `attnspec verify` has stored.

    Exit status: 0 all are fixed, 1 one still fails, 2 one could not run.
    """
    from attnspec.replaying import replayed

    limits = Limits(call_limit, memory_limit or 0.0)
    ctx.exit(replayed(console(), files, target or "", workers, limits))


@main.command()
def targets() -> None:
    """List the built-in targets, and whether their library is installed here."""
    from attnspec.listing import print_targets

    print_targets(console())


@main.command()
@options.file("--json", "Write the catalogue as JSON.")
def faults(json_file: Path | None) -> None:
    """List the catalogue of wrong implementations."""
    from attnspec.listing import print_faults

    print_faults(console(), json_file)


@main.command()
@click.option("--component", "components", multiple=True, metavar="NAME", help="Only this one.")
@click.option(
    "--document",
    "documents",
    multiple=True,
    metavar="NUMBER",
    help="Only statements of this document: 000, 003 or 004.",
)
@click.option(
    "--verdict",
    "verdicts",
    multiple=True,
    metavar="NAME",
    help="Only holds, holds-if, corrected, refuted or empirical.",
)
@click.option(
    "--form",
    "forms",
    multiple=True,
    metavar="NAME",
    help="Only what is proved as symbolic, block, fixed, exact, numeric or none.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="As JSON, into a file or printed.",
)
def claims(json_file: Path | None, **given: Any) -> None:  # fmt: skip
    """List the register: every statement of the documents, and what is true of it.

    Options that select may be given several times.
    """
    from attnspec.register import Choice
    from attnspec.showing import claims_shown

    claims_shown(console(), Choice(**given), json_file)


@main.command()
@click.argument("names", metavar="ID...", nargs=-1, required=True)
def show(names: tuple[str, ...]) -> None:
    """Show a claim whole: statement, source, conditions, derivation, laws and faults.

    An ID is that of a claim, such as rope.relative_invariance, or the number of a statement of
    the documents, such as C042.
    """
    from attnspec.register import claim_of
    from attnspec.showing import print_claim

    to = console()
    for count, claim in enumerate(dict.fromkeys(map(claim_of, names))):
        if count:
            to.print()
        print_claim(to, claim)


@main.command()
@click.argument("names", metavar="[ID]...", nargs=-1)
@click.option(
    "-n",
    "workers",
    type=click.IntRange(1),
    metavar="WORKERS",
    help="Processes, by default one a core.",
)
@click.pass_context
def prove(ctx: click.Context, names: tuple[str, ...], workers: int | None) -> None:  # fmt: skip
    """Run derivations again, all of them or those of some claims."""
    from attnspec.showing import proved_exit

    ctx.exit(proved_exit(console(), names, workers))


@main.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("-n", "workers", type=click.IntRange(1), metavar="WORKERS",
              help="Processes, by default one a core.")  # fmt: skip
@click.pass_context
def docs(ctx: click.Context, directory: Path, workers: int | None) -> None:
    """Write the invariants into DIR as a static site, which can be read offline.

    DIR must not exist, be empty, or hold an earlier site, which is replaced.
    """
    from attnspec.docs.writing import written_exit

    ctx.exit(written_exit(console(), directory, workers))


@main.command()
@click.option("--fault", "only", multiple=True, metavar="ID", help="Only this fault.")
@click.option(
    "--all-laws",
    "every_law",
    is_flag=True,
    help="Every law of its component on each fault, not only those that speak of it.",
)
@options.effort("smoke", "Chooses the examples.")
@options.workers(1)
@options.file("--json", "Write the score as JSON.")
@click.pass_context
def score(ctx: click.Context, /, **given: Any) -> None:
    """Measure which law rejects which wrong implementation, in how many examples.

    Over the whole catalogue a law stops soon after the first examples in which it rejects a fault;
    of faults that are named with --fault, and with --all-laws, every example counts.
    """
    from attnspec.verifying import scored_exit

    ctx.exit(scored_exit(console(), **given))


def console() -> Console:
    """Standard output: as wide as the terminal, or plain text of a fixed width."""
    wide = _Output(emoji=False)
    return wide if wide.is_terminal else _Output(width=WIDTH, color_system=None, emoji=False)
