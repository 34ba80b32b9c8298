"""What right implementations were found to give: examples, alarms, ratios, shares, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from attnspec.oracle.precision import JUDGED_SHARE
from attnspec.target import DTYPES
from bench.figures import table

TOLD = 3
"""Alarms of one law that are described."""


@dataclass
class Count:
    """What one law found in one target at one dtype."""

    target: str
    component: str
    law: str
    dtype: str
    direction: str = "forward"
    """`forward` or `gradients`: what the law is about."""
    drawn: int = 0
    compared: int = 0
    """Those in which something that is promised was compared: the examples."""
    declined: int = 0
    """Those that the target may decline, and did."""
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
        total.declined += count.declined
        total.alarms += count.alarms
        total.ratio = max(total.ratio, count.ratio)
        total.judged += count.judged
        total.elements += count.elements
    return total


def shown(counts: Sequence[Count]) -> str:
    """The tables: by target, by component, by law."""
    return "\n\n".join(
        (
            _table(counts, ("target",)),
            _table(counts, ("component", "direction", "dtype")),
            _by_law(counts),
        )
    )


def _table(counts: Sequence[Count], names: tuple[str, ...]) -> str:
    rows = [
        (
            " ".join(words), f"{of.compared:,}", of.alarms, of.declined or "", f"{of.ratio:.3f}",
            _judged(of),
        )
        for words, group in _alike(counts, names)
        for of in (added(group),)
    ]  # fmt: skip
    return table((" ".join(names), "examples", "alarms", "declined", "worst ratio", "judged"), rows)


def _by_law(counts: Sequence[Count]) -> str:
    """With the share of elements that could be judged, dtype by dtype."""
    dtypes = [dtype for dtype in DTYPES if any(count.dtype == dtype for count in counts)]
    rows = []
    for (law,), group in _alike(counts, ("law",)):
        of = added(group)
        shares = {words[0]: added(alike) for words, alike in _alike(group, ("dtype",))}
        judged = [_judged(shares[d]) if d in shares else "" for d in dtypes]
        rows.append((law, f"{of.compared:,}", of.alarms, f"{of.ratio:.3f}", *judged))
    heads = ("law", "examples", "alarms", "worst ratio", *(f"judged, {d}" for d in dtypes))
    return table(heads, rows)


def _judged(count: Count) -> str:
    mark = "too little: " if count.share < JUDGED_SHARE else ""
    return f"{mark}{count.share:.1%}"


def _alike(
    counts: Sequence[Count], names: tuple[str, ...]
) -> list[tuple[tuple[str, ...], list[Count]]]:
    """Counts that have these fields in common, in the order in which they first come."""

    def key(count: Count) -> tuple[str, ...]:
        return tuple(getattr(count, name) for name in names)

    order = list(dict.fromkeys(map(key, counts)))
    alike = sorted(counts, key=lambda count: order.index(key(count)))
    return [(words, list(group)) for words, group in groupby(alike, key)]
