"""Positions of keys minus positions of queries, that T5's buckets are driven with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from attnspec.oracle.positions import EDGES, Array
from attnspec.oracle.shapes import Shape
from attnspec.oracle.t5_values import Setting, exact_buckets


@dataclass(frozen=True)
class Offsets:
    """One named way to fill an array of keys' positions minus queries'."""

    name: str
    fill: Callable[[np.random.Generator, Shape, Setting], Array]


def _running(_rng: np.random.Generator, shape: Shape, _setting: Setting) -> Array:
    """Each once, from as many before the query as after it."""
    many = int(np.prod(shape))
    return (np.arange(many) - many // 2).reshape(shape)


def _pairs(_rng: np.random.Generator, shape: Shape, _setting: Setting) -> Array:
    """Queries by keys, the last query at the last key; the keys of one query on one axis alone."""
    t, s = (1, *shape)[-2:]
    placed = np.arange(s) - (np.arange(t) + s - t)[:, None]
    return np.broadcast_to(placed if len(shape) > 1 else placed[0], shape).copy()


@cache
def _starts(setting: Setting) -> Array:
    """The first distance of each wide bucket of a side."""
    distances = np.arange(setting.max_distance + 2)
    return 1 + np.flatnonzero(np.diff(exact_buckets(-distances, setting)))


def _signed(rng: np.random.Generator, distances: Array) -> Array:
    signed: Array = distances * rng.choice((-1, 1), distances.shape)
    return signed


def _beside_thresholds(rng: np.random.Generator, shape: Shape, setting: Setting) -> Array:
    starts = _starts(setting)
    near = starts[rng.integers(len(starts), size=shape)] + rng.integers(-2, 3, shape)
    return _signed(rng, np.maximum(near, 0))


def _up_to(reach: int, rng: np.random.Generator, shape: Shape, _setting: Setting) -> Array:
    return rng.integers(-reach, reach + 1, shape)


def _around_the_longest(rng: np.random.Generator, shape: Shape, setting: Setting) -> Array:
    longest = setting.max_distance
    return _signed(rng, rng.integers(longest // 2, 2 * longest + 1, shape))


def _edges(rng: np.random.Generator, shape: Shape, _setting: Setting) -> Array:
    """Where int8, int16, half precision and their kin run out of numbers."""
    places = np.array([127, 128, 129, *(edge.start for edge in EDGES), 2**20])
    return _signed(rng, places[rng.integers(len(places), size=shape)])


def _all_zero(_rng: np.random.Generator, shape: Shape, _setting: Setting) -> Array:
    return np.zeros(shape, np.int64)


def _on_one_side(sign: int, rng: np.random.Generator, shape: Shape, _setting: Setting) -> Array:
    return sign * rng.integers(0, 200, shape)


def _near_the_end(rng: np.random.Generator, shape: Shape, _setting: Setting) -> Array:
    """Around the first distances of the last bucket at T5's sizes."""
    return _signed(rng, rng.integers(86, 119, shape))


RUNNING = Offsets("running", _running)
OFFSETS: tuple[Offsets, ...] = (
    RUNNING,
    Offsets("queries by keys", _pairs),
    Offsets("up to 20", partial(_up_to, 20)),
    Offsets("all zero", _all_zero),
    Offsets("earlier keys", partial(_on_one_side, -1)),
    Offsets("later keys", partial(_on_one_side, 1)),
    *(
        RUNNING,
        *(Offsets("beside a threshold", _beside_thresholds),) * 2,
        Offsets("around the longest distance", _around_the_longest),
        Offsets("up to 200", partial(_up_to, 200)),
        Offsets("up to 2000", partial(_up_to, 2000)),
        Offsets("edges of number formats", _edges),
        Offsets("up to 2^20", partial(_up_to, 2**20)),
    ) * 2,
)  # fmt: skip
"""Simplest first; repeated as often as they shall be drawn."""
AT_THE_END = (
    Offsets("near the end", _near_the_end),
    *(way for way in OFFSETS if way.name in ("up to 200", "edges of number formats")),
)
