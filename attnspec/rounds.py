"""Tier `deep` by time: rounds from one fresh seed after another, until the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from attnspec.driving import EXAMPLES, Effort
from attnspec.oracle.precision import PRESETS
from attnspec.outcome import Outcome, Run

Round = Callable[[Effort], Run]


def rounds(once: Round, effort: Effort, deadline: float) -> Run:
    """What rounds find together: of each law the first failure, or else all its examples. The
    first takes the effort's seed and each further one the next, with the examples of tier `full`
    unless the effort says how many. A round that the deadline ends adds what it found; only if the
    first does not end is the run an interrupted one."""
    many = effort.examples or EXAMPLES["full"]
    total = once(replace(effort, examples=many))
    seed = effort.seed
    while not total.interrupted and time.monotonic() < deadline:
        seed += 1
        found = once(replace(effort, examples=many, seed=seed))
        total = added(total, found)
        if found.interrupted and found.ended_by == "Ctrl-C":
            return replace(total, interrupted=True, ended_by=found.ended_by)
        if found.interrupted:
            break
    return total


def added(total: Run, found: Run) -> Run:
    """The run with what a further round found."""
    further = {(o.law, o.dtype, o.device): o for o in found.outcomes}
    pairs = [(o, further.get((o.law, o.dtype, o.device))) for o in total.outcomes]
    return replace(total, outcomes=tuple(_added(o, other) for o, other in pairs))


def _added(outcome: Outcome, other: Outcome | None) -> Outcome:
    if other is None or not other.examples:
        return outcome
    if not outcome.examples:
        return other
    kept = other if other.status == "fail" and outcome.status != "fail" else outcome
    if kept.status == "not-tested" and other.status == "pass":
        kept = other
    ratios = [o.ratio for o in (outcome, other) if o.ratio is not None]
    met = [o.preset for o in (outcome, other) if o.preset]
    return replace(
        kept,
        examples=outcome.examples + other.examples,
        failing=outcome.failing + other.failing,
        ratio=max(ratios, default=None),
        held=outcome.held + other.held,
        watched=outcome.watched + other.watched,
        declined=outcome.declined + other.declined,
        calls=outcome.calls + other.calls,
        answered=outcome.answered + other.answered,
        # what one of them did not meet, they do not meet
        preset=min(met, key=list(PRESETS).index) if len(met) == 2 else "",
    )
