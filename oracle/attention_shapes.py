"""Shapes of attention that are handed over, and how the limits of a target narrow them.

Axes b h g t s d e. The tables are written out, simplest first. Queries are fewer than, as many as
and more than keys; heads share keys by ratios that differ from the number of key heads; lengths
lie on both sides of the block lengths that kernels use, and where one does, the other sizes are
small, so that a call stays cheap. Sizes of one shape differ from each other, but for a few in which
several agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import log2

from attnspec.oracle.family import Scope
from attnspec.oracle.shapes import Need, Shape, legal_sizes, nearest

AXES = "bhgtsde"

SIMPLE: tuple[Shape, ...] = (
    (1, 1, 1, 1, 1, 1, 1), (1, 1, 1, 1, 2, 1, 1), (1, 1, 1, 2, 1, 1, 1), (1, 1, 1, 2, 2, 1, 1),
    (1, 1, 1, 2, 3, 1, 1), (1, 1, 1, 2, 3, 2, 1), (1, 1, 1, 3, 2, 1, 2), (1, 2, 1, 2, 3, 1, 1),
    (1, 2, 2, 2, 3, 1, 1), (2, 1, 1, 2, 3, 1, 1), (2, 2, 1, 1, 3, 2, 1), (1, 4, 2, 2, 3, 1, 2),
)  # fmt: skip

SMALL: tuple[Shape, ...] = (
    (2, 3, 1, 4, 5, 6, 7), (2, 3, 3, 4, 5, 1, 7), (3, 2, 1, 4, 6, 5, 7), (2, 4, 1, 3, 7, 5, 6),
    (2, 4, 2, 3, 5, 6, 1), (3, 2, 2, 5, 4, 7, 6), (2, 6, 2, 3, 5, 4, 7), (2, 6, 3, 4, 5, 7, 8),
    (2, 8, 2, 3, 5, 4, 1), (3, 8, 1, 2, 5, 4, 6), (2, 8, 4, 3, 6, 1, 5), (1, 9, 3, 2, 6, 5, 7),
    (2, 5, 1, 3, 3, 4, 6), (2, 3, 1, 5, 5, 4, 8), (3, 4, 1, 2, 2, 6, 5), (2, 3, 1, 6, 6, 4, 5),
    (2, 4, 2, 7, 7, 3, 1), (2, 3, 1, 7, 4, 5, 6), (3, 2, 1, 6, 4, 5, 7), (2, 6, 3, 5, 4, 1, 7),
    (1, 3, 1, 9, 5, 4, 2), (2, 4, 1, 5, 3, 6, 7), (5, 2, 1, 3, 4, 6, 7), (4, 3, 1, 2, 7, 5, 6),
    (2, 3, 1, 1, 7, 5, 4), (3, 4, 2, 1, 9, 6, 5), (2, 8, 1, 1, 6, 7, 3), (2, 3, 1, 8, 9, 4, 5),
    (2, 4, 2, 7, 8, 3, 5), (3, 2, 1, 8, 10, 4, 5), (1, 6, 2, 9, 11, 3, 4), (2, 5, 5, 3, 8, 4, 6),
    (1, 16, 2, 3, 4, 5, 6), (1, 12, 4, 2, 5, 3, 6), (1, 24, 3, 2, 4, 5, 1), (1, 32, 1, 2, 3, 4, 5),
    (2, 7, 1, 3, 4, 5, 6), (1, 16, 1, 3, 5, 4, 2), (2, 10, 2, 3, 4, 5, 7), (1, 6, 6, 4, 5, 3, 7),
    (1, 2, 1, 5, 6, 3, 3), (2, 3, 1, 4, 6, 8, 8), (2, 6, 2, 5, 7, 4, 4), (3, 4, 4, 2, 5, 6, 6),
    (2, 4, 2, 5, 5, 3, 6), (3, 2, 1, 4, 4, 5, 7), (2, 6, 2, 4, 4, 3, 5), (2, 3, 1, 8, 8, 5, 1),
    (2, 3, 1, 9, 1, 5, 4), (2, 4, 1, 3, 1, 5, 6), (2, 12, 2, 4, 3, 5, 1), (2, 3, 1, 3, 2, 6, 7),
    # as many keys, queries or heads as channels: what is transposed fits there
    (1, 2, 1, 4, 4, 4, 4), (2, 3, 1, 5, 4, 4, 6), (2, 2, 2, 8, 8, 8, 8), (1, 4, 2, 4, 6, 4, 6),
    (4, 4, 4, 4, 4, 3, 3), (2, 3, 3, 5, 3, 7, 3), (1, 2, 1, 3, 7, 7, 5), (3, 6, 3, 3, 6, 6, 3),
)  # fmt: skip

BORDERS: tuple[Shape, ...] = (
    # keys
    (2, 3, 1, 2, 15, 4, 5), (3, 4, 2, 2, 16, 5, 6), (2, 3, 1, 4, 17, 5, 6), (2, 4, 1, 3, 17, 1, 5),
    (2, 6, 2, 3, 15, 4, 7), (2, 2, 1, 5, 16, 3, 4), (3, 2, 1, 1, 17, 4, 5), (2, 3, 1, 4, 31, 2, 5),
    (2, 4, 1, 3, 31, 5, 6), (2, 3, 3, 1, 32, 4, 5), (3, 2, 1, 5, 33, 1, 4), (2, 4, 2, 3, 33, 1, 5),
    (2, 3, 1, 2, 33, 4, 6), (1, 8, 1, 2, 33, 3, 4), (2, 4, 1, 3, 63, 1, 5), (1, 3, 1, 4, 63, 2, 5),
    (2, 3, 1, 2, 64, 4, 1), (2, 3, 1, 4, 65, 1, 5), (2, 4, 1, 3, 65, 2, 5), (1, 6, 2, 1, 65, 4, 3),
    (3, 2, 2, 1, 65, 4, 7), (2, 3, 1, 1, 127, 4, 5), (2, 1, 1, 3, 128, 4, 5),
    (2, 1, 1, 3, 129, 4, 5), (1, 4, 1, 2, 129, 1, 3),
    # queries
    (2, 3, 1, 15, 4, 5, 2), (3, 4, 2, 16, 2, 5, 6), (2, 3, 1, 17, 4, 2, 5), (2, 3, 1, 31, 5, 1, 4),
    (2, 4, 1, 33, 3, 1, 5), (2, 3, 3, 33, 2, 4, 1), (1, 2, 1, 63, 4, 3, 5), (2, 1, 1, 64, 3, 4, 5),
    (1, 3, 1, 65, 4, 2, 5), (1, 2, 1, 127, 3, 2, 4), (1, 2, 1, 129, 4, 3, 1),
    # both
    (2, 3, 1, 15, 17, 1, 4), (2, 4, 2, 16, 16, 1, 5), (2, 2, 1, 16, 17, 3, 4),
    (2, 3, 1, 17, 17, 2, 4), (2, 1, 1, 15, 33, 3, 4), (1, 2, 2, 17, 31, 3, 4),
    (1, 3, 1, 31, 33, 2, 4), (1, 2, 1, 33, 33, 1, 3), (1, 2, 1, 17, 65, 3, 4),
    (1, 2, 1, 33, 65, 1, 3), (2, 1, 1, 17, 63, 3, 4), (1, 2, 1, 33, 17, 4, 3),
    (1, 2, 1, 16, 16, 16, 16), (1, 1, 1, 32, 32, 32, 32),
    # head sizes
    (2, 3, 1, 5, 4, 16, 17), (2, 3, 1, 4, 5, 17, 16), (3, 4, 2, 2, 5, 32, 7),
    (2, 4, 1, 3, 5, 33, 8), (2, 3, 1, 4, 5, 7, 33), (2, 1, 1, 3, 4, 64, 5), (2, 4, 4, 3, 5, 7, 64),
    (1, 4, 1, 2, 3, 65, 64), (1, 2, 1, 3, 4, 80, 96), (1, 2, 1, 3, 5, 128, 65),
    (1, 2, 1, 2, 3, 65, 128), (1, 2, 1, 4, 17, 64, 64), (1, 2, 1, 3, 5, 127, 129),
)  # fmt: skip

LARGE: tuple[Shape, ...] = (
    (1, 1, 1, 65, 65, 3, 2), (1, 2, 1, 64, 65, 1, 3), (1, 1, 1, 65, 129, 2, 3),
    (1, 1, 1, 129, 127, 2, 1), (1, 2, 1, 3, 257, 4, 5), (2, 1, 1, 3, 255, 2, 4),
    (1, 2, 1, 257, 3, 1, 4), (1, 1, 1, 33, 256, 2, 3), (1, 2, 1, 3, 513, 1, 2),
    (1, 1, 1, 513, 4, 3, 2),
)  # fmt: skip

SHAPES: tuple[Shape, ...] = (*SIMPLE, *SMALL, *BORDERS, *LARGE, *SMALL, *BORDERS)
"""The simplest ones and the largest ones are the minority."""

WIDE_GROUP_SHAPES: tuple[Shape, ...] = (
    (1, 9, 1, 2, 3, 4, 5), (1, 10, 1, 3, 4, 2, 1), (2, 9, 1, 1, 5, 3, 4), (1, 12, 1, 4, 2, 5, 3),
    (1, 18, 2, 2, 5, 4, 1), (2, 16, 1, 3, 4, 1, 6), (1, 20, 2, 3, 5, 2, 4), (1, 17, 1, 2, 7, 3, 5),
    (1, 30, 3, 2, 4, 5, 1), (2, 24, 2, 1, 9, 4, 3), (1, 32, 2, 3, 5, 1, 4), (1, 40, 4, 2, 3, 4, 5),
    (1, 64, 4, 1, 5, 3, 2), (1, 16, 1, 5, 17, 2, 3), (1, 11, 1, 17, 5, 3, 1),
    (1, 33, 3, 3, 4, 2, 5),
)  # fmt: skip
"""More than eight query heads that share a key head."""

SQUARE_SHAPES: tuple[Shape, ...] = (
    (1, 1, 1, 2, 2, 1, 1), (2, 3, 1, 3, 3, 4, 5), (2, 2, 1, 4, 4, 3, 5), (3, 4, 2, 5, 5, 2, 3),
    (2, 6, 3, 4, 4, 5, 1), (2, 4, 1, 6, 6, 3, 5), (4, 4, 1, 5, 5, 3, 2), (3, 2, 1, 7, 7, 4, 5),
    (2, 4, 4, 8, 8, 3, 1), (3, 3, 3, 9, 9, 2, 4), (2, 8, 2, 11, 11, 1, 3),
    (2, 3, 1, 16, 16, 3, 4), (2, 2, 1, 17, 17, 4, 3), (1, 3, 1, 31, 31, 2, 5),
    (1, 2, 1, 33, 33, 3, 1), (1, 1, 1, 65, 65, 1, 2),
)  # fmt: skip
"""As many keys as queries: a mask without rows of its own could be one of queries."""

EVEN_SHAPES: tuple[Shape, ...] = (
    (2, 2, 1, 3, 5, 4, 6), (3, 3, 1, 4, 5, 6, 7), (4, 4, 2, 3, 5, 6, 1), (2, 2, 2, 5, 4, 3, 7),
    (3, 3, 3, 2, 6, 5, 4), (5, 5, 1, 2, 4, 3, 6), (6, 6, 2, 3, 4, 5, 1), (4, 4, 1, 1, 7, 5, 3),
    (2, 2, 1, 17, 5, 4, 3), (3, 3, 1, 3, 17, 4, 5), (8, 8, 2, 2, 3, 4, 5), (2, 2, 1, 9, 11, 3, 4),
)  # fmt: skip
"""As many batch entries as query heads."""

GRADIENT_SHAPES: tuple[Shape, ...] = (
    *SIMPLE,
    *SMALL,
    *SMALL,
    (1, 2, 1, 3, 17, 4, 5), (1, 4, 2, 2, 16, 3, 5), (1, 2, 1, 17, 4, 3, 5), (1, 2, 2, 15, 3, 4, 1),
    (1, 2, 1, 4, 33, 2, 3), (1, 2, 1, 33, 4, 3, 2), (1, 2, 1, 3, 65, 2, 4), (1, 2, 1, 65, 3, 2, 1),
    (1, 1, 1, 17, 17, 3, 4), (1, 2, 1, 15, 16, 3, 2), (1, 1, 1, 31, 33, 2, 3),
    (1, 2, 1, 3, 129, 1, 2), (1, 2, 1, 129, 3, 2, 1), (1, 16, 2, 3, 5, 2, 4),
    (1, 32, 1, 2, 4, 3, 5), (1, 2, 1, 3, 4, 16, 17), (1, 2, 1, 3, 5, 33, 8),
    (1, 3, 1, 2, 4, 7, 64), (1, 2, 1, 3, 4, 64, 5), (1, 1, 1, 3, 2, 128, 65),
    (2, 3, 1, 2, 15, 4, 5), (2, 2, 1, 5, 16, 3, 4), (2, 3, 1, 3, 31, 2, 5), (1, 4, 2, 2, 33, 3, 5),
    (2, 4, 2, 3, 5, 8, 1), (3, 2, 1, 3, 4, 7, 2), (2, 6, 3, 4, 6, 7, 1), (2, 3, 1, 2, 5, 7, 4),
    (3, 4, 2, 4, 6, 5, 1), (2, 6, 2, 2, 7, 9, 3), (2, 3, 1, 3, 6, 16, 2), (3, 3, 3, 6, 4, 5, 2),
    (2, 3, 1, 17, 4, 2, 5), (1, 2, 1, 63, 4, 3, 5), (1, 4, 1, 33, 3, 2, 5), (1, 2, 1, 4, 65, 3, 2),
)  # fmt: skip
"""Every gradient costs several times what the output does."""

TILE_SHAPES: tuple[Shape, ...] = (
    (1, 1, 1, 17, 18, 2, 1), (1, 2, 1, 18, 17, 1, 2), (1, 1, 1, 33, 34, 2, 1),
    (1, 1, 1, 65, 66, 2, 1), (1, 1, 1, 66, 65, 1, 2), (1, 2, 1, 67, 68, 1, 1),
    (1, 1, 1, 80, 81, 1, 1), (1, 1, 1, 130, 129, 1, 1),
)  # fmt: skip
"""Beyond 16, 32, 64 and 128 on both sides."""

LONG_SHAPES: tuple[Shape, ...] = (
    (1, 1, 1, 300, 1, 1, 1), (1, 1, 1, 300, 2, 1, 1), (1, 1, 1, 511, 2, 1, 3),
    (1, 1, 1, 512, 3, 2, 1), (1, 1, 1, 513, 2, 3, 4), (1, 2, 1, 300, 3, 4, 2),
    (1, 2, 2, 513, 3, 1, 4), (2, 1, 1, 600, 3, 4, 1), (1, 3, 1, 700, 4, 2, 1),
    (1, 1, 1, 1023, 3, 2, 4), (1, 1, 1, 1024, 5, 2, 3), (1, 1, 1, 1025, 2, 4, 3),
    (1, 2, 1, 1025, 3, 1, 4), (1, 1, 1, 1100, 4, 3, 2), (1, 8, 1, 300, 3, 2, 4),
    (1, 8, 2, 400, 3, 4, 1), (1, 16, 2, 300, 4, 1, 3), (1, 32, 1, 300, 2, 3, 4),
    (1, 32, 2, 511, 2, 1, 3), (1, 1, 1, 2, 512, 1, 1), (1, 2, 1, 3, 700, 2, 1),
    (2, 1, 1, 2, 1025, 1, 2),
)  # fmt: skip
"""Many rows, heads that share a key head, or keys: the sums over which gradients are made."""

LONG_ROW_SHAPES: tuple[Shape, ...] = (
    (1, 1, 1, 2, 260, 2, 2), (1, 1, 1, 1, 300, 1, 1), (1, 2, 1, 3, 513, 1, 3),
    (2, 2, 2, 1, 700, 2, 1), (1, 4, 2, 2, 1030, 3, 4), (1, 1, 1, 1, 2052, 1, 2),
    (1, 1, 1, 2, 2100, 2, 3), (1, 2, 1, 1, 2600, 1, 1),
)  # fmt: skip
"""Many keys: a sum of ones stops growing at 256 in bfloat16, at 2048 in float16."""

EMPTY_SHAPES: tuple[Shape, ...] = (
    (0, 1, 1, 1, 1, 1, 1), (0, 4, 2, 3, 5, 6, 7), (2, 4, 1, 0, 5, 3, 6), (2, 0, 1, 3, 5, 4, 6),
    (3, 2, 2, 0, 17, 4, 1), (0, 3, 1, 17, 33, 4, 5),
)  # fmt: skip
"""No batch entry, no query, no query head (0 is a multiple of any number of key heads)."""

MOST = 2**15
"""Scores of a call, unless limits allow nothing smaller."""
_PRODUCTS: Mapping[str, int] = {"float64": 2**16}
"""Scores times the larger head size, by dtype: float64's exact values are slow."""
_PRODUCTS_ELSE = 2**18
_HEADS = 64
"""Numbers of heads that are looked at."""

