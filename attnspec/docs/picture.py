"""Pictures: inline SVG in the page's own colors, with the numbers that were drawn as a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnspec.docs.formulas import signed

PALETTE = {
    "#010203": "var(--ink)",
    "#040506": "var(--faint)",
    "#070809": "var(--line)",
    "#0a0b0c": "var(--series-1)",
    "#0d0e0f": "var(--series-2)",
    "#101112": "var(--series-3)",
}
"""What matplotlib draws with, and what the page's style sheet makes of it."""
INK, FAINT, LINE, FIRST, SECOND, THIRD = PALETTE
REMS = 6.6
"""Widths of a letter of the page for each inch of a figure."""

_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "attnspec",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "grid.alpha": 0.6,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": FAINT,
    "ytick.labelcolor": FAINT,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "path.simplify": True,
}


@dataclass(frozen=True)
class Picture:
    """One picture, its caption and its data."""

    id: str
    title: str
    caption: str
    svg: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    claims: tuple[str, ...] = ()
    """Ids of the claims that it shows."""


@dataclass(frozen=True)
class Drawing:
    """How a picture comes about: its pages, and the function that makes it when they are built."""

    components: tuple[str, ...]
    """The page that it stands on is that of the first of these that has one."""
    made: Callable[[], Picture]


@contextmanager
def drawn(width: float = 5.2, height: float = 3.0, columns: int = 1) -> Iterator[tuple[Any, ...]]:
    """A figure and its axes, in the page's colors."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(1, columns, squeeze=False)[0]
        yield (figure, *axes)


def svg_of(figure: Figure, id: str) -> str:
    """The figure as an element of a page: colors by name, ids that are its own, no fixed size."""
    written = StringIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    text = written.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    width = figure.get_figwidth() * REMS
    text = re.sub(r'(?<=<svg)[^>]*?(viewBox="[^"]*")[^>]*', _root(id, width), text, count=1)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{id}-\1"', text)
    text = re.sub(r'(?:xlink:)?href="#([^"]+)"', rf'href="#{id}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{id}-\1)", text)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    for color, variable in PALETTE.items():
        text = text.replace(color, variable)
    return re.sub(r">\s+<", "><", text).strip()


def _root(id: str, width: float) -> str:
    style = f"max-width: {width:.4g}rem"
    return rf' class="plot" role="img" aria-labelledby="{id}-title" style="{style}" \1'


def matrix(
    axes: Axes, cells: Sequence[Sequence[bool]], title: str, *, rows: str, columns: str
) -> None:
    """A grid whose true cells are filled; the first row on top."""
    height, width = len(cells), len(cells[0])
    for i, row in enumerate(cells):
        for j, filled in enumerate(row):
            if filled:
                axes.fill([j, j + 1, j + 1, j], [i, i, i + 1, i + 1], color=FIRST, linewidth=0)
    axes.set(xlim=(0, width), ylim=(height, 0), xlabel=columns, ylabel=rows, aspect="equal")
    axes.set_title(title, fontsize=10, color=INK)
    axes.set_xticks(range(width + 1), labels=[])
    axes.set_yticks(range(height + 1), labels=[])
    axes.tick_params(length=0)
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(True)


def ranges(row: Sequence[bool]) -> str:
    """The true places of a row, as `2-5, 8`."""
    found: list[list[int]] = []
    for place, filled in enumerate(row):
        if filled and found and found[-1][1] == place - 1:
            found[-1][1] = place
        elif filled:
            found.append([place, place])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found) or "none"


def number(value: float) -> str:
    """A number of a table, to five digits."""
    return signed(f"{value:.5g}")
