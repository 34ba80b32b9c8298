"""Biases that are added to the scores of a drawn call of attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from attnspec.oracle.attention_masks import positions
from attnspec.oracle.family import Array, Shape

LOW = -1e4
"""A number that models write for minus infinity; it is a number."""


@dataclass(frozen=True)
class Bias:
    """One named way to fill a bias."""

    name: str
    axes: str
    """As those of a mask."""
    fill: Callable[[np.random.Generator, Shape, str], Array]
    """From a generator, the shape b h t s with 1 where repeated, and the dtype, to the numbers."""


def _zeros(_rng: np.random.Generator, shape: Shape, _dtype: str) -> Array:
    return np.zeros(shape)


def _integers(rng: np.random.Generator, shape: Shape, _dtype: str) -> Array:
    return rng.integers(-2, 3, shape).astype(np.float64)


def _normal(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    sizes = (0.25, 0.5, 0.125) if dtype == "bfloat16" else (1.0, 0.25, 2.0)
    return rng.standard_normal(shape) * sizes[int(rng.integers(3))]


def _row_constants(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    """A number for every row, which no output depends on, and little besides."""
    size = 1.0 if dtype in ("bfloat16", "float16") else 16.0
    rows = size * rng.standard_normal((*shape[:-1], 1))
    return np.asarray(rows + 0.25 * rng.standard_normal(shape))


def _slopes(rng: np.random.Generator, shape: Shape, _dtype: str) -> Array:
    """Falling with the distance, by another slope for every head."""
    h, t, s = shape[-3:]
    slopes = np.exp2(-8.0 * np.arange(1, h + 1) / h)[:, None, None]
    distance = np.abs(np.arange(s) - (positions(t, s) if t > 1 else s - 1))
    return np.broadcast_to(-slopes * distance, shape).copy()


def _low(rng: np.random.Generator, shape: Shape, _dtype: str) -> Array:
    """Many keys far down, which is not hidden; each row keeps one."""
    kept = np.arange(shape[-1]) == rng.integers(shape[-1], size=(*shape[:-1], 1))
    return np.where((rng.random(shape) < 0.4) & ~kept, LOW, 0.5 * rng.standard_normal(shape))


def _low_row(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    """A whole row far down, as far as its scores still count there."""
    values = 0.5 * rng.standard_normal(shape)
    row = int(rng.integers(values.size // shape[-1]))
    values.reshape(-1, shape[-1])[row] = {"bfloat16": -8.0, "float16": -64.0}.get(dtype, LOW)
    return values


def _one_up(rng: np.random.Generator, shape: Shape, _dtype: str) -> Array:
    """One key far up in every row."""
    at = rng.integers(shape[-1], size=(*shape[:-1], 1))
    return np.where(np.arange(shape[-1]) == at, 4.0, 0.25 * rng.standard_normal(shape))


def _hidden(share: float, rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    return np.where(rng.random(shape) < share, -np.inf, _normal(rng, shape, dtype))


def _triangle(_rng: np.random.Generator, shape: Shape, _dtype: str) -> Array:
    """Zeros up to the diagonal."""
    t, s = shape[-2:]
    return np.broadcast_to(np.where(np.arange(s) <= positions(t, s), 0.0, -np.inf), shape).copy()


def _one_hidden(rng: np.random.Generator, shape: Shape, _dtype: str) -> Array:
    values = np.zeros(shape)
    values.flat[int(rng.integers(values.size))] = -np.inf
    return values


BIASES: tuple[Bias, ...] = (
    Bias("zeros", "t s", _zeros),
    Bias("small integers", "t s", _integers),
    Bias("small integers", "b h t s", _integers),
    Bias("normal", "t s", _normal),
    Bias("normal", "1 h t s", _normal),
    Bias("normal", "b h t s", _normal),
    Bias("slopes", "1 h t s", _slopes),
    Bias("slopes", "h 1 s", _slopes),
    Bias("normal", "b 1 1 s", _normal),
    Bias("row constants", "b h t s", _row_constants),
    Bias("normal", "b h t 1", _normal),
    Bias("small integers", "1 h 1 1", _integers),
    Bias("one key up", "b 1 t s", _one_up),
    Bias("-1e4", "b h t s", _low),
    Bias("-1e4", "b 1 1 s", _low),
    Bias("a row at -1e4", "t s", _low_row),
    Bias("normal", "h t s", _normal),
    Bias("normal", "b h t s", _normal),
)
"""Finite ones, simplest first."""

ONE_HIDDEN = Bias("one minus infinity", "b h t s", _one_hidden)
HIDING: tuple[Bias, ...] = (
    Bias("one minus infinity", "t s", _one_hidden),
    Bias("triangle of minus infinity", "t s", _triangle),
    Bias("some minus infinity", "b h t s", partial(_hidden, 0.3)),
    Bias("some minus infinity", "1 h t s", partial(_hidden, 0.5)),
    Bias("some minus infinity", "b 1 1 s", partial(_hidden, 0.4)),
    ONE_HIDDEN,
)
"""Biases that hide keys, as a mask does."""


def _empty_row(rng: np.random.Generator, shape: Shape, _dtype: str) -> Array:
    values = 0.5 * rng.standard_normal(shape)
    row = int(rng.integers(values.size // shape[-1]))
    values.reshape(-1, shape[-1])[row] = -np.inf
    return values


def _empty_entry(rng: np.random.Generator, shape: Shape, _dtype: str) -> Array:
    values = np.zeros(shape)
    values[int(rng.integers(shape[0]))] = -np.inf
    return values


ROW_HIDDEN = Bias("a row of minus infinity", "b h t s", _empty_row)
EMPTYING: tuple[Bias, ...] = (
    Bias("a row of minus infinity", "t s", _empty_row),
    ROW_HIDDEN,
    Bias("a row of minus infinity", "1 h t s", _empty_row),
    Bias("a batch entry of minus infinity", "b 1 1 s", _empty_entry),
)
"""Some row sees nothing."""
