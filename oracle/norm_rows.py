"""Rows of channels for norms: shapes with any leading axes, values on which statistics differ, and
eps in its usual sizes. Layer norm and RMS norm draw from the same tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnspec.oracle.family import DRESSES, Dress, Form, Scope, stored_shape
from attnspec.oracle.precision import FORMATS, snapped
from attnspec.oracle.shapes import Need, Shape, fitted
from attnspec.oracle.values import PATTERNS, Pattern, Span, filled, placed

Array = np.ndarray[Any, Any]

NORM_SHAPES: tuple[Shape, ...] = (
    (2,), (1, 2), (2, 2), (3, 2), (2, 3), (3, 1), (3,), (1, 3), (3, 5), (5, 3), (2, 3, 4),
    (3, 2, 5), (4, 7), (7, 4), (5, 8), (2, 5, 6), (8, 3, 2), (3, 2, 4, 5), (2, 3, 2, 7), (2, 1, 8),
    (3, 9), (9, 6), (2, 5, 3, 8), (4, 1), (2, 3, 10), (5, 12), (12, 5), (1, 1, 6), (2, 1, 3, 9),
    (3, 15), (5, 16), (2, 17), (17, 6), (2, 16, 5), (2, 4, 17), (33, 4), (3, 31), (2, 5, 32),
    (3, 33), (16,), (40,), (2, 3, 2, 33), (65, 3), (3, 63), (2, 3, 64), (5, 65), (64, 7), (96, 5),
    (3, 100), (2, 127), (5, 128), (3, 2, 129), (130, 6), (2, 255), (3, 256), (2, 257), (257,),
    (300, 3), (3, 2, 257), (2, 384), (5, 512), (3, 513), (2, 768), (1, 1023), (2, 1024), (2, 1025),
    (1025,), (3, 2, 2, 640),
)  # fmt: skip
"""The last axis is the row. Up to three axes before it, or none; rows beyond a block of 32 in
which gradients are added up; widths on both sides of the tiles that kernels use."""

ROW = "m"
"""The letter of a row's width."""

EPS: tuple[float | None, ...] = (
    None, 1e-6, 1e-5, None, 1e-3, 1e-8, None, 0.0625, 1e-12, 1.0, 1e-5, 2.0**-20,
)  # fmt: skip
"""What is handed over, `None` for left out."""


@dataclass(frozen=True)
class Rows(Pattern):
    """One named way to fill rows."""

    near_eps: bool = False
    """Whether every row is to be scaled so that its mean square is about eps."""


def _entries(rng: np.random.Generator, shape: Shape, many: int) -> Array:
    """True at a few places of every row."""
    places = rng.integers(max(shape[-1], 1), size=(*shape[:-1], many))
    found = np.zeros(shape, dtype=bool)
    np.put_along_axis(found, places, values=True, axis=-1)
    return found


def _signs(rng: np.random.Generator, shape: Shape) -> Array:
    return np.where(rng.random(shape) < 0.5, -1.0, 1.0)


def _means(rng: np.random.Generator, shape: Shape, low: int, high: int) -> Array:
    """A number for every row, of a size between two powers of two."""
    one = (*shape[:-1], 1)
    mantissas = 1.0 + rng.random(one)
    return np.ldexp(_signs(rng, one) * mantissas, rng.integers(low, high, one))


