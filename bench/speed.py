"""How fast the suite judges, on one core.

Small calls go through Hypothesis, as `attnspec verify` drives them: drawn, laid out in memory,
given to the reference, and its result, or its gradients, compared with value and allowance of the
definition. Times are the processor's, so that other processes on the machine do not count.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from functools import partial

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from attnspec.driving import scope_of
from attnspec.judging import judged
from attnspec.loading import load
from attnspec.oracle import law
from attnspec.oracle.attention_shapes import work_of
from attnspec.oracle.family import Form, Scope, Shape

# the strategy of a family that is not in the table
from attnspec.oracle.inputs import FAMILIES, _strategy
from attnspec.oracle.law import Inputs
from attnspec.subject import Subject
from bench.figures import Figure, printed
from bench.problems import attention_problem, milliseconds, rope_problem, softmax_problem

REFERENCE = "torch"
LAWS = (
    ("softmax.matches_oracle", 550.0),
    ("rope.matches_oracle", 550.0),
    ("attention.matches_oracle", 550.0),
    ("softmax.gradients_match_oracle", None),
    ("rope.gradients_match_oracle", None),
    ("attention.gradients_match_oracle", 350.0),
)
"""The laws that are timed, and how many examples a second and core are demanded: 150 examples of
20 laws then take seconds."""
DEMANDED_CERTIFICATES = (("softmax", 10.0), ("attention", 15.0))
"""Milliseconds for the certificate of 64 x 64: certificates can be formed in passing."""
SMALL = 128
"""Elements of the largest call of softmax and rope that counts as small, ..."""
SMALL_LENGTHS = (8, 16, 8, 8)
"""... t, s, d and e of that of attention, ..."""
SMALL_WORK = 8 * 16 * 8
"""... and its products, those of all batch entries and heads."""
EXAMPLES = 125
"""For each dtype in each pass, ..."""
PASSES = 16
"""... and passes."""
RUNS = 25


@dataclass(frozen=True)
class Rate:
    """How long some examples took."""

    examples: int
    processor: float
    wall: float
    """Both in seconds."""
    alarms: int
    """Examples that failed: none should, the reference is right."""

    @property
    def each_second(self) -> float:
        """Examples a second of processor time."""
        return self.examples / self.processor


def small_calls(subject: Subject, name: str = "") -> SearchStrategy[Inputs]:
    """The strategy of a family, the component's own unless it is named, with the small ones of its
    shapes."""
    family = FAMILIES[name or subject.component]
    small = _small_attention if subject.component == "attention" else _small

    def forms(scope: Scope) -> tuple[Form, ...]:
        return tuple(f for f in family.forms(scope) if small(f.shape))

    return _strategy(replace(family, forms=forms), scope_of(subject))


def _small(shape: Shape) -> bool:
    return math.prod(shape) <= SMALL


def _small_attention(shape: Shape) -> bool:
    lengths = zip(shape[3:], SMALL_LENGTHS, strict=True)
    return work_of(shape) <= SMALL_WORK and all(size <= most for size, most in lengths)


def driven(draws: SearchStrategy[Inputs], check: Callable[[Inputs], bool], examples: int) -> Rate:
    """Drive a check, which says whether a call failed, with drawn calls."""
    seen = alarms = 0

    def body(inputs: Inputs) -> None:
        nonlocal seen, alarms
        seen += 1
        alarms += check(inputs)

    chosen = settings(
        max_examples=examples,
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    test = hypothesis.seed(0)(chosen(given(draws)(body)))
    wall, processor = time.perf_counter(), time.process_time()
    test()
    processor, wall = time.process_time() - processor, time.perf_counter() - wall
    return Rate(seen, processor, wall, alarms)


@dataclass(frozen=True)
class Rates:
    """Passes over all dtypes of one law."""

    passes: tuple[Rate, ...]
    """Agreement with the oracle, plans at hand."""
    cold: Rate
    """The first pass, which makes plans on the way."""
    drawing: tuple[Rate, ...]
    """Drawing the same calls, and nothing else."""


def rates(name: str, examples: int, passes: int) -> Rates:
    """Pass after pass of a law, so many examples for each dtype in each."""
    loaded, checked = load(REFERENCE), law(name)
    subjects = [Subject(loaded, checked.component, dtype) for dtype in loaded.dtypes]
    draws = [small_calls(subject, checked.inputs) for subject in subjects]

    def agrees_not(subject: Subject, inputs: Inputs) -> bool:
        return judged(checked, subject, inputs).fails

    def agreement() -> Rate:
        return _added(
            driven(draw, partial(agrees_not, subject), examples)
            for subject, draw in zip(subjects, draws, strict=True)
        )

    cold = agreement()
    warm, drawing = [], []
    for _ in range(passes):
        warm.append(agreement())
        drawing.append(_added(driven(d, lambda _: False, examples) for d in draws))
    return Rates(tuple(warm), cold, tuple(drawing))


def _added(parts: Iterable[Rate]) -> Rate:
    return Rate(*map(sum, zip(*map(astuple, parts), strict=True)))


def rate_figures(name: str, demanded: float | None, examples: int, passes: int) -> list[Figure]:
    """Examples a second of one law. The fastest pass counts: what else runs on the machine
    only ever slows a pass down, through the caches that it shares."""
    found = rates(name, examples, passes)
    each = [rate.each_second for rate in found.passes]
    whole = _added(found.passes)
    drawing = max(rate.each_second for rate in found.drawing)
    remark = (
        f"fastest of {passes} passes, median {statistics.median(each):,.0f}; {whole.examples:,} in "
        f"{whole.processor:.1f} s of processor, {whole.wall:.1f} s of wall"
    )
    return [
        Figure(
            f"{name}: small examples a second", max(each), least=demanded, remark=remark
        ),
        Figure("  plans made on the way", found.cold.each_second),
        Figure("  drawing alone", drawing),
        Figure("  false alarms", found.cold.alarms + whole.alarms, most=0),
    ]  # fmt: skip


def certificate_figures(runs: int, size: int = 64) -> list[Figure]:
    """Certificates of `size` x `size`: rows and logits, positions and channels, and queries (as
    many as keys) and channels in one head."""
    found = []
    demanded = dict(DEMANDED_CERTIFICATES)
    problems = (
        softmax_problem(size, size), rope_problem(size, size), attention_problem(size, size, size),
    )  # fmt: skip
    for problem in problems:
        least, median = milliseconds(problem.certificate, runs)
        most = demanded.get(problem.name.split()[0])
        remark = f"median of {runs} runs; minimum {least:.2f} ms"
        found.append(Figure(f"{problem.name}: certificate", median, "ms", most=most, remark=remark))
    return found


def allowance_figures(runs: int) -> list[Figure]:
    """Value and allowance, some sizes; those of all gradients of attention too."""
    attention = (attention_problem(8, 16, 8), attention_problem(64, 64, 64))
    others = (
        softmax_problem(16, 8), softmax_problem(64, 64), rope_problem(16, 8), rope_problem(64, 64),
    )  # fmt: skip
    timed = [
        *((f"{p.name}: value and allowance", p.value_and_allowance) for p in (*others, *attention)),
        *((f"{p.name}: gradients and allowances", p.gradients) for p in attention),
    ]
    found = []
    for name, call in timed:
        least, median = milliseconds(call, runs)
        remark = f"median of {runs} runs; minimum {1e3 * least:,.0f} us"
        found.append(Figure(name, 1e3 * median, "us", remark=remark))
    return found


@contextmanager
def one_core() -> Iterator[None]:
    """Keeps the process on one core, where the system can do that, and torch on one thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if cores:
        os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        if cores:
            os.sched_setaffinity(0, cores)


def figures(examples: int = EXAMPLES, passes: int = PASSES, runs: int = RUNS) -> list[Figure]:
    """All figures of this bench."""
    with one_core():
        return [
            *(
                figure
                for name, demanded in LAWS
                for figure in rate_figures(name, demanded, examples, passes)
            ),
            *certificate_figures(runs),
            *allowance_figures(runs),
        ]


def main(examples: int = EXAMPLES, passes: int = PASSES, runs: int = RUNS) -> int:
    """Measure, print; the exit status."""
    return printed(figures(examples, passes, runs))


if __name__ == "__main__":
    sys.exit(main())
