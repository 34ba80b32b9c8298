"""Value patterns: what the numbers of a drawn array look like.

Ten of them come from the experiment that tightened the error bounds (normal, scaled, heavy-tailed,
large mean with tiny noise, sparse, cancelling pairs, one spike, constant, tiny, mantissas next to
rounding midpoints); the others are the simple ones to which a counterexample shrinks, and the
logits on which softmax programs differ (ties, ramps, gaps). Everything is filled from NumPy's
generator, so a seed gives the same numbers on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from attnspec.oracle.precision import FORMATS, NUMPY_TYPES, snapped

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Span:
    """What the numbers of a dtype range over, for one use of them."""

    dtype: str
    largest: float
    """Largest finite number."""
    normal: float
    """Smallest normal number."""
    ulp: float
    """Spacing of the numbers from 1 to 2."""
    narrower: int
    """Significand of the half-precision format to which kernels may cast these numbers."""
    scales: tuple[int, ...]
    """Exponents of two from which a scale is drawn: log-uniform, the wide ones rarer."""


_NEAR = (0, -1, 1, -2, 2, -3, 3, -4, 4, -6, 6, -8, 8, 10)
_VALUES: Mapping[str, tuple[int, ...]] = {
    "float16": (*_NEAR, -5, 5, 7, 9, 11),
    "bfloat16": (*_NEAR, -10, 12, -12, -24, 24, -48, 48),
    "float32": (*_NEAR, -10, 12, -12, -24, 24, -48, 48),
    "float64": (*_NEAR, -10, 12, -12, -24, 24, -48, 48),
}
# A weight below the normal range is not judged, and a weight that is exactly zero is. So the
# scales at which most weights fall between the two are the rare ones: gaps of 10 to 745 in
# float16, of 87 to 745 in float32 and bfloat16.
_LOW = (0, -1, 1, -2, -3, -4, -6, -8, -12, 0, -1, 1)
_LOGITS: Mapping[str, tuple[int, ...]] = {
    "float16": (*_LOW, 0, 1, -2, -1, 2, 12, 0, 1, -1, 0, 3, 12),
    "bfloat16": (*_LOW, 2, 3, 2, 3, 4, 12, 2, 3, 4, 1, 6, 12),
    "float32": (*_LOW, 2, 3, 2, 3, 4, 12, 2, 3, 4, 1, 6, 12),
    "float64": (*_LOW, 2, 3, 4, 5, 6, 12, 2, 3, 4, 7, 8, 12),
}
USES: Mapping[str, Mapping[str, tuple[int, ...]]] = {"values": _VALUES, "logits": _LOGITS}


@cache
def span(dtype: str, use: str) -> Span:
    """The span of a storage dtype for `values` (linear in the output) or `logits`."""
    width = FORMATS[dtype].width
    finfo: Any = ml_dtypes.finfo
    return Span(
        dtype=dtype,
        largest=float(finfo(NUMPY_TYPES[dtype]).max),
        normal=FORMATS[dtype].normal,
        ulp=2.0 ** (1 - width),
        narrower=FORMATS["bfloat16"].width if width > 8 else 4,
        scales=USES[use][dtype],
    )


Fill = Callable[[np.random.Generator, Shape, Span], Array]


@dataclass(frozen=True)
class Pattern:
    """One named way to fill an array."""

    name: str
    fill: Fill
    signed: bool
    """Whether every element has a random sign of its own (a zero's doesn't count)."""


def scale(rng: np.random.Generator, span: Span) -> float:
    """A power of two, log-uniform over the span's table."""
    return 2.0 ** span.scales[int(rng.random() * len(span.scales))]


