"""A whole run: every law that applies to a target, on each dtype and device, in a fixed order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from attnspec import __version__
from attnspec.cases import versions_here
from attnspec.crew import Crew
from attnspec.devices import device_settings, devices_of, one_thread
from attnspec.driving import Effort, outcome_of
from attnspec.isolated import OutOfTime, Task, outcomes
from attnspec.loading import Loaded, kind_of
from attnspec.oracle.law import Law
from attnspec.outcome import Outcome, Run
from attnspec.shares import settled, untested


@dataclass(frozen=True)
class Selection:
    """What to run; an empty field selects everything."""

    components: tuple[str, ...] = ()
    laws: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


Progress = Callable[[Outcome, int, int], None]
"""Told every outcome as it comes, how many are known now, and how many there will be."""


@dataclass
class Plan:
    """What a run will do."""

    tasks: list[Task] = field(default_factory=list)
    absent: list[Outcome] = field(default_factory=list)
    """Outcomes known beforehand: of devices that are not present."""


def all_laws() -> tuple[Law, ...]:
    """The hand-written table of laws."""
    from attnspec.oracle import LAWS

    return LAWS


def planned(loaded: Loaded, selection: Selection, laws: Sequence[Law]) -> Plan:
    """The tasks in their order: by law, then dtype, then device."""
    plan = Plan()
    present, absent = devices_of(loaded, selection.devices)
    for law in laws:
        if law.component not in loaded.components:
            continue
        if selection.components and law.component not in selection.components:
            continue
        if selection.laws and law.id not in selection.laws:
            continue
        for dtype in _dtypes(loaded, law.component, selection.dtypes):
            plan.tasks += [Task(law.id, dtype, device) for device in present]
            plan.absent += [
                Outcome(law.id, law.component, dtype, device, "not-tested", reason=reason)
                for device, reason in absent.items()
            ]
    return plan


def _dtypes(loaded: Loaded, component: str, selected: tuple[str, ...]) -> tuple[str, ...]:
    """Those on which a component is judged: the selected ones, of its own kind."""
    kind = kind_of(component)
    return tuple(d for d in selected if d in kind) if selected else loaded.dtypes_of(component)


def run(
    loaded: Loaded,
    selection: Selection = Selection(),
    effort: Effort = Effort(),  # noqa: B008
    *,
    crew: Crew | None = None,
    deadline: float | None = None,
    progress: Progress | None = None,
) -> Run:
    """Judge a target, in the worker processes of a crew or else in this one. Ctrl-C gives a run
    that is marked as interrupted, with what is known; so does a deadline, a moment of the
    monotonic clock."""
    laws = all_laws()
    plan = planned(loaded, selection, laws)
    found: list[Outcome] = []
    ended_by = ""
    try:
        for outcome in _results(loaded, plan.tasks, effort, crew, laws, deadline):
            found.append(outcome)
            if progress is not None:
                progress(outcome, len(found), len(plan.tasks))
    except KeyboardInterrupt:
        ended_by = "Ctrl-C"
    except OutOfTime:
        ended_by = "its time limit"
    narrowed = bool(selection.dtypes or selection.devices)
    with one_thread(loaded):
        settings = device_settings(loaded, [task.device for task in plan.tasks])
    rest = [task.left_out(f"not run: {ended_by} came first") for task in plan.tasks[len(found) :]]
    # what was not run says nothing of the others
    final = settled(loaded, [*found, *plan.absent], laws, narrowed=narrowed)
    return Run(
        target=loaded.name,
        version=__version__,
        seed=effort.seed,
        tier=effort.tier,
        outcomes=(*final, *rest),
        untested=untested(loaded, final, selection.components, selection.dtypes),
        settings=settings,
        given=loaded.given,
        versions=versions_here(*loaded.declaration.requires.values()),
        interrupted=bool(ended_by),
        ended_by=ended_by,
    )


def _results(
    loaded: Loaded,
    tasks: list[Task],
    effort: Effort,
    crew: Crew | None,
    laws: Sequence[Law],
    deadline: float | None,
) -> Iterator[Outcome]:
    if crew is not None and loaded.given:
        yield from outcomes(loaded, tasks, effort, crew, laws, deadline)
        return
    by_id = {law.id: law for law in laws}
    for task in tasks:
        if deadline is not None and time.monotonic() > deadline:
            raise OutOfTime
        yield outcome_of(by_id[task.law], loaded, task.dtype, task.device, effort)
