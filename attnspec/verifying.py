"""What `attnspec verify` and `attnspec score` do: choices checked, work done, reports written."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pebble import ProcessExpired
from rich.console import Console

from attnspec import choices
from attnspec.cases import check_folder, with_cases
from attnspec.crew import Crew
from attnspec.devices import devices_of
from attnspec.driving import Effort
from attnspec.files import as_json, as_junit, check_writable, json_text, written
from attnspec.impls.targets import KNOWN_TO_FAIL, TARGETS
from attnspec.isolated import OutOfTime, last_lines, tried
from attnspec.judging import LawError
from attnspec.known import Entry, known_failures, known_text, unmatched, with_known
from attnspec.limits import Limits
from attnspec.listing import print_score
from attnspec.loading import Loaded, load, missing
from attnspec.outcome import Run
from attnspec.progress import bar
from attnspec.report import (
    print_comparison,
    print_failures,
    print_line,
    print_problems,
    print_run,
)
from attnspec.runner import Selection
from attnspec.score import score_json, scored
from attnspec.sequence import runs_of
from attnspec.usage import UsageError

CASES = Path(".attnspec", "cases")
HTML_NEEDS = {"jinja2": "jinja2", "matplotlib": "matplotlib"}


@dataclass(frozen=True)
class Request:
    """What the command line was given."""

    targets: tuple[str, ...] = ()
    every: bool = False
    components: tuple[str, ...] = ()
    laws: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    tier: str = "full"
    examples: int | None = None
    seed: int = 0
    workers: int = 1
    """Processes that targets run in; 0 for this one."""
    call_limit: float = Limits.call
    memory_limit: float | None = None
    time_limit: float | None = None
    """Seconds for all of it."""
    cases: Path = CASES
    """The folder of the failing calls."""
    known_file: Path | None = None
    write_known_file: Path | None = None
    json_file: Path | None = None
    junit_file: Path | None = None
    html_file: Path | None = None


def verified(console: Console, request: Request) -> int:
    """Run, print, write; the exit status. Raises UsageError before anything runs."""
    selection = Selection(
        choices.known_components(request.components),
        tuple(law.id for law in choices.known_laws(request.laws)) if request.laws else (),
        choices.known_dtypes(request.dtypes),
        choices.known_devices(request.devices),
    )
    effort = Effort(request.seed, choices.known_tier(request.tier), request.examples or 0)
    for path in _files(request):
        if path is not None:
            check_writable(path)
    entries = known_failures(request.known_file) if request.known_file else ()
    check_folder(request.cases)
    deadline = time.monotonic() + request.time_limit if request.time_limit else None
    limits = Limits(request.call_limit, request.memory_limit or 0.0)
    with contextlib.ExitStack() as stack:
        crew = stack.enter_context(Crew(request.workers, limits)) if request.workers else None
        loaded, skipped = _loaded(request, crew)
        loaded = [t for t in loaded if _has_devices(t, selection, skipped, every=request.every)]
        told = runs_of(loaded, selection, effort, crew, deadline)
        runs, stopped = _told(console, request, told, entries, selection)
    known = KNOWN_TO_FAIL if request.every else {}
    if len(runs) > 1 or skipped:
        print_comparison(console, runs, skipped, known)
    _write(request, runs, entries, skipped)
    return 2 if stopped else _exit_status(runs, known)


def _told(
    console: Console,
    request: Request,
    found: Iterator[Run],
    entries: Sequence[Entry],
    selection: Selection,
) -> tuple[list[Run], bool]:
    """The runs as they come, each printed, and whether they were stopped before the last."""
    runs: list[Run] = []
    seen: set[Entry] = set()
    today = datetime.datetime.now(tz=datetime.UTC).date()
    try:
        for bare in found:
            result, matched = with_known(bare, entries, selection, today)
            result = with_cases(result, request.cases)
            seen |= matched
            if request.every:
                print_failures(console, result)
                if not result.outcomes:
                    continue
            else:
                print_run(console, result)
            runs.append(result)
            if result.interrupted:
                return runs, True
    except (KeyboardInterrupt, OutOfTime) as error:
        # of several targets at a time: what is known by then is printed and written
        by = "its time limit" if isinstance(error, OutOfTime) else "Ctrl-C"
        print_line(console, f"Ended by {by}: this is what was known by then.", "yellow")
        return runs, True
    if runs:
        runs[-1] = _with_problems(console, runs[-1], unmatched(entries, seen, selection))
    return runs, False


def _loaded(request: Request, crew: Crew | None) -> tuple[list[Loaded], dict[str, str]]:
    if request.every and request.targets:
        raise UsageError("give targets or --all, not both")
    if not request.every:
        if not request.targets:
            raise UsageError("no target given; `attnspec targets` lists the built-in ones")
        return [_tried(name, crew) for name in request.targets], {}
    loaded, skipped = [], {}
    for name in TARGETS:
        try:
            loaded.append(load(name))
        except UsageError as error:
            skipped[name] = str(error)
    return loaded, skipped


def _tried(given: str, crew: Crew | None) -> Loaded:
    """The target, once a worker has loaded it and lives: to import it may end a process."""
    if crew is not None:
        try:
            crew.submit(tried, given).result()
        except ProcessExpired as error:
            end = crew.end(error)
            last = "\n".join(last_lines(end.left.output))
            raise UsageError(f"importing {given} {end.says}\n{last}".strip()) from error
    return load(given)


def _has_devices(
    target: Loaded, selection: Selection, skipped: dict[str, str], *, every: bool
) -> bool:
    """Whether the chosen devices are present for a target's arrays. Raises UsageError if not,
    unless all targets were asked for: then the others can do without this one."""
    try:
        devices_of(target, selection.devices)
    except UsageError as error:
        if not every:
            raise
        skipped[target.name] = str(error)
        return False
    return True


def _with_problems(console: Console, result: Run, problems: tuple[str, ...]) -> Run:
    """The last run, with entries that match nothing in any, which are told."""
    print_problems(console, problems)
    return replace(result, problems=(*result.problems, *problems))


def _files(request: Request) -> tuple[Path | None, ...]:
    """Those to write. Raises UsageError if what writes one of them is not installed."""
    if request.html_file is not None and (lacking := missing(HTML_NEEDS)):
        raise UsageError(
            f"--html needs {', '.join(lacking)}, which is not installed: "
            "pip install 'attnspec[docs]'"
        )
    return (request.json_file, request.junit_file, request.html_file, request.write_known_file)


def _write(
    request: Request, runs: Sequence[Run], entries: Sequence[Entry], skipped: Mapping[str, str]
) -> None:
    if request.write_known_file is not None:
        written(request.write_known_file, known_text(runs, entries))
    if request.json_file is not None:
        objects: list[dict[str, Any]] = [as_json(result) for result in runs]
        single = len(request.targets) == 1
        written(request.json_file, json_text(objects[0] if single else {"runs": objects}))
    if request.junit_file is not None:
        written(request.junit_file, as_junit(runs))
    if request.html_file is not None:
        from attnspec.html_report import as_html

        written(request.html_file, as_html(runs, skipped))


def _exit_status(runs: Sequence[Run], known: Mapping[str, str]) -> int:
    """The worst of all; a target that is known to fail must fail."""
    statuses = [
        0
        if result.exit_status == 1 and result.target in known
        else 1
        if result.exit_status == 0 and result.target in known
        else result.exit_status
        for result in runs
    ]
    if any(result.interrupted for result in runs):
        return 2
    return 1 if 1 in statuses else max(statuses, default=2)


def scored_exit(
    console: Console,
    *,
    only: tuple[str, ...],
    every_law: bool,
    tier: str,
    examples: int | None,
    seed: int,
    workers: int,
    json_file: Path | None,
) -> int:
    """Score, print, write; the exit status. Raises UsageError."""
    effort = Effort(seed, choices.known_tier(tier), examples or 0)
    if json_file is not None:
        check_writable(json_file)
    try:
        with bar("score") as told:
            score = scored(only, effort, every_law=every_law, workers=workers, progress=told)
    except LawError as error:
        raise UsageError(f"a mistake of the suite: {error}") from error
    print_score(console, score)
    if json_file is not None:
        written(json_file, json_text(score_json(score, effort)))
    return 1 if score.problems else 0
