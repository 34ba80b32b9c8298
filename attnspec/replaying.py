"""`attnspec replay`: a stored failing call made again, and what has become of the failure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pebble import ProcessExpired
from rich.console import Console

from attnspec.cases import Case, case_of, versions_here
from attnspec.crew import Crew
from attnspec.devices import devices_of, one_thread
from attnspec.driving import out_of_reach
from attnspec.isolated import last_lines, loaded_here
from attnspec.judging import LawError, judged
from attnspec.limits import Limits
from attnspec.loading import Loaded
from attnspec.made import shown
from attnspec.message import failure_text, summary
from attnspec.oracle.law import Law
from attnspec.report import print_line
from attnspec.subject import Subject
from attnspec.usage import UsageError

if TYPE_CHECKING:
    from pebble import ProcessFuture

State = Literal["fixed", "still failing", "could not run"]
STYLES: Mapping[State, str] = {
    "fixed": "green", "still failing": "bold red", "could not run": "yellow",
}  # fmt: skip
STATUS: Mapping[State, int] = {"fixed": 0, "still failing": 1, "could not run": 2}


@dataclass(frozen=True)
class Found:
    """What became of a failure. Plain data: it crosses processes."""

    state: State
    says: str
    text: str = ""


def replayed(
    console: Console, paths: Sequence[Path], target: str, workers: int, limits: Limits
) -> int:
    """Make the calls of stored cases again, of their own targets or another; the exit status: 0
    all are fixed, 1 one still fails, 2 one could not run. Raises UsageError for a file that is
    none."""
    if not paths:
        raise UsageError("no file given; `attnspec verify` stores failing calls, and says where")
    cases = [case_of(path) for path in paths]
    calls = [(path, _given(case, path, target)) for path, case in zip(paths, cases, strict=True)]
    if workers:
        with Crew(workers, limits) as crew:
            futures = [crew.submit(_work, *call) for call in calls]
            found = [_answer(crew, future) for future in futures]
    else:
        found = [_work(*call) for call in calls]
    for case, (_, given), told in zip(cases, calls, found, strict=True):
        _print(console, case, given, told)
    statuses = {STATUS[told.state] for told in found}
    return 1 if 1 in statuses else max(statuses)


def _given(case: Case, path: Path, target: str) -> str:
    if not target and not case.target:
        raise UsageError(
            f"{path} is a case of an object from Python, which cannot be found again: give "
            "--target TARGET"
        )
    return target or case.target


def _print(console: Console, case: Case, given: str, found: Found) -> None:
    if found.text:
        print_line(console, found.text)
    for name, (then, now) in changed(case).items():
        print_line(console, f"{name} was {then or 'not there'}, is {now or 'not there'}")
    told = f"{case.law} of {given} in {case.dtype} on {case.device}: {found.state}"
    print_line(console, f"{told}, {found.says}" if found.says else told, STYLES[found.state])


def changed(case: Case) -> dict[str, tuple[str, str]]:
    """Versions that are others than when the case was stored."""
    here = versions_here(*case.versions)
    return {
        name: (case.versions.get(name, ""), here.get(name, ""))
        for name in (*case.versions, *here)
        if case.versions.get(name, "") != here.get(name, "")
    }


def outcome_of_case(case: Case, loaded: Loaded, path: Path) -> Found:
    """What the law of the case in the file `path` says today of its call, made of this target."""
    law = _law(case.law)
    if law is None:
        return Found("could not run", f"this version has no law {case.law}")
    if law.component not in loaded.components:
        return Found("could not run", f"{loaded.name} has no {law.component}")
    try:
        devices_of(loaded, (case.device,))
    except UsageError as error:
        return Found("could not run", str(error))
    subject = Subject(loaded, law.component, case.dtype, case.device)
    if reason := subject.signature.problem:
        return Found("still failing", reason)
    if reason := out_of_reach(law, subject) or _unanswerable(case, subject):
        return Found("could not run", reason)
    try:
        with one_thread(loaded):
            return _found(case, law, subject, path)
    except LawError as error:
        return Found("could not run", f"the law itself went wrong: {error}")


def _found(case: Case, law: Law, subject: Subject, path: Path) -> Found:
    with subject.diary.kept() as made:
        judgement = judged(law, subject, case.inputs)
    if judgement.declined:
        return Found("could not run", f"the target declines the call: {judgement.breach}")
    if not judgement.fails:
        share = judgement.ratio
        return Found("fixed", "" if share is None else f"{share:.2g} of the allowance")
    calls = shown(case.inputs, made, breach=judgement.breach is not None)
    arrays = subject.loaded.declaration.arrays
    again = shlex.join(["attnspec", "replay", str(path)])
    text = failure_text(law, case.inputs, judgement, (), again, arrays=arrays, calls=calls)
    return Found("still failing", summary(judgement), text)


def _law(identity: str) -> Law | None:
    from attnspec.oracle import LAWS

    return next((law for law in LAWS if law.id == identity), None)


def _unanswerable(case: Case, subject: Subject) -> str:
    """Why the call cannot be made of this target; empty where it can."""
    inputs = case.inputs
    if case.dtype not in subject.loaded.dtypes_of(subject.component):
        return f"{subject.loaded.name} has no {case.dtype}"
    keywords = [name for name in subject.row.keywords if name in inputs.arrays]
    for option in (*inputs.options, *keywords):
        if not subject.accepts(option):
            return f"{subject.component} does not accept {option}"
    return (
        ""
        if subject.legal(inputs)
        else f"the call is outside of the limits of {subject.loaded.name}"
    )


def _answer(crew: Crew, future: ProcessFuture[Found]) -> Found:
    """What a worker process says; its end is an answer, too."""
    try:
        return future.result()
    except ProcessExpired as error:
        end = crew.end(error)
        where = "" if end.left.running > 0.0 else ", outside of its calls"
        text = "\n".join(last_lines(end.left.output))
        return Found("still failing", f"it {end.says}{where}", text)


def _work(path: Path, given: str) -> Found:
    try:
        loaded = loaded_here(given)
    except UsageError as error:
        return Found("could not run", str(error))
    return outcome_of_case(case_of(path), loaded, path)