def _zeros(_rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return np.zeros(shape)


def _ones(_rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return np.ones(shape)


def _one_hot(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """One 1 in the whole array."""
    values = np.zeros(shape)
    if values.size:
        values.flat[int(rng.random() * values.size)] = 1.0
    return values


def _one_hot_rows(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """One 1 in every row."""
    place = rng.integers(max(shape[-1], 1), size=(*shape[:-1], 1))
    return np.where(np.arange(shape[-1]) == place, 1.0, 0.0)


def _signs(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return np.where(rng.random(shape) < 0.5, -1.0, 1.0)


def _small_integers(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return rng.integers(-3, 4, shape).astype(np.float64)


def _halves(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return rng.integers(-8, 9, shape) * 0.5


def _normal(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    return rng.standard_normal(shape) * scale(rng, span)


def _row_scales(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    """Normal numbers, every row on a scale of its own."""
    near = np.asarray(span.scales[:9])
    exponents = near[rng.integers(len(near), size=(*shape[:-1], 1))]
    return np.asarray(np.ldexp(rng.standard_normal(shape), exponents))


def _heavy_tailed(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return np.clip(rng.standard_t(1.5, shape), -4096.0, 4096.0)


def _mean_and_noise(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    """A large mean, and noise of a few ulps of it."""
    mean = 2.0 ** rng.integers(3, 11) * (1.0 + rng.random()) * (1.0 if rng.random() < 0.5 else -1.0)
    return mean * (1.0 + 4.0 * span.ulp * rng.standard_normal(shape))


def _shifted(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """Normal numbers around a mean at which an exponential overflows float16 or float32."""
    return rng.standard_normal(shape) + (12.0, 100.0, 200.0, 1000.0, -100.0)[rng.integers(5)]


def _sparse(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return np.where(rng.random(shape) < 0.15, rng.standard_normal(shape) * 4.0, 0.0)


def _cancelling(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    """Neighbours that cancel but for a few ulps."""
    values = rng.standard_normal(int(np.prod(shape))) * scale(rng, span)
    half = values.size // 2
    values[1 : 2 * half : 2] = -values[0 : 2 * half : 2] * (1.0 + 2.0 * span.ulp)
    return values.reshape(shape)


def _spike(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """Small numbers and a large one."""
    values = rng.standard_normal(shape) * 0.125
    if values.size:
        values.flat[int(rng.random() * values.size)] = 2.0 ** rng.integers(2, 12)
    return values


def _constant(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    return np.full(shape, rng.standard_normal() * scale(rng, span))


def _equal_rows(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return np.broadcast_to(rng.standard_normal(shape[-1]), shape).copy()


def _tiny(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    """Around the smallest normal number, subnormals among them."""
    return rng.standard_normal(shape) * (span.normal * 2.0 ** rng.integers(-1, 12))


def _midpoints(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    """Mantissas an ulp beside a midpoint of the narrower format, or beside a power of two."""
    steps = 2**span.narrower
    mantissa = 1.0 + (rng.integers(0, steps // 2, shape) * 2 + 1) / steps
    mantissa += rng.integers(-1, 2, shape) * span.ulp
    signed = _signs(rng, shape, span) * mantissa
    return np.asarray(np.ldexp(signed, rng.integers(-2, 2, shape)))


def _ramp(_rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """Rising from -4 to 4: every element is a new maximum."""
    return np.linspace(-4.0, 4.0, int(np.prod(shape))).reshape(shape)


def _falling_ramp(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    return -_ramp(rng, shape, span)


def _gaps(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """Logits at 0 and at both ends of a large gap."""
    size = 1000.0 if rng.random() < 0.75 else 100.0
    return rng.integers(-1, 2, shape) * size


def _ties(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """The maximum several times over."""
    values = rng.standard_normal(shape)
    return np.where(rng.random(shape) < 0.4, values.max(initial=0.0), values)


PATTERNS: Mapping[str, Pattern] = {
    p.name: p
    for p in (
        Pattern("zeros", _zeros, signed=False),
        Pattern("ones", _ones, signed=False),
        Pattern("one-hot", _one_hot, signed=False),
        Pattern("one-hot rows", _one_hot_rows, signed=False),
        Pattern("signs", _signs, signed=True),
        Pattern("small integers", _small_integers, signed=True),
        Pattern("halves", _halves, signed=True),
        Pattern("normal", _normal, signed=True),
        Pattern("constant", _constant, signed=False),
        Pattern("equal rows", _equal_rows, signed=False),
        Pattern("rising ramp", _ramp, signed=False),
        Pattern("falling ramp", _falling_ramp, signed=False),
        Pattern("ties of the maximum", _ties, signed=False),
        Pattern("large gaps", _gaps, signed=False),
        Pattern("sparse", _sparse, signed=True),
        Pattern("scaled by row", _row_scales, signed=True),
        Pattern("heavy-tailed", _heavy_tailed, signed=True),
        Pattern("mean and noise", _mean_and_noise, signed=False),
        Pattern("shifted", _shifted, signed=False),
        Pattern("cancelling pairs", _cancelling, signed=False),
        Pattern("spike", _spike, signed=False),
        Pattern("tiny", _tiny, signed=True),
        Pattern("midpoints", _midpoints, signed=True),
    )
}
"""Simplest first: counterexamples shrink towards the front."""

_LOGITS_ONLY = ("shifted", "large gaps", "ties of the maximum")
# nothing of the first is wrong in any program that is linear, and nothing of the second is judged
_RARE = ("zeros", "tiny", "ones", "constant", "equal rows", "rising ramp", "falling ramp")
_LINEAR = tuple(p for p in PATTERNS.values() if p.name not in _LOGITS_ONLY)
VALUES: tuple[Pattern, ...] = (
    *_LINEAR,
    *(p for p in _LINEAR if p.name not in _RARE),
    *(PATTERNS["normal"],) * 8,
)
"""For arrays in which the output is linear; repeated as often as they shall be drawn."""
LOGITS: tuple[Pattern, ...] = (
    *PATTERNS.values(),
    *(PATTERNS["normal"],) * 6,
    PATTERNS["shifted"],
    PATTERNS["ties of the maximum"],
)


def filled(pattern: Pattern, rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    """Finite numbers of the dtype in a pattern, as float64."""
    values = pattern.fill(rng, shape, span)
    values = np.maximum(np.minimum(values, span.largest), -span.largest)
    return values if span.dtype == "float64" else snapped(values, span.dtype)


SPECIALS: Mapping[str, Callable[[Span], float]] = {
    "0": lambda _: 0.0,
    "1": lambda _: 1.0,
    "-1": lambda _: -1.0,
    "-0": lambda _: -0.0,
    "smallest normal": lambda span: span.normal,
    "minus smallest normal": lambda span: -span.normal,
    "quarter of the largest": lambda span: span.largest / 4.0,
    "minus quarter of the largest": lambda span: -span.largest / 4.0,
}
"""Numbers that programs treat differently from their neighbours."""
PLACES = ("first", "last", "any")


@cache
def special(name: str, span: Span) -> float:
    """A special number of a dtype."""
    return float(snapped(np.asarray(SPECIALS[name](span)), span.dtype))


def placed(
    values: Array, specials: tuple[tuple[str, str], ...], rng: np.random.Generator, span: Span
) -> Array:
    """Writes (place, name of a special) into the array and returns it; an empty one stays."""
    if values.size:
        for place, name in specials:
            last = values.size - 1
            where = 0 if place == "first" else last if place == "last" else rng.integers(last + 1)
            values.flat[int(where)] = special(name, span)
    return values
