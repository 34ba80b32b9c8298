"""How fast the suite judges, on one core.

Small calls go through Hypothesis, as `attnspec verify` drives them: drawn, laid out in memory,
given to the reference, and its result compared with value and allowance of the definition. Times
are the processor's, so that other processes on the machine do not count.
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
from typing import Any

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from attnspec.driving import scope_of
from attnspec.judging import judged
from attnspec.loading import load
from attnspec.oracle import law
from attnspec.oracle.balls import BALLS, precision
from attnspec.oracle.expected import expected, tape_of
from attnspec.oracle.family import Form, Scope

# the strategy of a family that is not in the table
from attnspec.oracle.inputs import FAMILIES, _strategy
from attnspec.oracle.law import Inputs
from attnspec.oracle.plan import planned
from attnspec.oracle.precision import contract
from attnspec.spec import rope_definition, softmax_definition
from attnspec.spec.definition import Definition
from attnspec.subject import Subject
from bench.figures import Figure, printed

REFERENCE = "torch"
DEMANDED_EXAMPLES = 550.0
"""A second and core, the oracle with its allowance: 150 examples of 20 laws then take seconds."""
DEMANDED_CERTIFICATE = 10.0
"""Milliseconds for the certificate of softmax 64 x 64: certificates can be formed in passing."""
SMALL = 128
"""Elements of the largest call that counts as small."""
EXAMPLES = 125
"""For each dtype in each pass, ..."""
PASSES = 16
"""... and passes."""
RUNS = 25

Call = Callable[[], object]


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


def small_calls(subject: Subject) -> SearchStrategy[Inputs]:
    """The strategy of a component's own family, with the small ones of its shapes."""
    family = FAMILIES[subject.component]

    def forms(scope: Scope) -> tuple[Form, ...]:
        return tuple(f for f in family.forms(scope) if math.prod(f.shape) <= SMALL)

    return _strategy(replace(family, forms=forms), scope_of(subject))


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
    """Passes over all dtypes of one component."""

    passes: tuple[Rate, ...]
    """Agreement with the oracle, plans at hand."""
    cold: Rate
    """The first pass, which makes plans on the way."""
    drawing: tuple[Rate, ...]
    """Drawing the same calls, and nothing else."""


def rates(component: str, examples: int, passes: int) -> Rates:
    """Pass after pass, so many examples for each dtype in each."""
    loaded, checked = load(REFERENCE), law(f"{component}.matches_oracle")
    subjects = [Subject(loaded, component, dtype) for dtype in loaded.dtypes]
    draws = [small_calls(subject) for subject in subjects]

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


def rate_figures(component: str, examples: int, passes: int) -> list[Figure]:
    """Examples a second of one component. The fastest pass counts: what else runs on the machine
    only ever slows a pass down, through the caches that it shares."""
    found = rates(component, examples, passes)
    each = [rate.each_second for rate in found.passes]
    whole = _added(found.passes)
    drawing = max(rate.each_second for rate in found.drawing)
    remark = (
        f"fastest of {passes} passes, median {statistics.median(each):,.0f}; {whole.examples:,} in "
        f"{whole.processor:.1f} s of processor, {whole.wall:.1f} s of wall"
    )
    return [
        Figure(
            f"{component}: small examples a second", max(each), least=DEMANDED_EXAMPLES,
            remark=remark,
        ),
        Figure("  plans made on the way", found.cold.each_second),
        Figure("  drawing alone", drawing),
        Figure("  false alarms", found.cold.alarms + whole.alarms, most=0),
    ]  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """One definition with sizes and values."""

    name: str
    definition: Definition
    parameters: dict[str, Any]
    arrays: dict[str, np.ndarray[Any, Any]]

    def certificate(self) -> object:
        """The enclosures of all elements."""
        plan = planned(tape_of(self.definition), BALLS, tuple(self.parameters.items()))
        with precision():
            return plan(self.arrays)

    def value_and_allowance(self) -> object:
        """What a law compares with, in float32."""
        return expected(self.definition, self.parameters, self.arrays, contract("float32"))


def softmax_problem(rows: int, n: int) -> Problem:
    """Softmax of so many rows of so many logits."""
    x = np.random.default_rng(0).standard_normal((rows, n)).astype(np.float32)
    return Problem(
        f"softmax {rows} x {n}",
        softmax_definition.DEFINITION,
        {"rows": rows, "n": n},
        {"x": x.astype(np.float64)},
    )


def rope_problem(n: int, d: int) -> Problem:
    """RoPE of so many positions in one head."""
    x = np.random.default_rng(0).standard_normal((1, 1, n, d)).astype(np.float32)
    return Problem(
        f"rope {n} x {d}",
        rope_definition.rope("interleaved", "forward"),
        {"batch": 1, "heads": 1, "length": n, "d": d, "r": d, "base": 10000.0},
        {"x": x.astype(np.float64), "positions": np.arange(n)[None, :]},
    )


def milliseconds(call: Call, runs: int) -> tuple[float, float]:
    """Minimum and median of the processor's time, after one call that doesn't count."""
    call()
    taken = []
    for _ in range(runs):
        start = time.process_time()
        call()
        taken.append(1e3 * (time.process_time() - start))
    return min(taken), statistics.median(taken)


def certificate_figures(runs: int, size: int = 64) -> list[Figure]:
    """Certificates of `size` x `size`."""
    found = []
    for problem in (softmax_problem(size, size), rope_problem(size, size)):
        least, median = milliseconds(problem.certificate, runs)
        demanded = DEMANDED_CERTIFICATE if problem.name.startswith("softmax") else None
        remark = f"median of {runs} runs; minimum {least:.2f} ms"
        name = f"{problem.name}: certificate"
        found.append(Figure(name, median, "ms", most=demanded, remark=remark))
    return found


def allowance_figures(runs: int) -> list[Figure]:
    """Value and allowance, some sizes."""
    found = []
    for problem in (
        softmax_problem(16, 8), softmax_problem(64, 64), rope_problem(16, 8), rope_problem(64, 64),
    ):  # fmt: skip
        least, median = milliseconds(problem.value_and_allowance, runs)
        remark = f"median of {runs} runs; minimum {1e3 * least:,.0f} us"
        name = f"{problem.name}: value and allowance"
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
            *rate_figures("softmax", examples, passes),
            *rate_figures("rope", examples, passes),
            *certificate_figures(runs),
            *allowance_figures(runs),
        ]


def main(examples: int = EXAMPLES, passes: int = PASSES, runs: int = RUNS) -> int:
    """Measure, print; the exit status."""
    return printed(figures(examples, passes, runs))


if __name__ == "__main__":
    sys.exit(main())
