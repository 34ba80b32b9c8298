"""How small an error the suite sees: a right result times 1 + 2^-k.

The same drawn calls are judged by the law `matches_oracle`, within its derived allowance, and by
`torch.testing.assert_close` against the same expected values rounded to the dtype. The latter
complains about right implementations too, so its tolerances are first widened by the smallest
power of two at which it is silent on them: what a project with a green build would use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.testing._comparison import default_tolerances

from attnspec.driving import scope_of
from attnspec.loading import load
from attnspec.oracle import law
from attnspec.oracle.comparison import Comparison, verdict
from attnspec.oracle.inputs import sampled
from attnspec.oracle.precision import snapped
from attnspec.search import stable_seed
from attnspec.subject import Subject
from bench.figures import Figure, number, printed

DTYPE = "float32"
REFERENCES = {
    "rope": ("torch", "torch.complex", "torch.matrix", "torch.half"),
    "softmax": ("torch", "torch.online", "torch.functional"),
}
"""Right implementations of a component; the errors are put into the first."""
DEMANDED = {"rope": 20}
"""Relative errors of 2^-20 and more must be seen: 16 units in the last place of float32."""
RIGHT = 1500
"""Examples, over all references, on which a tolerance must be silent."""
SEEDS = 10
ENOUGH = 0.9
"""Of the seeds must reject ..."""
WITHIN = 60
"""... within so many examples."""
EXPONENTS = range(26)
"""Of the errors; a smaller error than the last changes no float32 number."""
FEW = 0.01
"""Share of right examples that a nearly silent tolerance rejects, at most."""
OWN = "derived allowance"
WIDEST = 2.0**40
"""No tolerance is widened further."""

Array = np.ndarray[Any, Any]
Silent = Callable[[Comparison], bool]
"""Whether a way of judging accepts what it is shown."""


@dataclass(frozen=True)
class Sensitivity:
    """What one way of judging sees."""

    exponent: int
    """The largest k for which an error of 2^-k is seen, as are all larger ones; -1 for none."""
    alarms: int
    """Right examples that it rejects."""
    examples: int
    widening: float = 1.0
    """Of the tolerances, before anything was counted."""


def compared(target: str, component: str, many: int, seed: int) -> list[Comparison]:
    """The law's comparisons on so many drawn calls. Calls of which the suite judges only a part
    are drawn over, so that every way of judging is shown the same: where a result overflows, or
    is less than its error, no tolerance tells right from wrong. An exception of the target goes
    through."""
    subject = Subject(load(target), component, DTYPE)
    check = law(f"{component}.matches_oracle").check
    number = stable_seed(seed, target, component)
    found: list[Comparison] = []
    for inputs in sampled(component, scope_of(subject), 4 * many, number):
        found += filter(_wholly_judged, check(subject, inputs))
        if len(found) >= many:
            return found[:many]
    raise RuntimeError(f"{target}: of most calls of {component} the suite judges only a part")


def _wholly_judged(comparison: Comparison) -> bool:
    seen = verdict(comparison)
    return seen.judged == seen.elements


@cache
def right_ones(component: str, examples: int) -> tuple[Comparison, ...]:
    """Of all references, `examples` in all."""
    names = REFERENCES[component]
    each = -(-examples // len(names))
    return tuple(c for name in names for c in compared(name, component, each, 0))


@cache
def samples(component: str, seeds: int, within: int) -> tuple[tuple[Comparison, ...], ...]:
    """Of the reference that gets the errors, for each seed."""
    name = REFERENCES[component][0]
    return tuple(tuple(compared(name, component, within, seed)) for seed in range(1, seeds + 1))


def scaled(right: Comparison, exponent: int) -> Comparison:
    """The same comparison for an implementation whose result is 1 + 2^-exponent times as large,
    rounded once more: what a wrapper around the right one would return."""
    return replace(right, actual=snapped(right.actual * (1.0 + 2.0**-exponent), right.dtype))


def within_allowance(comparison: Comparison) -> bool:
    """The suite's own verdict."""
    return verdict(comparison).holds


