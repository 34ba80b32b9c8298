"""Driving one law with drawn calls: a sweep that counts, then a search for a simple failure.

The sweep never stops at a failure, so that the diagnosis sees several failing calls as they were
drawn. The search draws the same calls again from the same seed and lets Hypothesis shrink the
first failure; it remembers what each call gave, so a target whose output changes between calls
cannot confuse it.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis.errors import Flaky
from hypothesis.strategies import SearchStrategy

from attnspec.judging import Judgement, LawError
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.law import Inputs
from attnspec.oracle.minimiser import simplified

Judge = Callable[[Inputs], Judgement]
Judged = tuple[str, float | None]
"""The kind of a failure, empty where there is none, and the ratio."""

KEPT_FAILING = 8
"""Failing calls kept for the diagnosis, ..."""
KEPT_PASSING = 20
"""... and passing ones, spread over the run; presets are tried on them too."""
AFTER_FAILURE = 40
"""Calls drawn after the first failing one, at most."""
SHRINKING_SECONDS = 10.0
"""For display only: after this, only calls known to fail count as failing."""
LOWERINGS = 6
"""Steps down the tables after Hypothesis has shrunk."""
SIMPLIFYING = 8
"""Calls in search of simpler numbers, for each array."""
HIGHEST_TARGET = 1e3
"""Ratios beyond it guide the search no further."""


@dataclass
class Sweep:
    """What drawn calls gave, in the order in which they were drawn."""

    examples: int = 0
    failing: int = 0
    declined: int = 0
    ratio: float | None = None
    judged: int = 0
    elements: int = 0
    compared: int = 0
    """Examples with at least one promised comparison."""
    held: int = 0
    watched: int = 0
    failures: list[tuple[Inputs, Judgement]] = field(default_factory=list)
    passes: list[Inputs] = field(default_factory=list)
    refusals: list[tuple[Inputs, str]] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    """What accepted calls chose."""
    known: dict[bytes, Judged] = field(default_factory=dict)
    """What each call gave, by its key."""

    def take(self, inputs: Inputs, judgement: Judgement, every: int) -> None:
        """Count one example; of those that pass, keep each `every`-th."""
        self.examples += 1
        self.known[key(inputs)] = (judgement.kind, judgement.ratio)
        if judgement.declined:
            self.declined += 1
            self.refusals.append((inputs, str(judgement.breach)))
            return
        self.accepted.update(chosen(inputs))
        if judgement.ratio is not None:
            self.ratio = max(self.ratio or 0.0, judgement.ratio)
            self.compared += 1
        judged, elements = judgement.judged
        self.judged += judged
        self.elements += elements
        if judgement.watched is not None:
            self.watched += 1
            self.held += judgement.watched
        if judgement.fails:
            self.failing += 1
            if len(self.failures) < KEPT_FAILING:
                self.failures.append((inputs, judgement))
        elif self.examples % every == 0 and len(self.passes) < KEPT_PASSING:
            self.passes.append(inputs)


def sweep(
    judge: Judge,
    draws: SearchStrategy[Inputs],
    examples: int,
    seed: int,
    *,
    deep: bool,
    whole: bool,
) -> Sweep:
    """Judge `examples` drawn calls; unless `whole`, stop some way after the first failure."""
    result = Sweep()
    every = max(1, examples // (2 * KEPT_PASSING))
    after = 0

    def body(inputs: Inputs) -> None:
        nonlocal after
        if not whole and (len(result.failures) >= KEPT_FAILING or after > AFTER_FAILURE):
            return
        judgement = judge(inputs)
        result.take(inputs, judgement, every)
        after += bool(result.failures)
        if deep:
            _aim(judgement.ratio)

    _drive(body, draws, examples, seed, (Phase.generate, Phase.target))
    return result


def simplest(
    judge: Judge,
    draws: SearchStrategy[Inputs],
    examples: int,
    seed: int,
    swept: Sweep,
    lower: Callable[[Inputs], Iterator[Inputs]],
    *,
    deep: bool,
) -> Inputs:
    """A simple call that fails in the same way as the first failing one of the sweep, which was
    made with the same arguments."""
    found, first = swept.failures[0]
    known = dict(swept.known)
    deadline = time.monotonic() + SHRINKING_SECONDS

    def fails(inputs: Inputs) -> bool:
        call = key(inputs)
        if call not in known:
            if time.monotonic() > deadline:
                return False
            judgement = judge(inputs)
            known[call] = (judgement.kind, judgement.ratio)
        return known[call][0] == first.kind

    def body(inputs: Inputs) -> None:
        nonlocal found
        if fails(inputs):
            found = inputs
            raise _Failing
        if deep:
            _aim(known.get(key(inputs), ("", None))[1])

    # the last call that Hypothesis makes is its simplest
    with contextlib.suppress(_Failing, Flaky):
        _drive(body, draws, examples, seed, (Phase.generate, Phase.target, Phase.shrink))
    for _ in range(LOWERINGS):
        simpler = next((inputs for inputs in lower(found) if fails(inputs)), None)
        if simpler is None:
            break
        found = simpler

    def still_fails(inputs: Inputs) -> bool:
        # a call that is simplified may lack what the law's family has: that is no failure of it
        with contextlib.suppress(LawError):
            return fails(inputs)
        return False

    return simplified(found, still_fails, SIMPLIFYING * max(2, len(found.arrays)))


def _aim(ratio: float | None) -> None:
    if ratio:
        hypothesis.target(math.log(min(ratio, HIGHEST_TARGET)))


class _Failing(Exception):
    pass


def _drive(
    body: Callable[[Inputs], None],
    draws: SearchStrategy[Inputs],
    examples: int,
    seed: int,
    phases: tuple[Phase, ...],
) -> None:
    chosen = settings(
        max_examples=examples,
        phases=phases,
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
    )
    hypothesis.seed(seed)(chosen(given(draws)(body)))()


def stable_seed(seed: int, *words: str) -> int:
    """A number that depends on the seed and on nothing but these words."""
    text = "\n".join((str(seed), *words))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def chosen(inputs: Inputs) -> tuple[str, ...]:
    """The keyword arguments of a call, tensors among them."""
    tensors = COMPONENTS[inputs.component].keywords
    return (*inputs.options, *(name for name in tensors if name in inputs.arrays))


def key(inputs: Inputs) -> bytes:
    """Tells calls apart by everything that a law may look at."""
    head = (inputs.component, inputs.dtype, sorted(inputs.options.items()),
            sorted(inputs.numbers.items()), sorted(inputs.callees.items()),
            inputs.layout, inputs.pattern, inputs.signed, inputs.seed)  # fmt: skip
    digest = hashlib.blake2b(repr(head).encode(), digest_size=16)
    for name, values in inputs.arrays.items():
        digest.update(f"{name}{values.shape}{values.dtype.str}".encode())
        digest.update(values.tobytes())
    return digest.digest()
