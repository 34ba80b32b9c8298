"""Pictures of rotary positions: the cosine kernel with its envelopes, and the frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.docs.picture import (
    FAINT,
    FIRST,
    INK,
    SECOND,
    THIRD,
    Drawing,
    Picture,
    drawn,
    number,
    svg_of,
)
from attnspec.oracle.expected import value_of
from attnspec.spec.rope_definition import rope

Array = np.ndarray[Any, Any]

SIZE, BASE, FARTHEST, TRAINED = 128, 10000, 256, 4096
PAIRS = SIZE // 2


def turned(positions: list[int]) -> tuple[Array, Array]:
    """Cosine and sine of each pair's angle at each position (positions x pairs): what the oracle
    makes of pairs (1, 0)."""
    x = np.tile((1.0, 0.0), (1, 1, len(positions), PAIRS))
    sizes = {"batch": 1, "heads": 1, "length": len(positions), "d": SIZE, "r": SIZE, "base": BASE}
    arrays = {"x": x, "positions": np.array([positions])}
    value = value_of(rope("interleaved", "forward"), sizes, arrays)[0, 0]
    return value[:, 0::2], value[:, 1::2]


def kernel() -> Picture:
    """The score of pairs in phase against the distance, and two envelopes of it."""
    t = list(range(FARTHEST + 1))
    cos, sin = turned(t)
    score = cos.sum(1) / PAIRS
    partial = np.abs(np.cumsum(cos + 1j * sin, axis=1))
    modulus = partial[:, -1] / PAIRS
    abel = partial.mean(1) / partial[0].mean()
    rises = int(np.argmax(np.diff(score) > 0))
    names = ("pairs in phase: B(t) / B(0)", "any common phase", "mean |partial sum|, of its start")
    with drawn() as (figure, axes):
        axes.plot(t, abel, color=THIRD, label=names[2], linewidth=1.2)
        axes.plot(t, modulus, color=SECOND, label=names[1], linewidth=1.2)
        axes.plot(t, -modulus, color=SECOND, linewidth=1.2)
        axes.plot(t, score, color=FIRST, label=names[0])
        axes.axhline(0, color=INK, linewidth=0.7)
        axes.plot([rises], [score[rises]], "o", color=FIRST, markersize=4)
        axes.annotate(f"first rise after t = {rises}", (rises, score[rises]), (34, 0.78), color=INK,
                      fontsize=9, arrowprops={"arrowstyle": "-", "color": FAINT})  # fmt: skip
        axes.set(xlabel="distance t", ylabel="score, of its largest", xlim=(0, FARTHEST))
        axes.legend(loc="upper right", fontsize=8.5)
        svg = svg_of(figure, "rope-kernel")
    rows = [(str(k), number(score[k]), number(modulus[k]), number(abel[k])) for k in t]
    return Picture(
        "rope-kernel",
        "The cosine kernel and its envelopes",
        f"Head size {SIZE}, base {BASE}. The score of pairs in phase falls off on average, and "
        "rises again and again. So do its envelopes: the largest score at any common phase, and "
        "the mean of partial sums, to which Abel's bound is proportional.",
        svg,
        ("t", *names),
        tuple(rows),
        ("rope.kernel_is_not_monotone", "rope.interference_lowers_the_mean"),
    )


def frequencies() -> Picture:
    """Positions for a whole turn of each pair."""
    cos, sin = turned([1])
    angles = np.arctan2(sin[0], cos[0])
    turns = 2 * np.pi / angles
    slow = int((turns > TRAINED).sum())
    with drawn() as (figure, axes):
        axes.plot(range(PAIRS), turns, ".", color=FIRST)
        axes.axhline(TRAINED, color=SECOND, linewidth=1.2)
        axes.annotate(f"{TRAINED} positions", (0, TRAINED), (0, 4), color=INK, fontsize=9,
                      textcoords="offset points")  # fmt: skip
        axes.set(yscale="log", xlabel="pair i", ylabel="positions for a whole turn")
        axes.set_yticks([10, 100, 1000, 10000], labels=["10", "100", "1,000", "10,000"])
        axes.minorticks_off()
        svg = svg_of(figure, "rope-frequencies")
    rows = [(str(i), number(angles[i]), number(turns[i])) for i in range(PAIRS)]
    return Picture(
        "rope-frequencies",
        "How fast the pairs turn",
        f"Head size {SIZE}, base {BASE}. {slow} of the {PAIRS} pairs turn less than once in "
        f"{TRAINED} positions: beyond that length they reach angles that were never seen.",
        svg,
        ("pair", "angle per position", "positions for a whole turn"),
        tuple(rows),
        ("rope.frequencies", "rope.new_angles_beyond_training"),
    )


DRAWINGS = (Drawing(("rope",), kernel), Drawing(("rope",), frequencies))
