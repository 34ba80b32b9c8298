"""What the numbers of a call of latent attention look like.

A score is made of four matrices after another, so that in half precision nothing is known of a
large one: there the weights of queries are small. Sums in which nothing cancels, and matrices that
select one channel each, are judged in every dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnspec.oracle.family import Dress, stored_shape
from attnspec.oracle.precision import snapped
from attnspec.oracle.shapes import Shape
from attnspec.oracle.values import Pattern, Span, span

Array = np.ndarray[Any, Any]

AXES = ("b", "n", "m", "r", "c", "h", "d", "e", "p")
HALF = ("bfloat16", "float16")
LONG = 200
"""Terms of a sum over all tokens, heads and channels that half precision still knows."""


@dataclass(frozen=True)
class Contents(Pattern):
    """How the numbers of a call look; `fill` is that of x."""

    scores: str
    """The weights of queries and keys, one of `FILLS`."""
    values: str
    """Those of values and of the output, and of the latent."""
    size: int
    """Exponent of two for the weights of queries; half precision has a smaller one."""


Fill = Callable[[np.random.Generator, Shape], Array]


def _normal(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.standard_normal(shape)


def _positive(rng: np.random.Generator, shape: Shape) -> Array:
    return 0.25 + np.abs(rng.standard_normal(shape))


def _selecting(rng: np.random.Generator, shape: Shape) -> Array:
    """Every column has one number, a power of two with a sign, as large as a column of others."""
    rows, columns = shape
    made = np.zeros(shape)
    sizes = np.ldexp(1.0, rng.integers(-1, 2, columns)) * np.sqrt(rows)
    made[rng.integers(rows, size=columns), np.arange(columns)] = sizes * _signs(rng, columns)
    return made


def _signs(rng: np.random.Generator, shape: Any) -> Array:
    return np.where(rng.random(shape) < 0.5, -1.0, 1.0)


def _whole(rng: np.random.Generator, shape: Shape) -> Array:
    return np.rint(rng.standard_normal(shape) * 1.5)


FILLS: Mapping[str, Fill] = {
    "zeros": lambda rng, shape: np.zeros(shape),
    "ones": lambda rng, shape: np.ones(shape),
    "normal": _normal,
    "positive": _positive,
    "selecting": _selecting,
    "whole": _whole,
}


def _contents(x: str, scores: str, values: str, size: int = 0) -> Contents:
    def fill(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
        return FILLS[x](rng, shape)

    name = f"x {x}, weights of scores {scores}, of values {values}"
    return Contents(name if not size else f"{name}, times 2^{size}", fill, False, scores, values,
                    size)  # fmt: skip


CONTENTS: tuple[Contents, ...] = (
    _contents("ones", "zeros", "ones"),
    _contents("whole", "zeros", "ones"),
    _contents("whole", "selecting", "selecting"),
    *(
        _contents(x, scores, values, size)
        for x, scores, values, size in (
            ("normal", "normal", "normal", 0),
            ("normal", "selecting", "selecting", 0),
            ("positive", "normal", "positive", 0),
            ("normal", "normal", "normal", 2),
            ("normal", "normal", "selecting", 1),
            ("normal", "selecting", "normal", 2),
            ("positive", "selecting", "positive", 1),
            ("whole", "selecting", "selecting", 1),
            ("positive", "normal", "positive", 2),
            ("normal", "normal", "normal", 1),
            ("normal", "selecting", "selecting", 3),
            ("normal", "normal", "normal", -2),
        )
    ),
)
"""Simplest first."""
CALM = tuple(_contents("normal", "normal", "normal", size) for size in (0, -1, 1))
"""Weights of which no one is nearly 1, and no product is zero."""
TELLING = CONTENTS[3:]
"""In which no weight is the same for all."""


def shapes_of(size: Mapping[str, int]) -> dict[str, Shape]:
    """x and the weights."""
    b, n, m, r, c, h, d, e, p = (size[axis] for axis in AXES)
    return {
        "x": (b, n, m), "w_dq": (m, r), "w_uq": (r, h * d), "w_qr": (r, h * p), "w_dkv": (m, c),
        "w_uk": (c, h * d), "w_uv": (c, h * e), "w_kr": (m, p), "w_o": (h * e, m),
    }  # fmt: skip


def filled_arrays(
    rng: np.random.Generator, size: Mapping[str, int], contents: Contents, dress: Dress, dtype: str
) -> dict[str, Array]:
    """x and the weights, of which each keeps numbers of order 1 where they were so before."""
    smaller = {"bfloat16": 3, "float16": 1}.get(dtype, 0)
    scores, of_values = contents.scores, contents.values
    # of long sums of either sign half precision knows little
    positive, exponent = False, contents.size
    if dtype == "bfloat16" and rng.random() < 0.75:
        exponent = min(exponent, 0) - 1
    many = size["m"] * size["c"] * size["n"] * size["h"] * size["e"] > LONG
    if dtype in HALF and many and rng.random() < 0.75:
        scores, of_values = (
            "selecting" if kind == "normal" else kind for kind in (scores, of_values)
        )
        positive = True
    made = {}
    for name, shape in shapes_of(size).items():
        stored = stored_shape(shape, dress.layout)
        if name == "x":
            values = contents.fill(rng, stored, span(dtype, "values"))
            values = np.abs(values) if positive else values
        else:
            asks = name in ("w_dq", "w_uq", "w_qr", "w_uk", "w_kr")
            values = FILLS[scores if asks else of_values](rng, stored)
            fan = shape[0] if (not asks) and of_values == "positive" else shape[0] ** 0.5
            values = values / fan
            if name in ("w_uq", "w_qr"):
                values = np.ldexp(values, exponent - smaller)
        values = snapped(values, dtype)
        made[name] = values if stored == shape else np.broadcast_to(values, shape).copy()
    return made
