"""How often the suite complains about right implementations: it must not.

Every law of a target's components on drawn calls, without Hypothesis, which a plain count does
not need. One law on one call is one example. Whatever a target should not do counts as an alarm:
a ratio above 1, a result of another kind, an exception, a refusal; so does an error in a law.

    python -m bench.false_alarms --examples 50000 --seed 0
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from attnspec.driving import scope_of
from attnspec.judging import LawError, judged
from attnspec.loading import Loaded, load
from attnspec.message import summary
from attnspec.oracle.inputs import description, sampled, strategy
from attnspec.oracle.law import Law
from attnspec.oracle.precision import JUDGED_SHARE
from attnspec.runner import all_laws
from attnspec.search import stable_seed
from attnspec.subject import Subject
from bench.figures import Figure, printed, table

TARGETS = (
    "torch", "torch.online", "torch.complex", "torch.matrix", "torch.half", "torch.functional",
)  # fmt: skip
"""The references and torch's own functions: right by construction, or in everyone's use."""
EXAMPLES = 50_000
DEMANDED_ALARMS = 0
"""A suite that complains about right code teaches its users to ignore it."""
TOLD = 3
"""Alarms of one law that are described."""


@dataclass(frozen=True)
class Task:
    """The laws of one component of one target at one dtype, and how many calls each gets."""

    target: str
    component: str
    dtype: str
    laws: tuple[str, ...]
    calls: int
    seed: int


@dataclass
class Count:
    """What one law found in one target at one dtype."""

    target: str
    component: str
    law: str
    dtype: str
    drawn: int = 0
    compared: int = 0
    """Those in which something that is promised was compared: the examples."""
    alarms: int = 0
    ratio: float = 0.0
    judged: int = 0
    elements: int = 0
    told: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Of the elements that could be judged."""
        return self.judged / self.elements if self.elements else 1.0

    def alarm(self, text: str) -> None:
        """Count an alarm."""
        self.alarms += 1
        if len(self.told) < TOLD:
            self.told = (*self.told, f"{self.target}, {self.law}, {self.dtype}: {text}")


def added(counts: Iterable[Count]) -> Count:
    """Their sum, under the names of the first."""
    first, *others = counts
    total = Count(**vars(first))
    for count in others:
        total.drawn += count.drawn
        total.compared += count.compared
        total.alarms += count.alarms
        total.ratio = max(total.ratio, count.ratio)
        total.judged += count.judged
        total.elements += count.elements
    return total


def legal(law: Law, subject: Subject) -> bool:
    """Whether there are calls to drive a law with."""
    if not all(subject.accepts(option) for option in law.options):
        return False
    try:
        strategy(law.inputs, scope_of(subject))
    except ValueError:
        return False
    return True


def tasks_of(targets: Sequence[str], examples: int, seed: int) -> list[Task]:
    """Examples spread evenly over laws and dtypes, `examples` of them or a few more."""
    wanted: list[tuple[str, str, str, tuple[str, ...]]] = []
    for target in targets:
        loaded = loaded_once(target)
        for component in loaded.components:
            for dtype in loaded.dtypes:
                subject = Subject(loaded, component, dtype)
                laws = [law for law in all_laws() if law.component == component]
                ids = tuple(law.id for law in laws if legal(law, subject))
                wanted.append((target, component, dtype, ids))
    calls = math.ceil(examples / sum(len(ids) for *_, ids in wanted))
    return [Task(*names, calls, seed) for names in wanted]


@cache
def loaded_once(target: str) -> Loaded:
    """The target; once in each process."""
    return load(target)


def counted(task: Task) -> list[Count]:
    """Drive the laws of a task."""
    by_id = {law.id: law for law in all_laws()}
    subject = Subject(loaded_once(task.target), task.component, task.dtype)
    return [_counted(task, by_id[name], subject) for name in task.laws]


