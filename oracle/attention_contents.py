"""What queries, keys and values of a drawn call of attention look like.

Scores decide what a call can show: where they are tiny every weight is the same, where they are
large a single key has all the weight, and in half precision large ones cannot be judged. So the
queries are scaled by powers of two that depend on the dtype and make up for the option `scale`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import log2
from typing import Any

import numpy as np

from attnspec.oracle.family import DRESSES, PLAIN, Array, Dress, Shape, stored_shape
from attnspec.oracle.precision import snapped
from attnspec.oracle.values import (
    PATTERNS,
    VALUES,
    Pattern,
    Span,
    filled,
    placed,
    span,
)


@dataclass(frozen=True)
class Contents(Pattern):
    """Patterns of all three; `fill` is that of the queries."""

    keys: Pattern
    values: Pattern
    size: int
    """Logarithm to base 2 of the usual size of the products of queries and keys, over that of
    normal numbers: half precision takes them down by so much."""


_PAIRS: tuple[tuple[str, str, int], ...] = (
    ("normal", "normal", 0),
    ("small integers", "small integers", 2),
    ("normal", "normal", 0),
    ("signs", "signs", 0),
    ("normal", "normal", 0),
    ("normal", "equal rows", 0),
    ("scaled by row", "normal", 1),
    ("normal", "normal", 0),
    ("normal", "sparse", 1),
    ("midpoints", "midpoints", 1),
    ("normal", "normal", 0),
    ("normal", "shifted", 7),
    ("heavy-tailed", "normal", 1),
    ("normal", "normal", 0),
    ("one-hot rows", "normal", 0),
    ("normal", "scaled by row", 1),
    ("halves", "normal", 1),
    ("normal", "normal", 0),
    ("equal rows", "normal", 0),
    ("normal", "cancelling pairs", 0),
    ("normal", "rising ramp", 1),
    ("normal", "normal", 0),
    ("normal", "spike", 7),
)
"""Queries, keys, and the size of their products."""

_CALM = {"normal", "signs", "small integers", "midpoints", "equal rows", "one-hot rows", "halves"}
_SIMPLE: tuple[tuple[str, str, str], ...] = (
    ("zeros", "zeros", "zeros"),
    ("zeros", "zeros", "ones"),
    ("zeros", "zeros", "one-hot"),
    ("zeros", "zeros", "one-hot rows"),
    ("zeros", "zeros", "small integers"),
    ("one-hot rows", "one-hot rows", "one-hot rows"),
    ("one-hot rows", "one-hot rows", "small integers"),
    ("signs", "signs", "one-hot rows"),
    ("signs", "signs", "small integers"),
    ("small integers", "small integers", "small integers"),
    ("normal", "normal", "one-hot rows"),
    ("normal", "normal", "normal"),
)


def _contents(q: str, k: str, v: str, size: int = 0) -> Contents:
    name = f"q {q}, k {k}, v {v}"
    return Contents(name, PATTERNS[q].fill, False, PATTERNS[k], PATTERNS[v], size)


def _turned(
    pairs: tuple[tuple[str, str, int], ...], values: tuple[str, ...], turns: int
) -> Iterator[Contents]:
    """All values in turn, every time beside other pairs."""
    for place in range(turns * len(values)):
        q, k, size = pairs[(place + place // len(values)) % len(pairs)]
        yield _contents(q, k, values[place % len(values)], size)


_FIRST = tuple(_contents(*names) for names in _SIMPLE)
_SEVERAL = tuple(p.name for p in VALUES if p.name not in ("zeros", "tiny", "constant"))
CONTENTS: tuple[Contents, ...] = (*_FIRST, *_turned(_PAIRS, _SEVERAL, 4))
"""Simplest first."""
_EVEN = ("normal", "signs", "small integers", "mean and noise", "normal", "ones", "midpoints")
CALM: tuple[Contents, ...] = (
    *_FIRST,
    *_turned(tuple(p for p in _PAIRS if {*p[:2]} <= _CALM), _EVEN, 8),
)
"""Nothing that stands out, for laws that compare two runs."""
_ALIKE = {"equal rows", "rising ramp", "cancelling pairs", "shifted", "spike"}
_MOVING = tuple(p for p in _PAIRS if not {*p[:2]} & _ALIKE)
_UNLIKE = ("normal", "signs", "small integers", "normal", "midpoints", "sparse", "normal",
           "scaled by row", "halves", "heavy-tailed", "normal")  # fmt: skip
GRADIENTS: tuple[Contents, ...] = (
    *_FIRST,
    *_turned(_MOVING, _UNLIKE, 24),
    *_turned(_PAIRS, ("mean and noise", "one-hot", "ones", "spike"), 1),
)
"""Mostly such that no gradient vanishes as a whole: no keys or values that are all alike."""


def _dresses() -> tuple[Dress, ...]:
    """As for one array, with fewer special numbers: one of them in a key is in every row."""
    one = [dress for dress in DRESSES if len(dress.specials) == 1]
    two = [dress for dress in DRESSES if len(dress.specials) == 2]
    return (*PLAIN, *one, *two[::2], *PLAIN * 20)


SPECIAL: tuple[Dress, ...] = _dresses()
NORMAL: tuple[Dress, ...] = (
    *PLAIN,
    *(d for d in SPECIAL if d.specials and not any("quarter" in name for _, name in d.specials)),
    *PLAIN * 12,
)
"""Without the huge ones, whose gradients nobody can judge."""

_NEAR = (0, 0, -1, 0, 1, 0, 0, -1, 1)
_WIDE = (0, 0, 0, 1, -1, 0, 2, -2, 1, 3, -3, 2, 4)
SHARP: Mapping[str, tuple[int, ...]] = {
    "float64": _WIDE,
    "float32": _WIDE,
    "float16": (0, 0, 0, -1, 1, 0, -2, 1, 2),
    "bfloat16": (-1, 0, -2, -1, 0, -3, -1),
}
"""Exponents of two of the sizes of scores."""
BLUNT: Mapping[str, tuple[int, ...]] = {
    "float64": (0, -1, 1, 0, -2, 2),
    "float32": (0, -1, 1, 0, -2, 2),
    "float16": (-1, 0, -2, -1),
    "bfloat16": (-2, -1, -3),
}
"""The same where two allowances must fit into what is judged."""
STEADY: Mapping[str, tuple[int, ...]] = {**SHARP, "bfloat16": (-2, -3, -1, -4)}
"""As sharp as can be in the others than bfloat16, for laws that compare two runs."""
FAINT: Mapping[str, tuple[int, ...]] = {
    **BLUNT,
    "bfloat16": (-5, -4, -6, -3, -5, -2),
}
"""The same for gradients, in which differences are stored of what was stored."""
_HALVES = ("bfloat16", "float16")
_LIFTED = 4
"""Keys from which values in bfloat16 have a mean: sums over them that cancel cannot be judged."""


@cache
def _span(dtype: str) -> Span:
    """Of queries and keys."""
    return replace(span(dtype, "values"), scales=_NEAR)


def exponent(
    rng: np.random.Generator,
    contents: Contents,
    dtype: str,
    d: int,
    options: Mapping[str, Any],
    sizes: Mapping[str, tuple[int, ...]],
) -> int:
    """Of the power of two by which queries are scaled."""
    scale, cap = options.get("scale"), options.get("softcap")
    sharp = sizes[dtype][int(rng.integers(len(sizes[dtype])))]
    if dtype in _HALVES:
        sharp -= contents.size
    if scale is not None:
        sharp -= round(log2(scale * d**0.5))
    if cap is not None and sizes is SHARP and rng.random() < 0.5:
        # where the cap bends
        sharp += min(max(round(log2(cap)) - 1, 0), 1 if dtype in _HALVES else 4)
    return sharp


def arrays_of(
    rng: np.random.Generator,
    shapes: tuple[Shape, Shape, Shape],
    contents: Contents,
    dress: Dress,
    dtype: str,
    *,
    sharp: int,
    lift: float,
) -> dict[str, Array]:
    """Finite numbers of the dtype that can lie in memory as asked: q, k and v. `lift`: how often
    values in bfloat16 are given a mean."""
    near, wide = _span(dtype), span(dtype, "values")
    patterns: tuple[Pattern, ...] = (contents, contents.keys, contents.values)
    made: list[Array] = []
    for shape, pattern, over in zip(shapes, patterns, (near, near, wide), strict=True):
        # keys and values are repeated for the heads of a group; queries never are
        own = not made and dress.layout == "heads-repeated"
        drawn = shape if own else stored_shape(shape, dress.layout)
        made.append(filled(pattern, rng, drawn, over))
    if sharp:
        scaled = np.clip(np.ldexp(made[0], sharp), -wide.largest, wide.largest)
        made[0] = snapped(scaled, dtype) if dtype == "float16" else scaled
    if dtype == "bfloat16" and shapes[2][2] > _LIFTED and rng.random() < lift:
        made[2] = snapped(_lifted(rng, made[2]), dtype)
    for place, name in dress.specials:
        # a huge number among the values stays within its column
        whole = "quarter" not in name or rng.random() < 0.1
        at = int(rng.integers(3)) if whole else 2
        placed(made[at], ((place, name),), rng, wide)
    return {
        name: values if values.shape == shape else np.broadcast_to(values, shape).copy()
        for name, values, shape in zip("qkv", made, shapes, strict=True)
    }


def _lifted(rng: np.random.Generator, values: Array) -> Array:
    """The same around a mean of twice their size, of another sign for every column."""
    if not values.size:
        return values
    largest = float(np.abs(values).max()) or 1.0
    size = largest * float(np.sqrt(np.mean(np.square(values / largest))))
    return values + 2.0 * size * np.where(rng.random(values.shape[-1]) < 0.5, -1.0, 1.0)