def within_tolerance(widening: float) -> Silent:
    """`assert_close`, its default tolerances so many times as wide."""
    kind = getattr(torch, DTYPE)
    rtol, atol = (widening * tolerance for tolerance in default_tolerances(kind))

    def silent(comparison: Comparison) -> bool:
        sides = comparison.actual, snapped(comparison.expected, DTYPE)
        actual, right = (torch.from_numpy(side).to(kind) for side in sides)
        try:
            torch.testing.assert_close(actual, right, rtol=rtol, atol=atol)
        except AssertionError:
            return False
        return True

    return silent


def widening_of(component: str, examples: int, tolerated: float = 0.0) -> float:
    """The smallest power of two at which `assert_close` rejects no more than a share of the right
    examples. Raises RuntimeError where there is none."""
    right = right_ones(component, examples)
    widening, rejected = 1.0, list(right)
    while len(rejected := _rejected(within_tolerance(widening), rejected)) > tolerated * len(right):
        widening *= 2.0
        if widening > WIDEST:
            raise RuntimeError(f"{component}: assert_close is silent at no tolerance")
    return widening


def _rejected(silent: Silent, comparisons: Iterable[Comparison]) -> list[Comparison]:
    return [comparison for comparison in comparisons if not silent(comparison)]


def smallest_seen(silent: Silent, component: str, seeds: int = SEEDS, within: int = WITHIN) -> int:
    """The largest k for which errors of 2^-k, and all larger ones, are seen; -1 for none."""
    drawn = samples(component, seeds, within)
    for exponent in EXPONENTS:
        rejecting = sum(
            any(not silent(scaled(right, exponent)) for right in sample) for sample in drawn
        )
        if rejecting < ENOUGH * seeds:
            return exponent - 1
    return EXPONENTS[-1]


def sensitivity(
    component: str, examples: int = RIGHT, seeds: int = SEEDS, within: int = WITHIN
) -> dict[str, Sensitivity]:
    """By way of judging."""
    right = right_ones(component, examples)

    def of(silent: Silent, widening: float = 1.0) -> Sensitivity:
        exponent = smallest_seen(silent, component, seeds, within)
        return Sensitivity(exponent, len(_rejected(silent, right)), len(right), widening)

    found = {OWN: of(within_allowance), "assert_close": of(within_tolerance(1.0))}
    for way, tolerated in (("nearly silent", FEW), ("silent", 0.0)):
        widening = widening_of(component, examples, tolerated)
        found[f"assert_close, {way}"] = of(within_tolerance(widening), widening)
    return found


def figures(component: str, found: dict[str, Sensitivity]) -> list[Figure]:
    """The exponents, the suite's own beside what is demanded of it."""
    rows = []
    for way, of in found.items():
        own = way == OWN
        error = (
            f"error 2^-{of.exponent}"
            if of.exponent >= 0
            else "not even twice the right result is seen"
        )
        if of.alarms > FEW * of.examples:
            error = "says nothing: right results are rejected as well"
        alarms = f"{of.alarms} of {of.examples:,} right examples rejected"
        wider = f"; tolerances x{number(of.widening)}" if of.widening > 1.0 else ""
        rows.append(
            Figure(
                f"{component} {DTYPE}: k, {way}",
                of.exponent,
                least=DEMANDED.get(component) if own else None,
                remark=f"{error}; {alarms}{wider}",
            )
        )
        if own:
            rows.append(Figure("  right examples rejected", of.alarms, most=0))
    return rows


def measured(examples: int = RIGHT, seeds: int = SEEDS, within: int = WITHIN) -> list[Figure]:
    """All figures of this bench."""
    return [
        figure
        for component in REFERENCES
        for figure in figures(component, sensitivity(component, examples, seeds, within))
    ]


def main(examples: int = RIGHT, seeds: int = SEEDS, within: int = WITHIN) -> int:
    """Measure, print; the exit status."""
    torch.set_num_threads(1)
    return printed(measured(examples, seeds, within))


if __name__ == "__main__":
    sys.exit(main())
