"""Shapes that are handed over, and how the limits of a target narrow them.

The tables are written out, simplest first. Sizes of one shape differ from each other where they
can, so that exchanged axes show; one head, one batch entry and a single position are the
minority; sizes lie on both sides of the block lengths that kernels use.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from math import prod
from typing import Any

Shape = tuple[int, ...]

SOFTMAX_SHAPES: tuple[Shape, ...] = (
    (1,), (2,), (3,), (1, 2), (2, 3), (3, 2), (5,), (3, 5), (2, 3, 5), (5, 2, 3), (7, 2), (2, 7, 3),
    (8,), (9,), (3, 8), (2, 9), (3, 3), (4, 4), (2, 5, 5), (2, 3, 4), (3, 1, 5), (3, 1, 8),
    (2, 3, 1, 5), (3, 2, 4, 5),
    (2, 5, 3, 8), (2, 3, 5, 7), (7, 15), (2, 15), (3, 16), (5, 17), (2, 3, 9), (3, 2, 16), (17,),
    (2, 5, 17), (17, 3), (2, 16, 3), (2, 3, 4, 17), (2, 31), (3, 32), (2, 33), (33,), (33, 2),
    (2, 33, 3), (2, 1, 3, 33), (5, 2, 32), (3, 63), (2, 64), (3, 65), (65, 3), (2, 3, 64), (2, 100),
    (100,), (2, 127), (3, 128), (2, 129), (129,), (2, 129, 3), (3, 2, 128), (2, 255), (3, 256),
    (2, 257), (257,), (257, 2), (2, 3, 257), (2, 1, 3, 256),
    (2, 1023), (1025, 2), (2, 1025), (2049,),
)  # fmt: skip

ROPE_SHAPES: tuple[Shape, ...] = (
    (1, 1, 1, 2), (1, 1, 3, 2), (1, 1, 2, 4), (1, 2, 3, 4), (2, 1, 3, 4), (2, 3, 1, 4),
    (1, 3, 2, 4), (2, 3, 3, 4), (3, 2, 3, 4), (3, 1, 2, 6), (3, 2, 1, 6), (2, 3, 5, 4),
    (3, 2, 5, 4), (2, 3, 4, 6), (3, 2, 7, 4), (2, 3, 5, 8), (3, 2, 7, 8), (2, 5, 3, 8),
    (5, 3, 2, 8), (3, 4, 5, 10), (4, 3, 5, 2), (2, 3, 7, 10), (3, 4, 1, 8), (2, 3, 4, 10),
    (2, 3, 8, 6), (3, 2, 9, 4),
    (2, 3, 15, 4), (3, 2, 16, 6), (2, 4, 17, 6), (2, 2, 4, 4), (2, 3, 31, 4), (3, 2, 32, 4),
    (2, 3, 33, 4), (3, 2, 5, 16), (2, 3, 7, 16), (2, 3, 9, 32), (3, 2, 4, 32), (3, 2, 63, 4),
    (2, 3, 64, 4), (2, 3, 65, 4), (2, 3, 5, 64), (3, 2, 7, 64), (2, 1, 9, 64), (2, 3, 5, 80),
    (3, 2, 4, 96), (1, 3, 127, 4), (1, 2, 128, 6), (3, 2, 129, 4), (2, 3, 4, 128), (1, 2, 17, 128),
    (2, 3, 2, 8), (2, 3, 4, 4), (4, 3, 2, 4), (1, 2, 3, 256), (2, 1, 5, 256),
)  # fmt: skip
"""Axes b h n d."""

BASIS_SHAPES: tuple[Shape, ...] = tuple((1, 1, d, d) for d in (2, 4, 6, 8, 10, 12, 16, 32, 64))
"""One position for every channel."""

MOST = 2**15
"""Elements of the largest array that is drawn, unless limits allow nothing smaller."""
_LONGEST = 2**13
"""Sizes of an axis that are looked at."""

Need = Callable[[int], bool]


def legal_sizes(axis: str, limit: object) -> list[int]:
    """The sizes that a limit allows, ascending: a set of sizes, or `(min, max[, step])`. Raises
    ValueError for anything else, and for a limit that allows nothing."""
    if isinstance(limit, (set, frozenset)) and all(isinstance(size, int) for size in limit):
        found = sorted(size for size in limit if size >= 0)
    elif isinstance(limit, (tuple, list)) and 2 <= len(limit) <= 3:
        low, high, *step = limit
        found = list(islice(range(max(low, 0), high + 1, *step), _LONGEST))
    else:
        raise ValueError(
            f"limit of axis {axis!r} is {limit!r}; expected a set of sizes or (min, max[, step])"
        )
    if not found:
        raise ValueError(f"limit of axis {axis!r} is {limit!r}: no size is legal")
    return found


def nearest(size: int, legal: list[int]) -> int:
    """The legal size that is closest to the given one, the smaller of two."""
    place = bisect_left(legal, size)
    return min(legal[max(place - 1, 0) : place + 1], key=lambda other: abs(other - size))


def fitted(
    table: tuple[Shape, ...],
    axes: Sequence[str],
    limits: Mapping[str, Any],
    needs: Mapping[str, Need],
) -> tuple[Shape, ...]:
    """The shapes of a table, every axis moved to the nearest size that the limits allow and the
    call needs, and the ends of each limit besides.

    `axes` has a letter, or a word, for every axis. Raises ValueError, with the limits named, if an
    axis has no size left.
    """
    legal = {axis: _left(axis, limits, needs) for axis in axes}
    shapes: dict[Shape, None] = {}
    for shape in table:
        moved = tuple(nearest(size, legal[a]) for size, a in zip(shape, axes, strict=True))
        if moved == shape or len(set(moved)) >= len(set(shape)):
            shapes[moved] = None
    if not shapes:
        shapes = dict.fromkeys(
            tuple(nearest(size, legal[a]) for size, a in zip(shape, axes, strict=True))
            for shape in table
        )
    limited = [axis for axis in axes if axis in limits]
    for start in list(shapes)[:8:3]:
        for axis in limited:
            place = axes.index(axis)
            for size in (*legal[axis][:4], legal[axis][-1]):
                shapes[(*start[:place], size, *start[place + 1 :])] = None
    small = tuple(shape for shape in shapes if prod(shape) <= MOST)
    return small or tuple(sorted(shapes, key=prod)[:3])


def _left(axis: str, limits: Mapping[str, Any], needs: Mapping[str, Need]) -> list[int]:
    """The sizes of one axis that limits and needs leave."""
    limit = limits.get(axis, (1, _LONGEST))
    need = needs.get(axis, bool)
    left = [size for size in legal_sizes(axis, limit) if need(size)]
    if not left:
        raise ValueError(f"no legal size of axis {axis!r} is left by its limit {limit!r}")
    return left


def even(size: int) -> bool:
    """Whether pairs of channels can be formed."""
    return size > 0 and size % 2 == 0


def several(size: int) -> bool:
    """Whether rows can differ."""
    return size > 1
