"""What a bench measured beside what is demanded of it, as a plain table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured number."""

    name: str
    value: float
    unit: str = ""
    least: float | None = None
    """The figure is missed below it, ..."""
    most: float | None = None
    """... or above it."""
    remark: str = ""

    @property
    def missed(self) -> bool:
        """Whether it is not what is demanded."""
        too_small = self.least is not None and not self.value >= self.least
        return too_small or (self.most is not None and not self.value <= self.most)

    def row(self) -> tuple[str, ...]:
        """Name, value, what is demanded, outcome, remark."""
        demanded = ""
        if self.least is not None:
            demanded = f"at least {number(self.least)}"
        if self.most is not None:
            demanded = f"at most {number(self.most)}"
        outcome = "" if not demanded else "MISSED" if self.missed else "met"
        return (self.name, f"{number(self.value)} {self.unit}", demanded, outcome, self.remark)


def number(value: float) -> str:
    """With about three digits, as text."""
    if math.isfinite(value) and (value == round(value) or abs(value) >= 1000):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lines of columns as wide as their widest cell, the first flush left."""
    cells = [[str(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        first, *others = zip(row, widths, strict=True)
        rest = (cell.rjust(width) for cell, width in others)
        lines.append("  ".join([first[0].ljust(first[1]), *rest]).rstrip())
    return "\n".join([lines[0], "  ".join("-" * width for width in widths if width), *lines[1:]])


def printed(figures: Sequence[Figure]) -> int:
    """Print the figures; the exit status, 1 if one is missed."""
    heads = ("figure", "measured", "demanded", "", "remark")
    print(table(heads, (figure.row() for figure in figures)))
    return int(any(figure.missed for figure in figures))