Heads = Callable[[int, int], bool]


def any_heads(_h: int, _g: int) -> bool:
    """No wish."""
    return True


def shared(h: int, g: int) -> bool:
    """Whether query heads share a key head."""
    return g < h


def scores_of(shape: Shape) -> int:
    """How many scores a call has."""
    b, h, _, t, s, _, _ = shape
    return b * h * t * s


def work_of(shape: Shape) -> int:
    """Products of the larger of the two contractions."""
    return scores_of(shape) * max(shape[5:])


def attention_shapes(
    table: tuple[Shape, ...],
    scope: Scope,
    *,
    needs: Mapping[str, Need] | None = None,
    heads: Heads = any_heads,
) -> tuple[Shape, ...]:
    """The shapes of a table, every axis moved to the nearest size that the limits allow and the
    call needs, and the ends of each limit besides. Numbers of heads stay multiples, and queries
    no more than the keys where they were.

    Raises ValueError, with the limits named, if an axis or the heads have nothing left.
    """
    limits = {axis: limit for axis, limit in scope.limits.items() if axis in AXES}
    wanted = needs or {}
    legal = {axis: _left(axis, limits, wanted.get(axis, bool)) for axis in AXES}
    pairs = _pairs(legal["h"], legal["g"], heads, limits)
    moved = [_moved(shape, legal, pairs) for shape in table]
    if limits:
        moved = list(dict.fromkeys([*moved, *_ends(moved, limits, legal, pairs)]))
    most = _PRODUCTS.get(scope.dtype, _PRODUCTS_ELSE)
    fit = tuple(s for s in moved if scores_of(s) <= MOST and work_of(s) <= most)
    if fit:
        return fit
    ordered = sorted(moved, key=work_of)
    return tuple(shape for shape in ordered[:6] if work_of(shape) <= 4 * work_of(ordered[0]))


