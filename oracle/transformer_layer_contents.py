"""How the numbers of a Llama-style layer's calls look: x, and weights of several kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnspec.oracle.values import Pattern, Span

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Contents(Pattern):
    """How the numbers of a call look; `fill` is that of x."""

    scores: str
    """The weights of queries and keys, one of `FILLS`."""
    values: str
    """Those of values, output and network."""
    sizes: tuple[int, int]
    """Exponents of two: for weights of queries and keys, and for those of values, output, network.
    Half precision has smaller ones."""
    small: bool = False
    """Whether rows have a size of about the root of eps."""


Fill = Callable[[np.random.Generator, Shape], Array]


def _signs(rng: np.random.Generator, shape: Any) -> Array:
    return np.where(rng.random(shape) < 0.5, -1.0, 1.0)


def _positive(rng: np.random.Generator, shape: Shape) -> Array:
    return 0.25 + np.abs(rng.standard_normal(shape))


def _selecting(rng: np.random.Generator, shape: Shape) -> Array:
    """Every column has one number, a power of two with a sign, as large as a column of others."""
    rows, columns = shape
    made = np.zeros(shape)
    sizes = np.ldexp(1.0, rng.integers(-1, 2, columns)) * np.sqrt(rows)
    made[rng.integers(rows, size=columns), np.arange(columns)] = sizes * _signs(rng, columns)
    return made


def gains(rng: np.random.Generator, shape: Shape) -> Array:
    """Gains of a norm, of both signs and of sizes that differ."""
    return rng.uniform(0.5, 1.5, shape) * _signs(rng, shape)


FILLS: Mapping[str, Fill] = {
    "zeros": lambda rng, shape: np.zeros(shape),
    "ones": lambda rng, shape: np.ones(shape),
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "positive": _positive,
    "selecting": _selecting,
    "whole": lambda rng, shape: np.rint(rng.standard_normal(shape) * 1.5),
}


def _contents(
    x: str, scores: str, values: str, sizes: tuple[int, int] = (0, 0), small: bool = False
) -> Contents:
    def fill(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
        return FILLS[x](rng, shape)

    name = f"x {x}{' about eps' if small else ''}, weights of scores {scores}, others {values}"
    return Contents(name if sizes == (0, 0) else f"{name}, times 2^{sizes[0]} and 2^{sizes[1]}",
                    fill, False, scores, values, sizes, small)  # fmt: skip


CONTENTS: tuple[Contents, ...] = (
    _contents("ones", "zeros", "ones"),
    _contents("whole", "zeros", "ones"),
    _contents("whole", "selecting", "selecting"),
    *(
        _contents(x, scores, values, sizes)
        for x, scores, values, sizes in (
            ("normal", "normal", "normal", (0, 0)),
            ("normal", "selecting", "selecting", (0, 0)),
            ("positive", "normal", "positive", (0, 0)),
            ("normal", "normal", "normal", (1, 0)),
            ("normal", "normal", "selecting", (0, -1)),
            ("normal", "selecting", "normal", (1, 0)),
            ("positive", "selecting", "positive", (0, -1)),
            ("whole", "selecting", "selecting", (0, 0)),
            ("positive", "normal", "positive", (1, 0)),
            ("normal", "normal", "normal", (0, 1)),
            ("normal", "selecting", "selecting", (1, 1)),
            ("normal", "normal", "normal", (-1, -1)),
        )
    ),
)
"""Simplest first."""
TELLING = CONTENTS[3:]
"""In which no weight is the same for all."""
AT_EPS = tuple(
    _contents(x, scores, values, (0, size), small=True)
    for x, scores, values, size in (
        ("ones", "normal", "selecting", -1),
        ("positive", "normal", "normal", -1),
        ("normal", "selecting", "positive", 0),
        ("whole", "normal", "selecting", 0),
    )
)
SMALLER: Mapping[str, tuple[int, int]] = {"bfloat16": (2, 2), "float16": (1, 1)}
"""By how many powers of two weights are smaller in half precision."""
