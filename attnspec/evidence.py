"""What a hypothesis about a failure is held against: the failing calls, as they were drawn, and
some that passed.

The law that failed may see little of a result, as the sum of a row does, and then much looks
alike. So a hypothesis must also reproduce the results themselves, within what the component's
comparison with the exact value allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attnspec.judging import HELD, Judgement, LawError, judged
from attnspec.oracle.calls import agree
from attnspec.oracle.comparison import Comparison, verdict
from attnspec.oracle.law import Breach, Inputs, Law
from attnspec.oracle.precision import JUDGED_SHARE, Format
from attnspec.plausible import TELLING_PASSES, Pair, passes_unlikely, plausible, size
from attnspec.subject import Subject

TELLING_SHARE = 0.5
"""A looser contract may leave too little of a failing call to be judged. So many of them must
be judged under it, or it explains nothing."""


@dataclass(frozen=True)
class Evidence:
    """The failing and passing calls of one law on a target."""

    law: Law
    subject: Subject
    failures: Sequence[tuple[Inputs, Judgement]]
    passes: Sequence[Inputs]
    oracle: Law | None = None
    """The component's comparison with the exact value, if the law isn't that one."""
    forward: Law | None = None
    """The comparison of the component's output with the exact value, whatever `law` is about."""
    others: Sequence[Law] = ()
    """The component's other laws of the same calls: roundings break none of them."""
    shown: tuple[Inputs, Judgement] | None = None
    """The failing call that the message shows: simpler than it was drawn, so that alone it proves
    little, but what does not explain it would mislead."""

    @property
    def _all(self) -> Sequence[tuple[Inputs, Judgement]]:
        """The failing calls, the simplest first."""
        return self.failures if self.shown is None else [self.shown, *self.failures]

    def distance_under(self, other: Subject) -> float | None:
        """Worst ratio if the target is taken for `other`, the same function under another
        contract or other conventions. None where a call still fails, or too little is judged."""
        worst, telling = 0.0, 0
        for at, (inputs, _) in enumerate(self._all):
            drawn = at >= len(self._all) - len(self.failures)
            for law in (self.law, self.oracle):
                judgement = attempted(law, other, inputs) if law is not None else _NOTHING
                if judgement is None or judgement.breach is not None or judgement.fails:
                    return None
                worst = max(worst, judgement.ratio or 0.0)
                done, elements = judgement.judged
                enough = bool(elements) and done >= JUDGED_SHARE * elements
                telling += drawn and law is self.law and enough
        for inputs in self.passes:
            judgement = attempted(self.law, other, inputs)
            if judgement is None or judgement.breach is not None or judgement.fails:
                return None
        return worst if telling >= TELLING_SHARE * len(self.failures) else None

    def distance_to(self, wrong: Subject) -> float | None:
        """How far the target's results are from those of a wrong implementation, in allowances.
        None where some are not alike, or where a call that passed fails with it."""
        worst = 0.0
        for (inputs, actual), result in zip(self._all, self._results, strict=True):
            judgement = attempted(self.law, wrong, inputs)
            if judgement is None or judgement.kind != actual.kind:
                return None
            distances = [_apart(actual, judgement)]
            if self.oracle is not None and result is not None:
                other = attempted(self.oracle, wrong, inputs)
                distances.append(None if other is None else _apart(result, other))
            for distance in distances:
                if distance is None or distance > HELD:
                    return None
                worst = max(worst, distance)
        for inputs in self.passes:
            judgement = attempted(self.law, wrong, inputs)
            if judgement is None or judgement.fails:
                return None
        return worst

    def outputs_differ(self, wrong: Subject) -> bool:
        """Whether the output of a wrong implementation differs from the target's on one of the
        failing calls. It costs no exact value, and most candidates end here after one call."""
        return any(_differs(inputs, output, wrong) for inputs, output in self._outputs)

    def breaks_others(self, other: Subject) -> bool:
        """Whether one of the component's other laws still fails on these calls."""
        told = (attempted(law, other, i) for i, _ in self.failures for law in self.others)
        return any(judgement is None or judgement.fails for judgement in told)

    @property
    def share(self) -> float:
        """Largest error of the failing calls, as a share of the results' size."""
        return max((size(c) for _, j in self.failures for c in j.comparisons), default=0.0)

    def looks_rounded(self, other: Subject, place: str, fmt: Format) -> bool:
        """Whether the errors are typical for what `other` may round in one more place: those of
        the failing calls large enough, and not many passing calls without any."""
        pairs: list[Pair] = []
        for inputs, declared in self.failures:
            pairs += _pairs(declared, attempted(self.law, other, inputs))
        if not plausible(pairs, place, fmt):
            return False
        unlikely = 0
        for inputs in self.passes:
            declared_too = attempted(self.law, self.subject, inputs)
            loose = attempted(self.law, other, inputs)
            unlikely += passes_unlikely(_pairs(declared_too, loose), place, fmt)
        return unlikely <= TELLING_PASSES * len(self.failures)

    @cached_property
    def _outputs(self) -> list[tuple[Inputs, Comparison]]:
        """The failing calls, and the target's outputs there beside the exact values."""
        found: list[tuple[Inputs, Comparison]] = []
        if self.forward is None:
            return found
        for inputs, _ in self._all:
            judgement = attempted(self.forward, self.subject, inputs)
            if judgement is not None and judgement.comparisons:
                found.append((inputs, judgement.comparisons[0]))
        return found

    @cached_property
    def _results(self) -> list[Judgement | None]:
        """The target's own results on the failing calls."""
        if self.oracle is None:
            return [None for _ in self._all]
        return [attempted(self.oracle, self.subject, inputs) for inputs, _ in self._all]


