"""Pictures of what is stored: caches by variant, and a vector before and after Hadamard."""

from __future__ import annotations

import numpy as np

from attnspec.docs.picture import FIRST, SECOND, Drawing, Picture, drawn, number, svg_of
from attnspec.oracle.expected import value_of
from attnspec.spec.gqa_definition import VARIANTS, variant
from attnspec.spec.hadamard_definition import hadamard

SIZES = {"batch": 1, "s": 1, "heads": 128, "groups": 8, "d": 128, "e": 128, "c": 512, "p": 64}
"""One token of a layer with 128 heads; the latent and rotary sizes are those of DeepSeek-V2."""
BITS, PLACE, SPIKE = 4, 5, 8.0


def caches() -> Picture:
    """Numbers that a layer stores for each token."""
    names = {
        "mha": f"MHA, {SIZES['heads']} key heads",
        "gqa": f"GQA, {SIZES['groups']} key heads",
        "mqa": "MQA, one key head",
        "mla": f"MLA, latent {SIZES['c']} and {SIZES['p']} rotary",
    }
    stored = {}
    for name in VARIANTS:
        definition = variant(name)
        sizes = {str(p): SIZES[str(p)] for p in definition.parameters}
        stored[names[name]] = int(value_of(definition, sizes, {}))
    most = max(stored.values())
    with drawn(height=2.2) as (figure, axes):
        bars = axes.barh(list(stored), list(stored.values()), color=FIRST, height=0.6)
        axes.bar_label(bars, [f"{n:,}" for n in stored.values()], padding=4)
        axes.invert_yaxis()
        axes.set(xlabel="numbers a token and layer", xlim=(0, 1.12 * most))
        axes.grid(visible=False, axis="y")
        axes.set_xticks(range(0, 32769, 8192), labels=[f"{n:,}" for n in range(0, 32769, 8192)])
        svg = svg_of(figure, "cache-sizes")
    rows = [(name, f"{n:,}", number(n / most)) for name, n in stored.items()]
    return Picture(
        "cache-sizes",
        "Caches by variant",
        f"What one token adds to the cache of a layer with {SIZES['heads']} query heads of size "
        f"{SIZES['d']}. Sharing key heads divides it by heads/groups; a latent is "
        "stored once for all heads.",
        svg,
        ("variant", "numbers", "of the first"),
        tuple(rows),
    )


def spread() -> Picture:
    """A spike before and after the transform."""
    n = 2**BITS
    x = np.where(np.arange(n) % 3 == 0, -0.5, 0.25)
    x[PLACE] = SPIKE
    y = value_of(hadamard("orthonormal"), {"rows": 1, "n": n, "bits": BITS}, {"x": x[None]})[0]
    limit = 1.1 * SPIKE
    with drawn(height=2.8, columns=2) as (figure, before, after):
        for axes, values, color, title in (
            (before, x, FIRST, "before"),
            (after, y, SECOND, "after"),
        ):
            axes.bar(range(n), values, color=color)
            axes.set(xlabel="entry", ylim=(-limit / 2, limit))
            axes.set_title(title, fontsize=10)
            axes.grid(visible=False, axis="x")
        svg = svg_of(figure, "hadamard-spread")
    rows = [(str(i), number(a), number(b)) for i, (a, b) in enumerate(zip(x, y, strict=True))]
    return Picture(
        "hadamard-spread",
        "A vector before and after the Hadamard transform",
        f"Both have the length {number(float(np.linalg.norm(x)))}. The largest entry falls from "
        f"{number(float(np.abs(x).max()))} to {number(float(np.abs(y).max()))}, so that a scale "
        "for eight bits wastes fewer of them.",
        svg,
        ("entry", "before", "after"),
        tuple(rows),
    )


DRAWINGS = (Drawing(("kv_cache", "gqa"), caches), Drawing(("hadamard",), spread))
