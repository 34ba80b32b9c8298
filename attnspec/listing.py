"""The tables of `attnspec targets` and `attnspec faults`."""

from __future__ import annotations

from pathlib import Path

from rich.box import ASCII2, SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attnspec.catalogue import all_faults
from attnspec.files import check_writable, json_text, written
from attnspec.loading import load
from attnspec.report import print_line
from attnspec.score import Score
from attnspec.usage import UsageError


def print_targets(console: Console) -> None:
    """Name, components and whether it can be run here."""
    from attnspec.impls.targets import TARGETS

    table = _table(console, "target", "components", "here")
    for name in TARGETS:
        try:
            loaded = load(name)
        except UsageError as error:
            table.add_row(name, "", escape(str(error)))
        else:
            table.add_row(name, ", ".join(loaded.components), "yes")
    console.print(table)


def print_faults(console: Console, json_file: Path | None) -> None:
    """Id, kind, law and reason of each; as JSON too. Raises UsageError."""
    if json_file is not None:
        check_writable(json_file)
    for fault in all_faults().values():
        print_line(console, f"{fault.id}  {fault.kind}  rejected by {fault.law}", "bold")
        print_line(console, f"    {fault.reason}" + (f" ({fault.report})" if fault.report else ""))
    if json_file is not None:
        fields = ("id", "component", "kind", "law", "reason", "remedy", "report")
        rows = [
            {**{name: getattr(f, name) for name in fields}, "dtypes": f.dtypes and list(f.dtypes)}
            for f in all_faults().values()
        ]
        written(json_file, json_text({"faults": rows}))


def print_score(console: Console, score: Score) -> None:
    """For each fault, the laws that reject it and in how many examples."""
    table = _table(console, "fault", "named law", "rejected by")
    for fault in score.faults:
        counts = [c for c in fault.counts if c.failing]
        named = [c for c in counts if c.law == fault.law]
        hits = ", ".join(f"{c.failing}/{c.examples} {c.dtype}" for c in named) or "NOT REJECTED"
        others = [law.partition(".")[2] for law in fault.rejected_by if law != fault.law]
        table.add_row(
            escape(fault.fault),
            escape(f"{fault.law.partition('.')[2]} {hits}"),
            escape(", ".join(others)),
        )
    console.print(table)
    rejected = sum(bool(fault.rejected_by) for fault in score.faults)
    lines = [*score.problems, f"{rejected} of {len(score.faults)} faults rejected"]
    for line in lines:
        print_line(console, line)


def _table(console: Console, *columns: str) -> Table:
    table = Table(box=SIMPLE if console.is_terminal else ASCII2)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
