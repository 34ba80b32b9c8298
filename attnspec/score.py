"""How good the suite is: its laws on every wrong implementation, and on the reference.

A fault must be rejected by the law that it names and by every law that says so; a law must not
reject what it calls itself blind to, nor the reference. The other laws of the component are
driven only when all are asked for: that is some forty times the work. Over the whole catalogue a
law is done with a fault that it has rejected a few times; of faults that are named, or where every
law is asked for, every example counts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from attnspec import __version__
from attnspec.catalogue import all_faults
from attnspec.devices import one_thread
from attnspec.driving import Effort, out_of_reach, outcome_of, scope_of, seed_of
from attnspec.impls.faults.fault import Fault
from attnspec.judging import judged
from attnspec.loading import Loaded, load
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.inputs import strategy
from attnspec.oracle.law import Law
from attnspec.oracle.precision import INDEX_TYPES
from attnspec.outcome import Outcome
from attnspec.processes import results
from attnspec.runner import all_laws
from attnspec.search import sweep
from attnspec.subject import Subject
from attnspec.usage import UsageError, suggestion

T = TypeVar("T")

REFERENCE = "torch"
"""The built-in target that no law may reject."""
DTYPE = "float32"
"""Where a fault that shows in every dtype is looked for."""


@dataclass(frozen=True)
class Count:
    """In how many examples one law rejected one fault."""

    law: str
    dtype: str
    failing: int
    examples: int


@dataclass(frozen=True)
class FaultScore:
    """Which laws reject one fault."""

    fault: str
    component: str
    law: str
    """The law that must."""
    counts: tuple[Count, ...]
    problems: tuple[str, ...]

    @property
    def rejected_by(self) -> tuple[str, ...]:
        """Laws that reject it in any dtype, in the laws' order."""
        return tuple(dict.fromkeys(c.law for c in self.counts if c.failing))


@dataclass(frozen=True)
class Score:
    """All of them, and what the laws say of the reference."""

    faults: tuple[FaultScore, ...]
    false_alarms: tuple[str, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that isn't as the tables say."""
        return (*(p for fault in self.faults for p in fault.problems), *self.false_alarms)


Progress = Callable[[str, int, int], None]


def scored(
    only: Sequence[str] = (),
    effort: Effort = Effort(tier="smoke"),  # noqa: B008
    *,
    every_law: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> Score:
    """Score the suite on these faults, or on all of them and the reference. Raises UsageError
    for a fault that does not exist, LawError where a law itself goes wrong."""
    known = all_faults()
    for given in only:
        if given not in known:
            near = suggestion(given, known)
            raise UsageError(f"unknown fault {given!r};{near} `attnspec faults` lists them")
    chosen = [f for f in known if not only or f in only]
    whole = every_law or bool(only)
    work = functools.partial(fault_score, effort=effort, every_law=every_law, whole=whole)
    faults = []
    for score in _mapped(work, [(identity,) for identity in chosen], workers):
        faults.append(score)
        if progress is not None:
            progress(score.fault, len(faults), len(chosen))
    return Score(tuple(faults), () if only else _false_alarms(effort, workers))


def fault_score(
    identity: str, effort: Effort, *, every_law: bool = False, whole: bool = True
) -> FaultScore:
    """The laws that speak of a fault on it, or every law of its component; unless `whole`, each up
    to a few examples that it rejects."""
    fault = all_faults()[identity]
    loaded = load(f"fault:{identity}")
    laws = [
        law
        for law in all_laws()
        if law.component == fault.component
        and (every_law or law.id == fault.law or identity in (*law.rejects, *law.blind_to))
    ]
    counts = tuple(
        count
        for law in laws
        for dtype in dtypes_of(fault)
        if (count := _count(law, loaded, dtype, effort, whole=whole)) is not None
    )
    return FaultScore(
        identity, fault.component, fault.law, counts, _problems(identity, fault.law, laws, counts)
    )


def dtypes_of(fault: Fault) -> tuple[str, ...]:
    """The dtypes in which a fault is looked for."""
    usual = INDEX_TYPES[0] if COMPONENTS[fault.component].whole else DTYPE
    return fault.dtypes or (usual,)


def _count(law: Law, loaded: Loaded, dtype: str, effort: Effort, *, whole: bool) -> Count | None:
    subject = Subject(loaded, law.component, dtype)
    if out_of_reach(law, subject):
        return None
    judge = functools.partial(judged, law, subject)
    draws = strategy(law.inputs, scope_of(subject))
    seed = seed_of(effort, law, dtype, "cpu")
    with one_thread(loaded):
        swept = sweep(judge, draws, effort.count, seed, deep=effort.deep, whole=whole)
    return Count(law.id, dtype, swept.failing, swept.examples)


def _problems(
    identity: str, named: str, laws: Sequence[Law], counts: Sequence[Count]
) -> tuple[str, ...]:
    rejecting = {c.law for c in counts if c.failing}
    found = []
    if not rejecting:
        found.append(f"{identity} survives: no law rejects it")
    elif named not in rejecting:
        by = ", ".join(sorted(rejecting))
        found.append(f"{identity} is not rejected by {named}, which it names, but by {by}")
    for law in laws:
        if identity in law.rejects and law.id not in rejecting and law.id != named:
            found.append(f"{law.id} says that it rejects {identity}, and does not")
        if identity in law.blind_to and law.id in rejecting:
            found.append(f"{law.id} says that it is blind to {identity}, and rejects it")
    return tuple(found)


def _false_alarms(effort: Effort, workers: int) -> tuple[str, ...]:
    loaded = load(REFERENCE)
    calls = [
        (law.id, dtype)
        for law in all_laws()
        if law.component in loaded.components
        for dtype in loaded.dtypes_of(law.component)
    ]
    judge = functools.partial(_of_reference, effort=effort)
    return tuple(
        f"{o.law} rejects the reference in {o.dtype}: {o.reason}"
        for o in _mapped(judge, calls, workers)
        if o.status == "fail" or o.error
    )


def _of_reference(identity: str, dtype: str, effort: Effort) -> Outcome:
    law = next(law for law in all_laws() if law.id == identity)
    return outcome_of(law, load(REFERENCE), dtype, "cpu", effort)


def _mapped(work: Callable[..., T], calls: Sequence[tuple[str, ...]], workers: int) -> Iterator[T]:
    """What the calls give, in their order, each as it comes."""
    if workers <= 1:
        yield from (work(*call) for call in calls)
        return
    with results(work, calls, workers, all_laws) as futures:
        for future in futures:
            yield future.result()


def score_json(score: Score, effort: Effort) -> dict[str, Any]:
    """The score as `--json` writes it."""
    return {
        "version": __version__,
        "seed": effort.seed,
        "tier": effort.tier,
        "faults": [
            {
                "id": fault.fault,
                "component": fault.component,
                "law": fault.law,
                "rejected_by": list(fault.rejected_by),
                "counts": [
                    {"law": c.law, "dtype": c.dtype, "failing": c.failing, "examples": c.examples}
                    for c in fault.counts
                ],
            }
            for fault in score.faults
        ],
        "problems": list(score.problems),
    }
