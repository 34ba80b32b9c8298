"""A whole run: every law that applies to a target, on each dtype and device, in a fixed order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field

from attnspec import __version__
from attnspec.devices import device_settings, devices_of, one_thread
from attnspec.driving import Effort, outcome_of
from attnspec.loading import Loaded, kind_of, load
from attnspec.oracle.law import Law
from attnspec.outcome import Outcome, Run
from attnspec.processes import results
from attnspec.shares import settled, untested
from attnspec.usage import UsageError


@dataclass(frozen=True)
class Selection:
    """What to run; an empty field selects everything."""

    components: tuple[str, ...] = ()
    laws: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """One law on one dtype and device: a unit of work that crosses processes."""

    law: str
    dtype: str
    device: str


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
    workers: int = 1,
    progress: Progress | None = None,
) -> Run:
    """Judge a target. Ctrl-C gives a run that is marked as interrupted, with what is known.

    Raises UsageError if there are several workers and the target is an object, which cannot be
    loaded again in another process.
    """
    laws = all_laws()
    plan = planned(loaded, selection, laws)
    outcomes: list[Outcome] = []
    interrupted = False
    try:
        for outcome in _results(loaded, plan.tasks, effort, workers, laws):
            outcomes.append(outcome)
            if progress is not None:
                progress(outcome, len(outcomes), len(plan.tasks))
    except KeyboardInterrupt:
        interrupted = True
    narrowed = bool(selection.dtypes or selection.devices)
    with one_thread(loaded):
        settings = device_settings(loaded, [task.device for task in plan.tasks])
    final = settled(loaded, [*outcomes, *plan.absent], laws, narrowed=narrowed)
    return Run(
        target=loaded.name,
        version=__version__,
        seed=effort.seed,
        tier=effort.tier,
        outcomes=final,
        untested=untested(loaded, final, selection.components, selection.dtypes),
        settings=settings,
        interrupted=interrupted,
    )


def _results(
    loaded: Loaded, tasks: list[Task], effort: Effort, workers: int, laws: Sequence[Law]
) -> Iterator[Outcome]:
    if workers > 1 and len(tasks) > 1:
        if not loaded.given:
            raise UsageError("several workers need a target that they can load by its name")
        yield from _in_parallel(loaded, tasks, effort, workers)
        return
    by_id = {law.id: law for law in laws}
    for task in tasks:
        yield outcome_of(by_id[task.law], loaded, task.dtype, task.device, effort)


def _in_parallel(
    loaded: Loaded, tasks: list[Task], effort: Effort, workers: int
) -> Iterator[Outcome]:
    position = 0
    while position < len(tasks):
        calls = [(task, effort) for task in tasks[position:]]
        try:
            with results(_work, calls, workers, _start, (loaded.given,)) as futures:
                for future in futures:
                    yield future.result()
                    position += 1
            return
        except BrokenProcessPool:
            # one task alone tells whether it is the one that ends the process
            yield _alone(loaded, tasks[position], effort)
            position += 1


def _alone(loaded: Loaded, task: Task, effort: Effort) -> Outcome:
    try:
        with results(_work, [(task, effort)], 1, _start, (loaded.given,)) as (future,):
            return future.result()
    except BrokenProcessPool:
        component = task.law.partition(".")[0]
        return Outcome(
            task.law, component, task.dtype, task.device, "fail",
            reason="the process ended while this law ran: the target crashes",
        )  # fmt: skip


_LOADED: list[Loaded] = []


def _start(given: str) -> None:
    _LOADED[:] = [load(given)]


def _sick(device: str) -> bool:
    """Whether an earlier call left the device in an error that only a new process ends."""
    import torch

    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        return True
    return False


def _work(task: Task, effort: Effort) -> Outcome:
    if task.device != "cpu" and _sick(task.device):
        os._exit(1)
    law = next(law for law in all_laws() if law.id == task.law)
    return outcome_of(law, _LOADED[0], task.dtype, task.device, effort)