def _counted(task: Task, law: Law, subject: Subject) -> Count:
    count = Count(task.target, task.component, law.id, task.dtype)
    seed = stable_seed(task.seed, task.target, law.id, task.dtype)
    for inputs in sampled(law.inputs, scope_of(subject), task.calls, seed):
        count.drawn += 1
        try:
            judgement = judged(law, subject, inputs)
        except LawError as error:
            count.alarm(f"error in the law itself: {error}; {description(inputs)}")
            continue
        seen, elements = judgement.judged
        count.judged += seen
        count.elements += elements
        if judgement.ratio is not None:
            count.compared += 1
            count.ratio = max(count.ratio, judgement.ratio)
        if judgement.fails or judgement.declined:
            text = str(judgement.breach) if judgement.declined else summary(judgement)
            count.alarm(f"{text}; {description(inputs)}")
    return count


Told = Callable[[int, int], None]


def false_alarms(
    targets: Sequence[str],
    examples: int,
    seed: int = 0,
    *,
    workers: int = 1,
    told: Told | None = None,
) -> list[Count]:
    """The counts of every law, target and dtype, in the order of the tables."""
    tasks = tasks_of(targets, examples, seed)
    counts: list[Count] = []
    for done, found in enumerate(_results(tasks, workers), 1):
        counts += found
        if told is not None:
            told(done, len(tasks))
    order = [(t.target, t.component, t.dtype) for t in tasks]
    return sorted(counts, key=lambda c: order.index((c.target, c.component, c.dtype)))


def _results(tasks: list[Task], workers: int) -> Iterator[list[Count]]:
    if workers < 2:
        yield from map(counted, tasks)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=one_thread) as pool:
        for future in as_completed([pool.submit(counted, task) for task in tasks]):
            yield future.result()


def one_thread() -> None:
    """torch in this process computes on one core: the arrays are small and the cores are taken."""
    import torch

    torch.set_num_threads(1)


def figures(counts: Sequence[Count], examples: int) -> list[Figure]:
    """Alarms and examples, beside what is demanded."""
    total = added(counts)
    return [
        Figure("false alarms", total.alarms, most=DEMANDED_ALARMS),
        Figure("examples", total.compared, least=examples, remark=f"{total.drawn:,} calls drawn"),
        Figure("worst error over allowance", total.ratio),
    ]


def shown(counts: Sequence[Count]) -> str:
    """The tables."""
    return "\n\n".join(
        (
            _table(counts, ("target",)),
            _table(counts, ("component", "dtype")),
            _table(counts, ("law",)),
        )
    )


def _table(counts: Sequence[Count], names: tuple[str, ...]) -> str:
    def key(count: Count) -> tuple[str, ...]:
        return tuple(getattr(count, name) for name in names)

    order = list(dict.fromkeys(map(key, counts)))
    alike = sorted(counts, key=lambda count: order.index(key(count)))
    rows = []
    for words, group in groupby(alike, key):
        of = added(group)
        judged_too_little = "too little" if of.share < JUDGED_SHARE else ""
        rows.append(
            (
                " ".join(words), f"{of.compared:,}", of.alarms, f"{of.ratio:.3f}",
                f"{of.share:.1%}", judged_too_little,
            )
        )  # fmt: skip
    return table((" ".join(names), "examples", "alarms", "worst ratio", "judged", ""), rows)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, print; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.false_alarms")
    parser.add_argument("--examples", type=_positive, default=EXAMPLES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=_positive, default=_cores())
    given = parser.parse_args(arguments)
    one_thread()
    console = Console(stderr=True)
    columns = (TextColumn("false alarms"), BarColumn(), MofNCompleteColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        bar = progress.add_task("", total=None)
        counts = false_alarms(
            TARGETS,
            given.examples,
            given.seed,
            workers=given.workers,
            told=lambda done, total: progress.update(bar, completed=done, total=total),
        )
    print(shown(counts), end="\n\n")
    for text in (text for count in counts for text in count.told):
        print(text)
    return printed(figures(counts, given.examples))


if __name__ == "__main__":
    # of this process and of those that it starts; read when NumPy's and torch's libraries load
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
