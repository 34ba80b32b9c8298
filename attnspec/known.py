"""Known failures: a file of laws that a target is known to break, each under its conditions.

An entry whose law fails is `known`, and does not fail the run. One that has expired, no longer
fails, or matches nothing that the run judges, fails it: a list of excuses that nobody reads grows.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import tomli_w
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from attnspec.choices import known_components, known_devices, known_dtypes, known_laws
from attnspec.outcome import Outcome, Run
from attnspec.runner import Selection
from attnspec.usage import UsageError, unknown

HEAD = """\
# Laws that a target is known to break, for `attnspec verify TARGET --known FILE`. Each entry needs
# its `law`; `target`, `component`, `dtype`, `device` and `versions` (of Python packages, as in
# {torch = ">=2.4,<2.9"}) say where it is known to fail, `link` why. It fails the run after the day
# `expires`, when its law no longer fails, and when it matches nothing.

"""


@dataclass(frozen=True, eq=False)
class Entry:
    """One known failure. An empty condition holds everywhere."""

    law: str
    target: str = ""
    component: str = ""
    dtype: str = ""
    device: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Names of distributions to the versions at which it fails."""
    link: str = ""
    reason: str = ""
    expires: datetime.date | None = None
    """The last day on which it counts."""

    @property
    def called(self) -> str:
        """It in a few words."""
        where = [w for w in (self.target, self.dtype, self.device) if w]
        return f"{self.law} ({', '.join(where)})" if where else self.law

    def matches(self, target: str, outcome: Outcome) -> bool:
        """Whether it speaks of this law on this dtype and device of a target."""
        return (
            self.law == outcome.law
            and self.target in ("", target)
            and self.dtype in ("", outcome.dtype)
            and self.device in ("", outcome.device, outcome.device.partition(":")[0])
        )

    def selected(self, selection: Selection) -> bool:
        """Whether a run with this selection could judge it."""
        return (
            (not selection.laws or self.law in selection.laws)
            and (not selection.components or self.law.split(".")[0] in selection.components)
            and (not selection.dtypes or not self.dtype or self.dtype in selection.dtypes)
            and (not selection.devices or not self.device or self.device in selection.devices)
        )


def known_failures(path: Path) -> tuple[Entry, ...]:
    """The entries of a file. Raises UsageError, with the place and what is allowed, for a file
    that cannot be read or says something that does not exist."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no TOML file: {error}") from error
    rows = content.pop("known", [])
    if content or not isinstance(rows, list):
        names = ", ".join(content) or "a table 'known'"
        raise UsageError(f"{path} has {names}; expected entries under [[known]] alone")
    return tuple(_entry(row, f"{path}, entry {n}") for n, row in enumerate(rows, 1))


def _entry(row: Any, place: str) -> Entry:
    names = [f.name for f in fields(Entry)]
    for name in row:
        if name not in names:
            raise UsageError(f"{place}: {unknown('field', name, names)}")
    if not isinstance(row.get("law"), str):
        raise UsageError(f"{place}: expected `law`, the id of a law; got {row.get('law')!r}")
    for name, value in row.items():
        if name not in ("versions", "expires") and not isinstance(value, str):
            raise UsageError(f"{place}: {name} is {value!r}; expected a string")
    found = Entry(**row)
    try:
        (law,) = known_laws([found.law])
        known_components([found.component] if found.component else [])
        known_dtypes([found.dtype] if found.dtype else [])
        known_devices([found.device] if found.device else [])
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from error
    if found.component not in ("", law.component):
        raise UsageError(
            f"{place}: component is {found.component!r}, but {law.id} is a law of {law.component}"
        )
    expires = found.expires
    if isinstance(expires, datetime.datetime) or not isinstance(
        expires, (datetime.date, type(None))
    ):
        raise UsageError(f"{place}: expires is {expires!r}; expected a date such as 2027-01-31")
    _check_versions(found.versions, place)
    return found


def _check_versions(versions: Any, place: str) -> None:
    expected = 'expected a table such as {torch = ">=2.4,<2.9"}'
    if not isinstance(versions, Mapping):
        raise UsageError(f"{place}: versions is {versions!r}; {expected}")
    for name, wanted in versions.items():
        try:
            SpecifierSet(wanted)
        except (InvalidSpecifier, AttributeError, TypeError) as error:
            raise UsageError(f"{place}: versions has {name} = {wanted!r}; {expected}") from error


def with_known(
    run: Run, entries: Sequence[Entry], selection: Selection, today: datetime.date
) -> tuple[Run, frozenset[Entry]]:
    """The run with those of its failures marked as known that entries match, the problems of
    entries told, and the entries that matched any of its laws."""
    active = [e for e in entries if e.selected(selection) and _installed(e.versions)]
    current = [e for e in active if e.expires is None or e.expires >= today]
    outcomes = tuple(_marked(run.target, o, current) for o in run.outcomes)
    found: dict[Entry, list[Outcome]] = {
        e: [o for o in run.outcomes if e.matches(run.target, o)] for e in active
    }
    problems = []
    for entry, matched in found.items():
        statuses = {o.status for o in matched}
        if entry not in current and matched:
            problems.append(f"{entry.called} has expired on {entry.expires}")
        elif "pass" in statuses and "fail" not in statuses and not run.interrupted:
            problems.append(f"{entry.called} no longer fails: take the entry out")
    seen = frozenset(entry for entry, matched in found.items() if matched)
    return replace(run, outcomes=outcomes, problems=(*run.problems, *problems)), seen


def unmatched(
    entries: Iterable[Entry], seen: Iterable[Entry], selection: Selection
) -> tuple[str, ...]:
    """What is wrong with entries that matched nothing in any of the runs."""
    matched = set(seen)
    return tuple(
        f"{entry.called} matches nothing that was judged: take the entry out"
        for entry in entries
        if entry not in matched and entry.selected(selection) and _installed(entry.versions)
    )


def _marked(target: str, outcome: Outcome, current: Sequence[Entry]) -> Outcome:
    if outcome.status != "fail":
        return outcome
    entry = next((e for e in current if e.matches(target, outcome)), None)
    if entry is None:
        return outcome
    why = " ".join(part for part in (entry.reason, entry.link) if part)
    return replace(outcome, status="known", known=why or "known to fail")


def _installed(versions: Mapping[str, str]) -> bool:
    """Whether the installed distributions have versions as these."""
    for name, wanted in versions.items():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return False
        if not SpecifierSet(wanted, prereleases=True).contains(version):
            return False
    return True


def known_text(runs: Sequence[Run], earlier: Sequence[Entry]) -> str:
    """A file of everything that fails in these runs, known before or not. Entries of before that
    still match are kept as they are."""
    rows: list[dict[str, Any]] = []
    kept: list[Entry] = []
    for run in runs:
        for outcome in (o for o in run.outcomes if o.status in ("fail", "known")):
            before = [e for e in earlier if e.matches(run.target, outcome)]
            kept += [e for e in before[:1] if e not in kept]
            if not before:
                rows.append({
                    "law": outcome.law,
                    **({"target": run.target} if len(runs) > 1 else {}),
                    "dtype": outcome.dtype,
                    "device": outcome.device,
                    "reason": outcome.reason,
                })  # fmt: skip
    return HEAD + tomli_w.dumps({"known": [*map(_row, kept), *rows]})


def _row(entry: Entry) -> dict[str, Any]:
    return {f.name: value for f in fields(entry) if (value := getattr(entry, f.name))}
