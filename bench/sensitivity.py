"""How small an error the suite sees: a right result times 1 + 2^-k, or, for attention, the right
function called with a scale that is 1 + 2^-k times what it should be.

The same drawn calls are judged by the law `matches_oracle`, within its derived allowance, and by
`torch.testing.assert_close` against the same expected values rounded to the dtype, with its own
tolerances and with wider ones: see `closeness.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch

from attnspec.driving import scope_of
from attnspec.impls.attention import attention
from attnspec.judging import judged
from attnspec.loading import load
from attnspec.oracle import law
from attnspec.oracle.comparison import Comparison, verdict
from attnspec.oracle.inputs import sampled
from attnspec.oracle.law import Inputs
from attnspec.oracle.precision import snapped
from attnspec.search import stable_seed
from attnspec.subject import Subject
from bench.closeness import Silent, rejected, widening_for, within_allowance, within_tolerance
from bench.figures import Figure, number, printed

DTYPE = "float32"
REFERENCES = {
    "rope": ("torch", "torch.complex", "torch.matrix", "torch.half"),
    "softmax": ("torch", "torch.online", "torch.functional"),
    "attention": ("torch", "torch.tiled", "torch.split", "torch.sdpa"),
}
"""Right implementations of a component; the errors are put into the first."""
DEMANDED = {"rope": 20, "attention": 17}
"""Relative errors of 2^-20 of a rotation must be seen, 16 units in the last place of float32, and
of 2^-17 of a scale: scores are sums, and their own error is that of a long one."""
LAWS_OF_SCALE = (
    "lse_matches_oracle", "scale_read", "mean_square_of_scores", "gradients_match_oracle",
)  # fmt: skip
"""Other laws of attention that see its scale."""
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


@dataclass(frozen=True)
class Example:
    """One drawn call, and what the right implementation gave for it."""

    subject: Subject
    inputs: Inputs
    right: Comparison

    def wrong(self, exponent: int) -> Comparison:
        """The same comparison for an implementation with an error of 2^-exponent."""
        error = scale_off if self.inputs.component == "attention" else scaled
        return error(self, exponent)


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


def examples(target: str, component: str, many: int, seed: int) -> list[Example]:
    """So many drawn calls with the law's comparisons. Calls of which the suite judges only a part
    are drawn over, so that every way of judging is shown the same: where a result overflows, or
    is less than its error, no tolerance tells right from wrong. An exception of the target goes
    through."""
    subject = Subject(load(target), component, DTYPE)
    check = law(f"{component}.matches_oracle").check
    number = stable_seed(seed, target, component)
    found: list[Example] = []
    for inputs in sampled(component, scope_of(subject), 4 * many, number):
        (comparison,) = check(subject, inputs)
        if _wholly_judged(comparison):
            found.append(Example(subject, inputs, comparison))
        if len(found) >= many:
            return found
    raise RuntimeError(f"{target}: of most calls of {component} the suite judges only a part")


def _wholly_judged(comparison: Comparison) -> bool:
    seen = verdict(comparison)
    return seen.judged == seen.elements


@cache
def right_ones(component: str, many: int) -> tuple[Comparison, ...]:
    """Of all references, `many` in all."""
    names = REFERENCES[component]
    each = -(-many // len(names))
    return tuple(e.right for name in names for e in examples(name, component, each, 0))


@cache
def samples(component: str, seeds: int, within: int) -> tuple[tuple[Example, ...], ...]:
    """Of the reference that gets the errors, for each seed."""
    name = REFERENCES[component][0]
    return tuple(tuple(examples(name, component, within, seed)) for seed in range(1, seeds + 1))


def scaled(example: Example, exponent: int) -> Comparison:
    """A result 1 + 2^-exponent times as large, rounded once more: what a wrapper around the right
    one would return."""
    right = example.right
    return replace(right, actual=snapped(right.actual * (1.0 + 2.0**-exponent), right.dtype))


def scale_off(example: Example, exponent: int) -> Comparison:
    """What the right attention gives when it is called with another scale."""
    given = dict(example.inputs.options)
    given["scale"] = _scale_off(given.get("scale"), example.inputs.arrays["q"].shape[3], exponent)
    actual = example.subject(replace(example.inputs, options=given))
    return replace(example.right, actual=actual)


def _scale_off(scale: float | None, d: int, exponent: int) -> float:
    return float(d**-0.5 if scale is None else scale) * (1.0 + 2.0**-exponent)


def with_scale_off(exponent: int) -> Any:
    """The functions of a target: the reference, called with another scale."""

    def wrong(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *,
        mask: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        causal: bool = False,
        window: int | None = None,
        softcap: float | None = None,
        scale: float | None = None,
        return_lse: bool = False,
    ) -> Any:
        return attention(
            q, k, v, mask=mask, bias=bias, causal=causal, window=window, softcap=softcap,
            scale=_scale_off(scale, q.shape[3], exponent), return_lse=return_lse,
        )  # fmt: skip

    return SimpleNamespace(attention=wrong)


def largest(sees: Callable[[int], bool]) -> int:
    """The largest k for which errors of 2^-k, and all larger ones, are seen; -1 for none."""
    for exponent in EXPONENTS:
        if not sees(exponent):
            return exponent - 1
    return EXPONENTS[-1]


def smallest_seen(silent: Silent, component: str, seeds: int = SEEDS, within: int = WITHIN) -> int:
    """The largest k for which errors of 2^-k are seen by a way of judging."""
    drawn = samples(component, seeds, within)

    def sees(exponent: int) -> bool:
        rejecting = (any(not silent(e.wrong(exponent)) for e in sample) for sample in drawn)
        return sum(rejecting) >= ENOUGH * seeds

    return largest(sees)


def seen_by_law(name: str, seeds: int = SEEDS, within: int = WITHIN) -> int:
    """The largest k for which a law of attention sees a scale that is off by 2^-k."""
    of = law(f"attention.{name}")

    def sees(exponent: int) -> bool:
        subject = Subject(load(with_scale_off(exponent)), "attention", DTYPE)
        rejecting = (
            any(judged(of, subject, inputs).fails for inputs in _calls(of.inputs, subject, seed))
            for seed in range(1, seeds + 1)
        )
        return sum(rejecting) >= ENOUGH * seeds

    def _calls(family: str, subject: Subject, seed: int) -> Iterator[Inputs]:
        return sampled(family, scope_of(subject), within, stable_seed(seed, name))

    return largest(sees)


def sensitivity(
    component: str, many: int = RIGHT, seeds: int = SEEDS, within: int = WITHIN
) -> dict[str, Sensitivity]:
    """By way of judging. Right examples are also those into which the errors are put: a tolerance
    that rejects one of them before would see an error of any size."""
    drawn = samples(component, seeds, within)
    right = [*right_ones(component, many), *(e.right for sample in drawn for e in sample)]

    def of(silent: Silent, widening: float = 1.0) -> Sensitivity:
        exponent = smallest_seen(silent, component, seeds, within)
        return Sensitivity(exponent, len(rejected(silent, right)), len(right), widening)

    found = {OWN: of(within_allowance), "assert_close": of(within_tolerance(1.0))}
    for way, tolerated in (("nearly silent", FEW), ("silent", 0.0)):
        widening = widening_for(right, tolerated)
        found[f"assert_close, {way}"] = of(within_tolerance(widening), widening)
    return found


def figures(component: str, found: Mapping[str, Sensitivity]) -> list[Figure]:
    """The exponents, the suite's own beside what is demanded of it."""
    rows = []
    for way, of in found.items():
        own = way == OWN
        error = f"error 2^-{of.exponent}" if of.exponent >= 0 else "not even a factor of 2 is seen"
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


def figures_of_scale(seeds: int, within: int) -> list[Figure]:
    """What other laws see of attention's scale."""
    found = []
    for name in LAWS_OF_SCALE:
        exponent = seen_by_law(name, seeds, within)
        remark = f"error 2^-{exponent} of the scale"
        found.append(Figure(f"attention {DTYPE}: k, law {name}", exponent, remark=remark))
    return found


def measured(many: int = RIGHT, seeds: int = SEEDS, within: int = WITHIN) -> list[Figure]:
    """All figures of this bench."""
    return [
        *(
            figure
            for component in REFERENCES
            for figure in figures(component, sensitivity(component, many, seeds, within))
        ),
        *figures_of_scale(seeds, within),
    ]


def main(many: int = RIGHT, seeds: int = SEEDS, within: int = WITHIN) -> int:
    """Measure, print; the exit status."""
    torch.set_num_threads(1)
    return printed(measured(many, seeds, within))


if __name__ == "__main__":
    sys.exit(main())
