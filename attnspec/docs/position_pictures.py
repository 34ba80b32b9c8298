"""Pictures of relative positions: T5's buckets and ALiBi's slopes."""

from __future__ import annotations

import numpy as np

from attnspec.docs.picture import FIRST, INK, SECOND, THIRD, Drawing, Picture, drawn, number, svg_of
from attnspec.oracle.expected import tape_of, value_of
from attnspec.oracle.plan import planned
from attnspec.oracle.rationals import RATIONALS
from attnspec.spec.alibi_definition import alibi_slopes
from attnspec.spec.t5_bucket_definition import t5_bucket

BUCKETS, FARTHEST, SHOWN = 32, 128, 160
HEADS = (8, 12)


def buckets() -> Picture:
    """The bucket of each displacement."""
    places = np.arange(-SHOWN, SHOWN + 1)
    sizes = {"count": len(places), "num_buckets": BUCKETS, "max_distance": FARTHEST}
    # powers of distances are integers that float64 doesn't hold
    plans = [
        planned(tape_of(t5_bucket(bidirectional=way)), RATIONALS, tuple(sizes.items()))
        for way in (True, False)
    ]
    both, earlier = ([int(b) for b in plan({"relative_position": places})] for plan in plans)
    with drawn() as (figure, axes):
        axes.step(places, both, where="mid", color=FIRST, label="both directions")
        axes.step(
            places, earlier, where="mid", color=SECOND, linewidth=1.2, label="earlier keys only"
        )
        axes.axvline(0, color=INK, linewidth=0.7)
        axes.set(xlabel="position of the key minus position of the query", ylabel="bucket",
                 xlim=(-SHOWN, SHOWN), yticks=range(0, BUCKETS + 1, 8))  # fmt: skip
        axes.legend(loc="center right", fontsize=8.5)
        svg = svg_of(figure, "t5-buckets")
    rows = [
        (number(float(p)), str(a), str(b)) for p, a, b in zip(places, both, earlier, strict=True)
    ]
    return Picture(
        "t5-buckets",
        "T5's buckets",
        f"{BUCKETS} buckets, max_distance {FARTHEST}. Near keys have a bucket each; farther ones "
        f"share buckets that widen in proportion to the distance. The last one has no end; it "
        f"begins at distance {_begin(places, both)} where both directions count, at "
        f"{_begin(places, earlier)} where one does.",
        svg,
        ("key minus query", "both directions", "earlier keys only"),
        tuple(rows),
    )


def _begin(places: np.ndarray, buckets: list[int]) -> int:
    """The distance before the query at which its last bucket begins."""
    last = buckets[0]
    return max(int(-place) for place, bucket in zip(places, buckets, strict=True)
               if place < 0 and bucket < last) + 1  # fmt: skip


def slopes() -> Picture:
    """The slope of each head, in both conventions."""
    values = {
        (heads, kind): value_of(alibi_slopes(kind), {"heads": heads}, {})
        for heads in HEADS
        for kind in ("paper", "geometric")
    }
    few, many = HEADS
    lines = {
        f"{few} heads": (values[few, "paper"], FIRST, "o", 10),
        f"{many} heads, paper": (values[many, "paper"], SECOND, "s", 5),
        f"{many} heads, geometric": (values[many, "geometric"], THIRD, "^", 5),
    }
    with drawn() as (figure, axes):
        for name, (line, color, marker, size) in lines.items():
            axes.plot(range(len(line)), line, marker, color=color, markersize=size,
                      markerfacecolor="none" if size > 5 else color, label=name)  # fmt: skip
        axes.set(yscale="log", xlabel="head", ylabel="slope", xticks=range(many))
        ticks = [2.0**-k for k in (0, 2, 4, 6, 8)]
        axes.set_yticks(ticks, labels=["1", "1/4", "1/16", "1/64", "1/256"])
        axes.minorticks_off()
        axes.legend(loc="lower left", fontsize=8.5)
        svg = svg_of(figure, "alibi-slopes")
    rows = [
        (str(h), *(number(line[h]) if h < len(line) else "" for line, *_ in lines.values()))
        for h in range(many)
    ]
    return Picture(
        "alibi-slopes",
        "ALiBi's slopes",
        f"A power of two such as {few} gives one geometric row in both conventions. For "
        f"{many} heads the paper takes the {few} slopes of {few} heads, and then every other one "
        "of twice as many.",
        svg,
        ("head", *lines),
        tuple(rows),
    )


DRAWINGS = (Drawing(("t5_bucket",), buckets), Drawing(("alibi_slopes",), slopes))