def _ends(
    shapes: list[Shape],
    limits: Mapping[str, object],
    legal: Mapping[str, list[int]],
    pairs: Mapping[tuple[int, ...], None],
) -> Iterator[Shape]:
    """Some of the shapes, with one limited axis at an end of its limit."""
    for start in shapes[:24:3]:
        for axis in limits:
            place = AXES.index(axis)
            for size in (*legal[axis][:4], legal[axis][-1]):
                shape = (*start[:place], size, *start[place + 1 :])
                if axis not in "hg" or shape[1:3] in pairs:
                    yield shape


def _left(axis: str, limits: Mapping[str, object], need: Need) -> list[int]:
    """The sizes of one axis that its limit and a need leave."""
    limit = limits.get(axis, (1, 2**13))
    left = [size for size in legal_sizes(axis, limit) if size and need(size)]
    if not left:
        raise ValueError(f"no legal size of axis {axis!r} is left by its limit {limit!r}")
    return left


def _pairs(
    h: list[int], g: list[int], heads: Heads, limits: Mapping[str, object]
) -> dict[tuple[int, ...], None]:
    """Numbers of query heads and key heads, the first a multiple of the second."""
    few = [[n for n in legal if n <= _HEADS] or legal[:_HEADS] for legal in (h, g)]
    pairs: dict[tuple[int, ...], None] = {
        (i, j): None for i in few[0] for j in few[1] if i % j == 0 and heads(i, j)
    }
    if not pairs:
        named = {axis: limits[axis] for axis in "hg" if axis in limits}
        wish = "" if heads is any_heads else " with query heads that share a key head"
        raise ValueError(f"no numbers of heads h and g{wish} are left by the limits {named!r}")
    return pairs


def _moved(
    shape: Shape, legal: Mapping[str, list[int]], pairs: Mapping[tuple[int, ...], None]
) -> Shape:
    b, _, _, t, s, d, e = (nearest(n, legal[axis]) for axis, n in zip(AXES, shape, strict=True))
    if t > s and shape[3] <= shape[4]:
        s = next((size for size in legal["s"] if size >= t), s)
    if shape[1:3] in pairs:
        h, g = shape[1:3]
    else:
        h, g = min(pairs, key=lambda pair: _distance(pair, shape[1:3]))
    return (b, h, g, t, s, d, e)


def _distance(pair: tuple[int, ...], other: tuple[int, ...]) -> float:
    """How far two pairs of numbers are from each other, as ratios."""
    return sum(abs(log2(a / b)) for a, b in zip(pair, other, strict=True))
