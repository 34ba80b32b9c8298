"""The elements of a failing comparison, as few numbers as a picture of them needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from attnspec.judging import Judgement
from attnspec.oracle.comparison import Array, errors, ratios

MOST = 1500
"""Elements of which error and allowance are kept, evenly spread."""
SIDE = 40
"""Rows and columns of the map, at most."""
CEILING = 1e9
"""In place of an infinite ratio, or a larger one."""


@dataclass(frozen=True)
class Elements:
    """Error and allowance of elements, and where the ratio of the two is large. Plain data."""

    what: str
    shape: tuple[int, ...]
    errors: tuple[float, ...]
    """Finite and above 0, ..."""
    allowances: tuple[float, ...]
    """... each beside its allowance, 0 where the same bits are due."""
    map: tuple[tuple[float, ...], ...]
    """The largest ratio of what is judged, over the leading axes, in blocks of rows (the last axis
    but one) and of columns (the last axis)."""


def elements_of(judgement: Judgement) -> Elements | None:
    """Those of the worst comparison; None where there is none, or it is empty."""
    worst = judgement.worst
    if worst is None or not worst[0].actual.size:
        return None
    comparison = worst[0]
    error = errors(comparison)
    allowance = np.zeros_like(error) if comparison.allowance is None else comparison.allowance
    told = np.isfinite(error) & (error > 0.0) & np.isfinite(allowance)
    places = np.flatnonzero(told)
    places = places[:: math.ceil(len(places) / MOST) or 1]
    return Elements(
        comparison.what,
        tuple(int(size) for size in error.shape),
        tuple(float(x) for x in error.flat[places]),
        tuple(float(x) for x in allowance.flat[places]),
        _map(np.minimum(ratios(comparison)[0], CEILING)),
    )


def _map(ratio: Array) -> tuple[tuple[float, ...], ...]:
    shape = (1, 1, *ratio.shape)
    plane = ratio.reshape(-1, *shape[-2:]).max(axis=0)
    for axis in (0, 1):
        block = math.ceil(plane.shape[axis] / SIDE)
        starts = np.arange(0, plane.shape[axis], block)
        plane = np.maximum.reduceat(plane, starts, axis=axis)
    return tuple(tuple(float(x) for x in row) for row in plane)
