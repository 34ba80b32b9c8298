"""Runs of several targets: one after the other, or each whole in a process that others share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool

from attnspec.driving import Effort
from attnspec.loading import Loaded, load
from attnspec.outcome import Outcome, Run
from attnspec.processes import results
from attnspec.progress import bar
from attnspec.runner import Selection, all_laws, run


def runs_of(
    targets: Sequence[Loaded], selection: Selection, effort: Effort, workers: int
) -> Iterator[Run]:
    """A run of each target, in their order, each as it comes. One target is spread over all
    workers; of several, which are found by their names, each worker takes one at a time, as it
    takes longer to start a process than to judge a small target."""
    if workers > 1 and len(targets) > 1 and all(target.given for target in targets):
        yield from _side_by_side(targets, selection, effort, workers)
        return
    for target in targets:
        yield _alone(target, selection, effort, workers)


def _side_by_side(
    targets: Sequence[Loaded], selection: Selection, effort: Effort, workers: int
) -> Iterator[Run]:
    done = 0
    with bar("targets") as told:
        while done < len(targets):
            calls = [(target.given, selection, effort) for target in targets[done:]]
            try:
                with results(_whole, calls, workers, all_laws) as futures:
                    for future in futures:
                        told(targets[done].name, done, len(targets))
                        yield future.result()
                        done += 1
            except BrokenProcessPool:
                # a target ended its process, perhaps this one: law by law that costs no more than
                # a law
                yield run(targets[done], selection, effort, workers=workers)
                done += 1


def _whole(given: str, selection: Selection, effort: Effort) -> Run:
    return run(load(given), selection, effort)


def _alone(target: Loaded, selection: Selection, effort: Effort, workers: int) -> Run:
    with bar(target.name) as told:
        return run(
            target,
            selection,
            effort,
            workers=workers,
            progress=lambda outcome, done, total: told(_label(outcome), done, total),
        )


def _label(outcome: Outcome) -> str:
    return f"{outcome.law} {outcome.dtype}"
