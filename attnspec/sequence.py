"""Runs of several targets: one after the other, or each whole in a process that others share."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

from pebble import ProcessExpired

from attnspec.crew import Crew
from attnspec.driving import Effort
from attnspec.isolated import OutOfTime, loaded_here, remaining
from attnspec.loading import Loaded
from attnspec.outcome import Outcome, Run
from attnspec.progress import bar
from attnspec.rounds import rounds
from attnspec.runner import Selection, run


def runs_of(
    targets: Sequence[Loaded],
    selection: Selection,
    effort: Effort,
    crew: Crew | None = None,
    deadline: float | None = None,
) -> Iterator[Run]:
    """A run of each target, in their order, each as it comes. One target is spread over all
    workers of the crew; of several each worker takes one at a time, as it takes longer to start a
    process than to judge a small target, and OutOfTime is raised between two of them once the
    monotonic clock is past the deadline; a single one has its run with what is known. In tier
    `deep` with a deadline each has rounds until its share of the time is over."""
    by_time = effort.deep and deadline is not None
    if crew is not None and crew.workers > 1 and len(targets) > 1 and not by_time:
        yield from _side_by_side(targets, selection, effort, crew, deadline)
        return
    for done, target in enumerate(targets):
        if deadline is None or not by_time:
            yield _alone(target, selection, effort, crew=crew, deadline=deadline)
            continue
        # each has its share of the time
        until = time.monotonic() + (remaining(deadline) or 0.0) / (len(targets) - done)
        once = partial(_alone, target, selection, crew=crew, deadline=until)
        yield rounds(once, effort, until)


def _side_by_side(
    targets: Sequence[Loaded],
    selection: Selection,
    effort: Effort,
    crew: Crew,
    deadline: float | None,
) -> Iterator[Run]:
    with bar("targets") as told:
        futures = [crew.submit(_whole, target.given, selection, effort) for target in targets]
        for done, (target, future) in enumerate(zip(targets, futures, strict=True)):
            told(target.name, done, len(targets))
            try:
                yield future.result(timeout=remaining(deadline))
            except ProcessExpired:
                # law by law the target costs no more than a law
                yield run(target, selection, effort, crew=crew, deadline=deadline)
            except TimeoutError as error:
                if future.done():
                    raise
                raise OutOfTime from error


def _whole(given: str, selection: Selection, effort: Effort) -> Run:
    return run(loaded_here(given), selection, effort)


def _alone(
    target: Loaded,
    selection: Selection,
    effort: Effort,
    *,
    crew: Crew | None,
    deadline: float | None,
) -> Run:
    with bar(target.name) as told:
        return run(
            target,
            selection,
            effort,
            crew=crew,
            deadline=deadline,
            progress=lambda outcome, done, total: told(_label(outcome), done, total),
        )


def _label(outcome: Outcome) -> str:
    return f"{outcome.law} {outcome.dtype}"