def _alternating(_rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """1 and -1 by turns: in a row of even width the mean is 0 and the variance 1."""
    return np.broadcast_to(np.where(np.arange(shape[-1]) % 2 == 0, 1.0, -1.0), shape).copy()


def _balanced(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    """The same, every row of another size around 1."""
    sizes = np.exp2(rng.uniform(-2.0, 2.0, (*shape[:-1], 1)))
    return _alternating(rng, shape, span) * sizes


def _constant_rows(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return np.broadcast_to(_means(rng, shape, -3, 3), shape).copy()


def _closest(span: Span, width: int) -> float:
    """How close to a large mean entries may come, as a share of it: what the error of a mean of so
    many, in the precision of statistics, leaves room for. One pass over the squares loses most of
    a variance at this distance."""
    double = span.dtype == "float64"
    return max(2.0**-26 if double else 2.0**-12, width * 2.0 ** (-48 if double else -19))


def _constant_small_rows(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return np.broadcast_to(_means(rng, shape, -12, -5), shape).copy()


def _step(span: Span, width: int) -> float:
    """The smallest such distance that is at least a unit in the last place."""
    return max(span.ulp, _closest(span, width))


def _mean_and_spread(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    """A large mean, and numbers around it whose deviation is a small share of it."""
    smallest = -int(np.log2(_step(span, shape[-1]))) - 1
    shares = np.ldexp(1.0, -rng.integers(smallest // 2, smallest, (*shape[:-1], 1)))
    return _means(rng, shape, 3, 11) * (1.0 + shares * rng.standard_normal(shape))


def _mean_and_steps(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    """A large mean, which half of the entries miss by a few of the smallest steps."""
    steps = rng.integers(-3, 4, shape) * (rng.random(shape) < 0.5)
    return np.asarray(_means(rng, shape, 3, 11) * (1.0 + _step(span, shape[-1]) * steps))


def _all_but_one(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    """Equal numbers but for one, which is larger: by so much more than a step as the deviation of
    the row is less than that."""
    far = max(span.ulp, _closest(span, shape[-1]) * float(np.sqrt(shape[-1])))
    steps = np.ldexp(far, rng.integers(0, 3, (*shape[:-1], 1)))
    return _means(rng, shape, 3, 11) * (1.0 + steps * _entries(rng, shape, 1))


def _outlier(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """Small numbers and a large one in every row."""
    largest = _means(rng, shape, 2, 11)
    return np.where(_entries(rng, shape, 1), largest, 0.125 * rng.standard_normal(shape))


def _large(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """Numbers whose squares, or the sums of these, overflow float16."""
    return rng.standard_normal(shape) * np.abs(_means(rng, shape, 6, 13))


def _large_mean(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """Numbers of which the sum overflows float16."""
    return _means(rng, shape, 12, 14) + rng.standard_normal(shape) * 512.0


def _near(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """Normal numbers, every row of another size around 1."""
    sizes = np.ldexp(1.0, rng.integers(-2, 3, (*shape[:-1], 1)))
    return rng.standard_normal(shape) * sizes


def _near_with_mean(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    return _near(rng, shape, span) + rng.integers(-4, 5, (*shape[:-1], 1))


def _some_zero_rows(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    kept = rng.random((*shape[:-1], 1)) < 0.5
    return rng.standard_normal(shape) * kept


def _rows(name: str, fill: Callable[..., Array], **more: bool) -> Rows:
    return Rows(name, fill, signed=False, **more)


_NEAR = (
    _rows("near eps", _near, near_eps=True),
    _rows("near eps, with a mean", _near_with_mean, near_eps=True),
)
BALANCED: tuple[Rows, ...] = (_rows("1 and -1 by turns, near eps", _balanced, near_eps=True),)
"""Rows of mean 0 whose mean square is a number of the dtype, squared: about eps."""
OFFSET: tuple[Rows, ...] = (
    _rows("a mean and a small spread", _mean_and_spread),
    _rows("a mean and a few steps", _mean_and_steps),
    _rows("all but one equal", _all_but_one),
)
"""Rows whose mean is large beside their deviation."""
CONSTANT: tuple[Rows, ...] = (
    _rows("zeros", PATTERNS["zeros"].fill),
    _rows("ones", PATTERNS["ones"].fill),
    _rows("equal entries", _constant_rows),
)
SMALL: tuple[Rows, ...] = (CONSTANT[0], _rows("equal small entries", _constant_small_rows))
"""Rows of one number each, of which no norm makes a large one."""
SPREAD: tuple[Rows, ...] = (
    _rows("1 and -1 by turns", _alternating),
    _rows("normal", _near),
    *_NEAR,
    _rows("an outlier", _outlier),
    _rows("large", _large),
    _rows("large mean", _large_mean),
    *(
        _rows(name, PATTERNS[name].fill)
        for name in (
            "signs", "small integers", "halves", "one-hot rows", "sparse", "heavy-tailed",
            "scaled by row", "midpoints",
        )
    ),
)  # fmt: skip
"""Rows that a norm tells apart, whose mean is not large beside their deviation."""
ROWS: tuple[Rows, ...] = (
    *CONSTANT,
    _rows("some rows of zeros", _some_zero_rows),
    *SPREAD,
    _rows("cancelling pairs", PATTERNS["cancelling pairs"].fill),
    _rows("normal at any scale", PATTERNS["normal"].fill),
    *OFFSET,
    *SPREAD,
    *_NEAR,
    *OFFSET,
    *(_rows("normal", _near),) * 3,
)
"""Simplest first; repeated as often as they shall be drawn."""


NORM_DRESSES: tuple[Dress, ...] = tuple(
    dress for dress in DRESSES if not any("largest" in name for _, name in dress.specials)
)
"""Memory layouts and special numbers whose squares do not overflow: beside one that does, nothing
is promised of a row, nor of what gradients sum over rows."""


def within_reach(eps: float, dtype: str) -> bool:
    """Whether a dtype has numbers of several bits whose squares are about eps."""
    return eps > (128.0 * FORMATS[dtype].underflow) ** 2


def filled_rows(
    rng: np.random.Generator, shape: Shape, rows: Rows, dress: Dress, span: Span, eps: float
) -> Array:
    """Rows of numbers of the dtype, as float64, that lie in memory as asked; a single row never
    repeats along itself."""
    drawn = shape if len(shape) == 1 else stored_shape(shape, dress.layout)
    values = filled(rows, rng, drawn, span)
    if rows.near_eps and within_reach(eps, span.dtype):
        values = snapped(rows.fill(rng, drawn, span) * eps**0.5, span.dtype)
    values = placed(values, dress.specials, rng, span)
    return values if drawn == shape else np.broadcast_to(values, shape).copy()


def row_shapes(
    scope: Scope, table: tuple[Shape, ...] = NORM_SHAPES, need: Need = bool
) -> tuple[Shape, ...]:
    """The shapes of a table, with widths that the limits allow and the call needs. Raises
    ValueError when none is left."""
    found: list[Shape] = []
    for rank in sorted({len(shape) for shape in table}):
        axes = (*(f"axis {place}" for place in range(rank - 1)), ROW)
        of_rank = tuple(shape for shape in table if len(shape) == rank)
        found += fitted(of_rank, axes, scope.limits, {ROW: need})
    order = {shape: place for place, shape in enumerate(table)}
    return tuple(sorted(found, key=lambda s: order.get(s, len(order))))


def eps_forms(
    scope: Scope, shapes: tuple[Shape, ...], sizes: tuple[float | None, ...] = EPS
) -> tuple[Form, ...]:
    """Every shape with every eps, or without any where the function takes none."""
    taken = sizes if "eps" in scope.accepts else (None,)
    return tuple(Form(shape, {} if e is None else {"eps": e}) for e in taken for shape in shapes)


def no_rows(scope: Scope) -> tuple[Shape, ...]:
    """Shapes with an axis of no entries before the row."""
    filled_up = row_shapes(scope, ((1, 3), (1, 2, 5), (2, 1, 3), (1, 8), (2, 1, 3, 5)))
    return tuple((*s[:-2], 0, s[-1]) for s in filled_up) + tuple(
        (0, *s[1:]) for s in filled_up if len(s) > 2
    )


def several_rows(shape: Shape) -> bool:
    """Whether rows can be told apart."""
    return int(np.prod(shape[:-1])) > 1


# -- weights ------------------------------------------------------------------------------------


def _uniform(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return rng.uniform(0.25, 2.0, shape) * _signs(rng, shape)


def _near_one(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return 1.0 + 0.125 * rng.standard_normal(shape)


def _powers(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return np.ldexp(_signs(rng, shape), rng.integers(-2, 3, shape))


def _some_zeros(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    return _uniform(rng, shape, span) * (rng.random(shape) < 0.7)


GAINS: tuple[Pattern, ...] = (
    PATTERNS["ones"],
    Pattern("powers of two", _powers, signed=False),
    Pattern("uniform", _uniform, signed=False),
    Pattern("uniform", _uniform, signed=False),
    Pattern("near one", _near_one, signed=False),
    Pattern("some zeros", _some_zeros, signed=False),
)
"""For weights and biases, simplest first."""


def channels(rng: np.random.Generator, width: int, pattern: Pattern, span: Span) -> Array:
    """A number of the dtype for each channel."""
    return filled(pattern, rng, (width,), span)


def as_rows(x: Array) -> Array:
    """The leading axes as one."""
    return x.reshape(-1, x.shape[-1])
