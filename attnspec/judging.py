"""One law on one drawn call: what it found, reduced to the numbers that the runner needs."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attnspec.oracle.comparison import Comparison, Verdict, verdict
from attnspec.oracle.law import Breach, Implementation, Inputs, Law

HELD = 1.0
"""A ratio of error over allowance up to which a comparison holds."""


class LawError(Exception):
    """A law itself went wrong: the suite's mistake, not the target's."""


@dataclass(frozen=True)
class Judgement:
    """The outcome of one law on one call."""

    comparisons: tuple[Comparison, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    breach: Breach | None = None

    @property
    def declined(self) -> bool:
        return self.breach is not None and self.breach.kind == "declined"

    @property
    def fails(self) -> bool:
        return self.kind != ""

    @property
    def kind(self) -> str:
        """`` if it holds or was declined, `numbers`, or the kind of breach."""
        if self.breach is not None:
            return "" if self.declined else self.breach.kind
        return "numbers" if self.ratio is not None and self.ratio > HELD else ""

    @property
    def ratio(self) -> float | None:
        """Worst error over allowance of what is promised; None where nothing is."""
        ratios = [v.ratio for c, v in self._pairs() if c.promised]
        return max(ratios, default=None)

    @property
    def worst(self) -> tuple[Comparison, Verdict] | None:
        """The comparison with that ratio, and its verdict."""
        promised = [pair for pair in self._pairs() if pair[0].promised]
        return max(promised, key=lambda pair: pair[1].ratio, default=None)

    @property
    def judged(self) -> tuple[int, int]:
        """Elements of what is promised that could be judged, and all of them."""
        promised = [v for c, v in self._pairs() if c.promised]
        return sum(v.judged for v in promised), sum(v.elements for v in promised)

    @property
    def watched(self) -> bool | None:
        """Whether every comparison that nobody promised held; None where there is none."""
        watched = [v.holds for c, v in self._pairs() if not c.promised]
        return all(watched) if watched else None

    def _pairs(self) -> list[tuple[Comparison, Verdict]]:
        return list(zip(self.comparisons, self.verdicts, strict=True))


def judged(law: Law, implementation: Implementation, inputs: Inputs) -> Judgement:
    """Run `law` on one call. Raises LawError, from the cause, where the law itself fails."""
    try:
        # what a wrong implementation returns may overflow, or be infinity less infinity, anywhere
        with np.errstate(all="ignore"):
            comparisons = tuple(law.check(implementation, inputs))
            return Judgement(comparisons, tuple(map(verdict, comparisons)))
    except Breach as breach:
        return Judgement(breach=breach)
    except Exception as error:
        raise LawError(f"{law.id}: {type(error).__name__}: {error} ({place_of(error)})") from error


def place_of(error: Exception) -> str:
    """Where in the suite an exception came from."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}, line {frame.lineno}"
