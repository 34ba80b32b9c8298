"""Pictures of a report: how near the laws came to their allowance, and where a call failed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.ticker import MaxNLocator

from attnspec.docs.picture import FAINT, FIRST, SECOND, drawn, svg_of
from attnspec.elements import CEILING, Elements
from attnspec.outcome import Outcome

LEAST = 1e-4
"""Ratios below it are drawn as this."""


def ratios_picture(outcomes: Sequence[Outcome], id: str) -> str:
    """Worst error over allowance of each law and dtype of a component, in the laws' order; empty
    where nothing was compared."""
    told = [o for o in outcomes if o.ratio is not None and o.status != "not-tested"]
    if not told:
        return ""
    laws = list(dict.fromkeys(o.law for o in told))
    with drawn(width=7.0, height=0.9 + 0.19 * len(laws)) as (figure, axes):
        for outcome in told:
            ratio = min(max(outcome.ratio or 0.0, LEAST), CEILING)
            wrong = outcome.status in ("fail", "known")
            axes.plot(ratio, laws.index(outcome.law), marker="x" if wrong else "o",
                      color=SECOND if wrong else FIRST, markersize=5, linestyle="")  # fmt: skip
        axes.axvline(1.0, color=FAINT, linewidth=1.0)
        axes.set(xscale="log", xlabel="worst error / allowance", ylim=(len(laws) - 0.5, -0.5))
        axes.set_yticks(range(len(laws)), labels=[law.partition(".")[2] for law in laws])
        return svg_of(figure, id)


def elements_picture(elements: Elements, id: str) -> str:
    """Error against allowance, element by element, beside the map of the ratio."""
    with drawn(width=7.4, height=3.1, columns=2) as (figure, left, right):
        _scatter(left, elements)
        values = np.array(elements.map)
        top = max(2.0, min(float(values.max()), 1e3))
        colors = LinearSegmentedColormap.from_list("ratio", ["#cfe3f5", "#f0a15e", "#a8172b"])
        norm = LogNorm(0.5 / top, top, clip=True)
        image = right.pcolormesh(np.maximum(values, LEAST), cmap=colors, norm=norm)
        right.invert_yaxis()
        right.set(xlabel="last axis, in blocks", ylabel="axis before it, in blocks")
        for axis in (right.xaxis, right.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
        right.set_title("ratio, worst over the other axes", fontsize=10)
        right.grid(visible=False)
        figure.colorbar(image, ax=right)
        return svg_of(figure, id)


def _scatter(axes: Axes, elements: Elements) -> None:
    pairs = [(a, e) for a, e in zip(elements.allowances, elements.errors, strict=True) if a > 0.0]
    axes.set_title("error against allowance", fontsize=10)
    if not pairs:
        text = "the same bits are due" if elements.errors else "no finite error"
        axes.text(0.5, 0.5, text, ha="center", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
        return
    allowed, errors = zip(*pairs, strict=True)
    bad = [e > a for a, e in pairs]
    axes.scatter(allowed, errors, s=9, c=[SECOND if b else FIRST for b in bad], linewidths=0)
    low, high = min(*allowed, *errors), max(*allowed, *errors)
    low, high = low / 2.0, min(high * 2.0, math.ldexp(1.0, 1000))
    axes.plot([low, high], [low, high], color=FAINT, linewidth=1.0)
    axes.set(xscale="log", yscale="log", xlabel="allowance", ylabel="error")
