"""How often the suite complains about right implementations: it must not.

Every law of a target's components, those about gradients too, on drawn calls, without Hypothesis,
which a plain count does not need. One law on one call is one example. Whatever a target should not
do counts as an alarm: a ratio above 1, a result of another kind, an exception, a refusal; so does
an error in a law.

    python -m bench.false_alarms --examples 50000 --seed 0
    python -m bench.false_alarms --examples 100000 --component attention --target torch.sdpa
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from attnspec.driving import out_of_reach, scope_of
from attnspec.judging import Judgement, LawError, judged
from attnspec.loading import Loaded, load
from attnspec.message import summary
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.inputs import description, sampled, strategy
from attnspec.oracle.law import Law
from attnspec.runner import all_laws
from attnspec.search import stable_seed
from attnspec.subject import Subject
from bench.counts import Count, added, shown
from bench.figures import Figure, printed
from bench.processes import cores, one_thread, positive

TARGETS = (
    "torch", "torch.online", "torch.complex", "torch.matrix", "torch.half", "torch.tiled",
    "torch.split", "torch.per_query", "torch.top_left", "torch.total_window", "torch.tiled_heads",
    "torch.nan_rows", "torch.by_key", "torch.by_logarithm", "torch.functional", "torch.sdpa",
    "torch.sdpa_flash", "torch.sdpa_math", "torch.rms_by_blocks", "torch.rms_one_plus",
    "torch.rms_outside", "torch.rms_clamped", "torch.rms_without_eps", "torch.layer_norm",
    "torch.layer_norm_half", "torch.layer_norm_updated", "torch.layer_norm_outside",
)  # fmt: skip
"""The references and torch's own functions: right by construction, or in everyone's use."""
MAY_DECLINE = ("torch.sdpa_flash",)
"""Targets whose library has no kernel for some calls, and says so; what others decline is an
alarm."""
NOT_DEMANDED = "gradients_of_gradients"
"""The law on what nobody promises: a kernel need not have a second backward pass."""
EXAMPLES = 50_000
DEMANDED_ALARMS = 0
"""A suite that complains about right code teaches its users to ignore it."""


@dataclass(frozen=True)
class Task:
    """The laws of one component of one target at one dtype, and how many calls each gets."""

    target: str
    component: str
    dtype: str
    laws: tuple[str, ...]
    calls: int
    seed: int
    turn: int = 0


def legal(law: Law, subject: Subject) -> bool:
    """Whether there are calls to drive a law with."""
    if out_of_reach(law, subject):
        return False
    try:
        strategy(law.inputs, scope_of(subject))
    except ValueError:
        return False
    return True


def tasks_of(
    targets: Sequence[str], examples: int, seed: int, components: Sequence[str] = ()
) -> list[Task]:
    """Examples spread evenly over laws and dtypes, `examples` of them or a few more. Of these
    components, or of all."""
    wanted: list[tuple[str, str, str, tuple[str, ...]]] = []
    for target in targets:
        loaded = loaded_once(target)
        for component in loaded.components:
            if components and component not in components:
                continue
            for dtype in loaded.dtypes_of(component):
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


def _is_free(law: Law, judgement: Judgement) -> bool:
    """Whether a call was answered, and only its second backward pass declined."""
    called = not str(judgement.breach).startswith("NotImplementedError")
    return called and law.id.endswith(f".{NOT_DEMANDED}")


def _counted(task: Task, law: Law, subject: Subject) -> Count:
    direction = "gradients" if law.gradients else "forward"
    count = Count(task.target, task.component, law.id, task.dtype, direction)
    words = (str(task.turn),) if task.turn else ()
    seed = stable_seed(task.seed, task.target, law.id, task.dtype, *words)
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
        if judgement.declined and (task.target in MAY_DECLINE or _is_free(law, judgement)):
            count.declined += 1
        elif judgement.fails or judgement.declined:
            text = str(judgement.breach) if judgement.declined else summary(judgement)
            count.alarm(f"{text}; {description(inputs)}")
    return count


Told = Callable[[int, int, list[Count]], None]
"""Is told how many tasks are done, of how many, and what the latest found."""


def false_alarms(
    targets: Sequence[str],
    examples: int,
    seed: int = 0,
    *,
    components: Sequence[str] = (),
    workers: int = 1,
    told: Told | None = None,
) -> list[Count]:
    """The counts of every law, target and dtype, in the order of the tables. Laws that compare
    nothing on some calls, which is known once they were made, are made up for by a second turn."""
    tasks = tasks_of(targets, examples, seed, components)
    order = [(task.target, task.component, task.dtype) for task in tasks]
    counts: list[Count] = []
    for turn in (0, 1):
        wanted = _missing(tasks, counts, examples) if turn else tasks
        for done, found in enumerate(_results(wanted, workers), 1):
            counts += found
            if told is not None:
                told(done, len(wanted), found)
    return sorted(counts, key=lambda c: order.index((c.target, c.component, c.dtype)))


def _missing(tasks: Sequence[Task], counts: Sequence[Count], examples: int) -> list[Task]:
    """What is lacking after the first turn, of the laws that compared something in it."""
    lacking = examples - added(counts).compared
    driven = {(c.target, c.component, c.dtype, c.law) for c in counts if c.compared}
    if lacking <= 0 or not driven:
        return []
    calls = math.ceil(lacking / len(driven))
    found = []
    for task in tasks:
        names = (task.target, task.component, task.dtype)
        laws = tuple(law for law in task.laws if (*names, law) in driven)
        found.append(replace(task, laws=laws, calls=calls, turn=1))
    return [task for task in found if task.laws]


def _results(tasks: list[Task], workers: int) -> Iterator[list[Count]]:
    if workers < 2:
        yield from map(counted, tasks)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=one_thread) as pool:
        for future in as_completed([pool.submit(counted, task) for task in tasks]):
            yield future.result()


def figures(counts: Sequence[Count], examples: int) -> list[Figure]:
    """Alarms and examples, beside what is demanded."""
    total = added(counts)
    return [
        Figure("false alarms", total.alarms, most=DEMANDED_ALARMS),
        Figure("examples", total.compared, least=examples, remark=f"{total.drawn:,} calls drawn"),
        Figure("worst error over allowance", total.ratio),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, print, alarms at once and to stderr; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.false_alarms")
    parser.add_argument("--examples", type=positive, default=EXAMPLES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=positive, default=cores())
    parser.add_argument("--component", action="append", choices=tuple(COMPONENTS), default=[])
    parser.add_argument("--target", action="append", choices=TARGETS, default=[])
    given = parser.parse_args(arguments)
    one_thread()
    console = Console(stderr=True, soft_wrap=True)
    columns = (TextColumn("false alarms"), BarColumn(), MofNCompleteColumn())
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        bar = progress.add_task("", total=None)

        def told(done: int, total: int, found: list[Count]) -> None:
            progress.update(bar, completed=done, total=total)
            for text in (text for count in found for text in count.told):
                progress.console.print(text, markup=False, highlight=False)

        counts = false_alarms(
            given.target or TARGETS,
            given.examples,
            given.seed,
            components=given.component,
            workers=given.workers,
            told=told,
        )
    print(shown(counts), end="\n\n")
    return printed(figures(counts, given.examples))


if __name__ == "__main__":
    # of this process and of those that it starts; read when NumPy's and torch's libraries load
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
