"""Integer positions, and tables of cosines and sines, that rotations are driven with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Edge(NamedTuple):
    """A position at which number formats run out."""

    start: int
    reason: str


EDGES: tuple[Edge, ...] = (
    Edge(255, "the last positions that bfloat16 tells apart"),
    Edge(256, "bfloat16 holds every integer up to 256"),
    Edge(257, "not a bfloat16 number"),
    Edge(258, "a bfloat16 number again"),
    Edge(2047, "the last positions that float16 tells apart"),
    Edge(2048, "float16 holds every integer up to 2048"),
    Edge(2049, "not a float16 number"),
    Edge(32767, "the largest int16"),
    Edge(32768, "one more than the largest int16"),
    Edge(32769, "two more than the largest int16"),
    Edge(65535, "the largest uint16; float16 overflows"),
    Edge(65536, "one more than the largest uint16"),
    Edge(65537, "not a float16, bfloat16 or TF32 number"),
    Edge(131071, "the last position of a context of 2^17"),
)

WIDE = 2**17
"""Random positions lie below, but for a few."""
WIDEST = 2**20


@dataclass(frozen=True)
class Positions:
    """One named way to fill an array of positions."""

    name: str
    fill: Callable[[np.random.Generator, int, int], Array]
    """From a generator, the rows and the length to int64 of shape (rows, length)."""


def _running(_rng: np.random.Generator, rows: int, n: int) -> Array:
    return np.zeros((rows, 1), np.int64) + np.arange(n)


def _zero(_rng: np.random.Generator, rows: int, n: int) -> Array:
    return np.zeros((rows, n), np.int64)


def _continued(rng: np.random.Generator, rows: int, n: int) -> Array:
    """A few tokens are in the cache already, as many for every row."""
    return _running(rng, rows, n) + rng.integers(1, 17)


def _offsets(rng: np.random.Generator, rows: int, n: int) -> Array:
    """Every row of the batch starts elsewhere."""
    return rng.permutation(rows)[:, None] * rng.integers(1, 40) + np.arange(n) + rng.integers(40)


def _edge(rng: np.random.Generator, rows: int, n: int) -> Array:
    starts = np.asarray([EDGES[int(i)].start for i in rng.integers(len(EDGES), size=rows)])
    return starts[:, None] + np.arange(n)


def _repeated(rng: np.random.Generator, rows: int, n: int) -> Array:
    return _running(rng, rows, n) // rng.integers(2, 4) + rng.integers(100, size=(rows, 1))


def _restarting(rng: np.random.Generator, rows: int, n: int) -> Array:
    """Documents packed into one row."""
    starts = rng.random((rows, n)) < 0.3
    starts[:, :1] = True
    places = np.where(starts, np.arange(n), 0)
    return np.arange(n) - np.maximum.accumulate(places, axis=1)


def _reversed(rng: np.random.Generator, rows: int, n: int) -> Array:
    return np.ascontiguousarray(_running(rng, rows, n)[:, ::-1]) + rng.integers(100)


def _permuted(rng: np.random.Generator, rows: int, n: int) -> Array:
    return rng.permuted(_running(rng, rows, n), axis=1) + rng.integers(2)


def _random(rng: np.random.Generator, rows: int, n: int) -> Array:
    return rng.integers(WIDE, size=(rows, n))


def _random_small(rng: np.random.Generator, rows: int, n: int) -> Array:
    return rng.integers(4 * n + 1, size=(rows, n))


def _random_wide(rng: np.random.Generator, rows: int, n: int) -> Array:
    return rng.integers(WIDEST, size=(rows, n))


def _one_large(rng: np.random.Generator, rows: int, n: int) -> Array:
    """A single position far from the others."""
    values = _running(rng, rows, n)
    place = int(rng.random() * n)
    values[:, place : place + 1] = rng.integers(1000, WIDE)
    return values


def _all_equal(rng: np.random.Generator, rows: int, n: int) -> Array:
    return np.full((rows, n), rng.integers(1, WIDE if rng.random() < 0.5 else 32))


POSITIONS: tuple[Positions, ...] = (
    Positions("from 0", _running),
    Positions("continued", _continued),
    Positions("different offsets", _offsets),
    Positions("from an edge", _edge),
    Positions("repeated", _repeated),
    Positions("restarting", _restarting),
    Positions("reversed", _reversed),
    Positions("permuted", _permuted),
    Positions("all equal", _all_equal),
    Positions("one large", _one_large),
    Positions("random and small", _random_small),
    Positions("random", _random),
    Positions("from an edge", _edge),
    Positions("random", _random),
    Positions("different offsets", _offsets),
    Positions("all zero", _zero),
    Positions("random and wide", _random_wide),
)
"""Simplest first; repeated as often as they shall be drawn."""
ZERO: tuple[Positions, ...] = (Positions("all zero", _zero),)


def with_different_rows(values: Array) -> Array:
    """The same positions, every row moved beyond the one before if two rows are equal."""
    if len({row.tobytes() for row in values}) == len(values):
        return values
    return values + np.arange(len(values))[:, None] * (int(np.ptp(values)) + 1)


def below(values: Array, end: int) -> Array:
    """The same positions, wrapped around where they reach `end`."""
    return values if not values.size or values.max() < end else values % end


@dataclass(frozen=True)
class Tables:
    """One named way to fill a pair of tables."""

    name: str
    fill: Callable[[np.random.Generator, tuple[int, ...]], tuple[Array, Array]]
    """From a generator and a shape to cosines and sines in float64."""


def _turns(angles: Array) -> tuple[Array, Array]:
    return np.cos(angles), np.sin(angles)


def _identity(_rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array]:
    return np.ones(shape), np.zeros(shape)


def _quarters(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array]:
    quarter = rng.integers(4, size=shape)
    cos, sin = np.asarray((1.0, 0.0, -1.0, 0.0)), np.asarray((0.0, 1.0, 0.0, -1.0))
    return cos[quarter], sin[quarter]


def _angles(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array]:
    return _turns(rng.uniform(-np.pi, np.pi, shape))


def _small_angles(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array]:
    return _turns(rng.standard_normal(shape) * 2.0 ** -rng.integers(2, 14))


def _any_numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """No rotation: the function is linear in its tables, whatever they hold."""
    return rng.standard_normal(shape) * 4.0, rng.standard_normal(shape)


TABLES: tuple[Tables, ...] = (
    Tables("quarter turns", _quarters),
    Tables("angles", _angles),
    Tables("small angles", _small_angles),
    Tables("any numbers", _any_numbers),
    Tables("angles", _angles),
    Tables("angles", _angles),
    Tables("identity", _identity),
)
"""Simplest first, but for the identity, which hides most faults; repeated as often as they shall
be drawn."""