_NOTHING = Judgement()


def attempted(law: Law, other: Subject, inputs: Inputs) -> Judgement | None:
    """What a law says of a hypothesis; None where it is one that the law cannot be asked about."""
    try:
        return judged(law, other, inputs)
    except LawError:
        return None


def _pairs(declared: Judgement | None, loose: Judgement | None) -> list[Pair]:
    if declared is None or loose is None:
        return []
    return list(zip(declared.comparisons, loose.comparisons, strict=False))


def _differs(inputs: Inputs, output: Comparison, wrong: Subject) -> bool:
    try:
        given = wrong(inputs)
    except Breach:
        return False
    if given.shape != output.actual.shape:
        return False
    return _distance(output, replace(output, actual=given)) > HELD


def _apart(target: Judgement, wrong: Judgement) -> float | None:
    if target.breach is not None or wrong.breach is not None:
        return 0.0 if _headline(target) == _headline(wrong) else None
    if len(target.comparisons) != len(wrong.comparisons):
        return None
    worst = 0.0
    for a, b in zip(target.comparisons, wrong.comparisons, strict=True):
        if a.promised and a.actual.shape != b.actual.shape:
            return None
        if a.promised:
            worst = max(worst, _distance(a, b))
    return worst


def _distance(a: Comparison, b: Comparison) -> float:
    """How far apart two results are, in allowances. NaN in one of them alone is a difference
    also where nothing is promised: among results that are mostly NaN nothing else may be left
    to compare."""
    if (np.isnan(a.actual) != np.isnan(b.actual)).any():
        return math.inf
    return verdict(_between(a, b)).ratio


def _between(a: Comparison, b: Comparison) -> Comparison:
    if a.allowance is None:
        return replace(a, expected=b.actual, residual=None)
    # both have rounded on their own, and beside zeros alone nothing would be judged
    return agree(a.what, a.actual, b.actual, 2.0 * a.allowance, a.dtype)


def _headline(judgement: Judgement) -> str:
    # without the place in the code
    return str(judgement.breach).partition(" (")[0]
