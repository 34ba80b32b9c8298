"""Pictures of softmax and of who sees whom."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.docs.picture import (
    FIRST,
    SECOND,
    THIRD,
    Drawing,
    Picture,
    drawn,
    matrix,
    number,
    ranges,
    svg_of,
)  # fmt: skip
from attnspec.oracle.expected import value_of
from attnspec.spec.attention_definition import Options, visible
from attnspec.spec.longformer_attention_definition import visible as longformer_visible
from attnspec.spec.softmax_definition import DEFINITION

Array = np.ndarray[Any, Any]

WIDEST = 16
"""The largest gap of logits that is drawn."""
LENGTH, RADIUS = 12, 2
MANY = 10**3


def saturation() -> Picture:
    """What a leading logit does to the slope of its weight."""
    gaps = [g / 4 for g in range(4 * WIDEST + 1)]
    x = np.array([[g, 0.0] for g in gaps])
    weight = value_of(DEFINITION, {"rows": len(gaps), "n": 2}, {"x": x})
    slope = weight[:, 0] * weight[:, 1]
    crowd = np.array([[g, *[0.0] * MANY] for g in gaps])
    first = value_of(DEFINITION, {"rows": len(gaps), "n": MANY + 1}, {"x": crowd})
    among = first[:, 0] * first[:, 1:].sum(1)
    bound = np.exp(-np.array(gaps))
    with drawn() as (figure, axes):
        axes.plot(gaps, slope, color=FIRST, label="one other logit")
        axes.plot(gaps, among, color=THIRD, label=f"{MANY:,} others")
        axes.plot(
            gaps,
            bound,
            color=SECOND,
            linewidth=1.2,
            linestyle="--",
            label="bound of one: exp(-gap)",
        )
        axes.set(yscale="log", xlabel="gap to the other logits", ylabel="slope of the first weight")
        axes.set_yticks([1, 1e-2, 1e-4, 1e-6], labels=["1", "0.01", "0.0001", "0.000001"])
        axes.minorticks_off()
        axes.legend(loc="lower left", fontsize=8.5)
        svg = svg_of(figure, "softmax-saturation")
    rows = [
        (number(g), number(a), number(b), number(c))
        for g, a, b, c in zip(gaps, slope, among, bound, strict=True)
    ]
    return Picture(
        "softmax-saturation",
        "Saturation by gap",
        "A gap to the other logits makes the slope p(1 - p) exponentially small, never zero. How "
        "large the logits are has no part in it; the more others there are, the larger a gap it "
        "takes.",
        svg,
        ("gap", "slope, one other", f"slope, {MANY:,} others", "exp(-gap)"),
        tuple(rows),
        (
            "softmax.gradient_never_zero",
            "softmax.saturation_needs_gap",
            "softmax.gradient_vanishes_of_gap",
        ),
    )


def seen(t: int, s: int, offset: int, left: int, right: int) -> Array:
    """Which key each query sees (t x s), by the definition."""
    sizes = {"batch": 1, "heads": 1, "t": t, "s": s, "offset": offset, "left": left, "right": right}
    return np.asarray(value_of(visible(Options(ranges=True)), sizes, {})[0, 0] != 0)


def masks(
    id: str, title: str, caption: str, grids: dict[str, Array], claims: tuple[str, ...]
) -> Picture:
    """Grids of who sees whom, side by side."""
    tall = max(len(cells) / len(cells[0]) for cells in grids.values())
    width = 5.2 if len(grids) > 1 else 3.2
    with drawn(width, 0.75 + width / len(grids) * 0.86 * tall, len(grids)) as (figure, *axes):
        for place, (name, cells) in zip(axes, grids.items(), strict=True):
            matrix(place, cells.tolist(), name, rows="query", columns="key")
        svg = svg_of(figure, id)
    longest = max(len(cells) for cells in grids.values())
    rows = [
        (str(i), *(ranges(cells[i].tolist()) if i < len(cells) else "" for cells in grids.values()))
        for i in range(longest)
    ]
    columns = ("query", *(f"keys seen: {name}" for name in grids))
    return Picture(id, title, caption, svg, columns, tuple(rows), claims)


def windows() -> Picture:
    """The masks of a window."""
    n, w = LENGTH, RADIUS
    return masks(
        "window-masks",
        "Windows",
        f"{n} queries and keys, window {w}. By radius a query sees {w} keys on each side and "
        f"itself; with `causal`, {w} back and itself. By total it sees {w} keys, one of them "
        "itself.",
        {
            "radius": seen(n, n, 0, w, w),
            "radius, causal": seen(n, n, 0, w, 0),
            "total, causal": seen(n, n, 0, w - 1, 0),
        },
        ("attention.window_ge_length_eq_all",),
    )


def alignments() -> Picture:
    """A causal mask with fewer queries than keys, in both conventions."""
    t, s = 5, 9
    return masks(
        "causal-alignment",
        "Causality with fewer queries than keys",
        f"{t} queries, {s} keys. Bottom-right aligns the last query with the last key, as decoding "
        "needs it; top-left the first with the first.",
        {"bottom-right": seen(t, s, s - t, s, 0), "top-left": seen(t, s, 0, s, 0)},
        ("attention.causal_of_strict_triangle", "attention.suffix_of_queries"),
    )


def longformer() -> Picture:
    """The mask of a window with global tokens."""
    n, w = LENGTH + 4, RADIUS
    marked = (0, 9)
    flags = np.isin(np.arange(n), marked).astype(np.int64)[None]
    cells = value_of(longformer_visible(), {"batch": 1, "n": n, "window": w}, {"is_global": flags})
    return masks(
        "longformer-mask",
        "Longformer's mask",
        f"{n} tokens, {w} keys on each side, and global tokens {marked[0]} and {marked[1]}, "
        "which see all tokens and are seen by all.",
        {"window and global tokens": np.asarray(cells[0] != 0)},
        ("longformer_attention.definition",),
    )


DRAWINGS = (
    Drawing(("longformer_attention", "attention"), longformer),
    Drawing(("softmax",), saturation),
    Drawing(("window", "attention"), windows),
    Drawing(("attention",), alignments),
)
