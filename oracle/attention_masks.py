"""The masks that are handed over in drawn calls of attention, and which rows keep a key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from attnspec.oracle.attention_sight import reach, seen, with_four_axes
from attnspec.oracle.family import Array, Shape


def every_row_sees(
    conventions: Mapping[str, str], t: int, s: int, options: Mapping[str, Any]
) -> bool:
    """Whether `causal` and `window` leave every row a key."""
    first, before, after = reach(conventions, t, s, options)
    return first + after >= 0 and first + t - 1 - before <= s - 1


def hides(conventions: Mapping[str, str], t: int, s: int, options: Mapping[str, Any]) -> bool:
    """Whether `causal` and `window` hide a key from some row."""
    first, before, after = reach(conventions, t, s, options)
    return first + after < s - 1 or first + t - 1 - before > 0


Fill = Callable[[np.random.Generator, Shape], Array]


@dataclass(frozen=True)
class Mask:
    """One named way to hide keys."""

    name: str
    axes: str
    """The shape that is handed over: letters of b h t s, 1 for an axis along which it is
    repeated."""
    fill: Fill
    """From a generator and the shape b h t s, 1 where repeated, to what may be seen."""


def handed(axes: str, shape: Shape) -> Shape:
    """The shape of a mask or bias with these axes, beside scores of b h t s."""
    sizes = dict(zip("bhts", shape, strict=True))
    return tuple(sizes.get(axis, 1) for axis in axes.split())


def positions(t: int, s: int) -> Array:
    """A key for every query, the last for the last."""
    return np.clip(np.arange(s - t, s), 0, None)[:, None]


def _scattered(share: float, rng: np.random.Generator, shape: Shape) -> Array:
    return rng.random(shape) < share


def _all(_rng: np.random.Generator, shape: Shape) -> Array:
    return np.ones(shape, bool)


def _hole(rng: np.random.Generator, shape: Shape) -> Array:
    """One key hidden in one row."""
    seen = np.ones(shape, bool)
    seen.flat[int(rng.integers(seen.size))] = False
    return seen


def _needle(rng: np.random.Generator, shape: Shape) -> Array:
    """All keys but one hidden in one row."""
    seen = np.ones(shape, bool)
    at = int(rng.integers(seen.size))
    row = at - at % shape[-1]
    seen.reshape(-1)[row : row + shape[-1]] = False
    seen.flat[at] = True
    return seen


def _needles(rng: np.random.Generator, shape: Shape) -> Array:
    """All keys but one hidden in every row."""
    return np.asarray(np.arange(shape[-1]) == rng.integers(shape[-1], size=(*shape[:-1], 1)))


def _padding(rng: np.random.Generator, shape: Shape) -> Array:
    """The keys of every batch entry end somewhere."""
    lengths = rng.integers(1, shape[-1] + 1, size=(*shape[:-1], 1))
    return np.asarray(np.arange(shape[-1]) < lengths)


def _padding_in_front(rng: np.random.Generator, shape: Shape) -> Array:
    return _padding(rng, shape)[..., ::-1].copy()


def _documents(rng: np.random.Generator, shape: Shape) -> Array:
    """Blocks along the diagonal: queries see the keys of their own document."""
    t, s = shape[-2:]
    of_keys = np.cumsum(rng.random((*shape[:-2], s)) < 0.3, axis=-1)
    of_queries = of_keys[..., positions(t, s)[:, 0]]
    return np.ascontiguousarray(of_queries[..., :, None] == of_keys[..., None, :])


def _band(rng: np.random.Generator, shape: Shape) -> Array:
    t, s = shape[-2:]
    near: Array = np.abs(np.arange(s) - positions(t, s)) <= int(rng.integers(3))
    return np.broadcast_to(near, shape).copy()


def _prefix(rng: np.random.Generator, shape: Shape) -> Array:
    """Keys before a border are seen by all, the others by later queries."""
    t, s = shape[-2:]
    seen = np.arange(s) <= np.maximum(positions(t, s), int(rng.integers(s)))
    return np.broadcast_to(seen, shape).copy()


def _without_leading(block: int, _rng: np.random.Generator, shape: Shape) -> Array:
    """The whole first block of a kernel that walks along the keys is hidden."""
    seen = np.arange(shape[-1]) >= min(block, shape[-1] - 1)
    return np.broadcast_to(seen, shape).copy()


def _without_trailing(block: int, _rng: np.random.Generator, shape: Shape) -> Array:
    """The whole last block is hidden."""
    s = shape[-1]
    return np.broadcast_to(np.arange(s) < max(1, (s - 1) // block * block), shape).copy()


def _alternating(_rng: np.random.Generator, shape: Shape) -> Array:
    t, s = shape[-2:]
    return np.broadcast_to((np.arange(t)[:, None] + np.arange(s)) % 2 == 0, shape).copy()


HOLE = Mask("one key hidden in one row", "b h t s", _hole)
MASKS: tuple[Mask, ...] = (
    Mask("one key hidden in one row", "t s", _hole),
    Mask("padding", "b 1 1 s", _padding),
    Mask("half", "t s", partial(_scattered, 0.5)),
    Mask("half", "b h t s", partial(_scattered, 0.5)),
    HOLE,
    Mask("one key seen in one row", "t s", _needle),
    Mask("one key seen in one row", "b h t s", _needle),
    Mask("alternating", "t s", _alternating),
    Mask("a third seen", "b 1 t s", partial(_scattered, 0.3)),
    Mask("four fifths seen", "1 1 t s", partial(_scattered, 0.8)),
    Mask("half", "1 h t s", partial(_scattered, 0.5)),
    Mask("four fifths seen", "h t s", partial(_scattered, 0.8)),
    Mask("padding in front", "b 1 1 s", _padding_in_front),
    Mask("padding", "b 1 1 s", _padding),
    Mask("documents", "b 1 t s", _documents),
    Mask("documents", "t s", _documents),
    Mask("band", "t s", _band),
    Mask("prefix", "b 1 t s", _prefix),
    Mask("one key seen in every row", "b h t s", _needles),
    Mask("half", "b h 1 s", partial(_scattered, 0.5)),
    Mask("leading 16 hidden", "1 1 1 s", partial(_without_leading, 16)),
    Mask("leading 32 hidden", "b 1 t s", partial(_without_leading, 32)),
    Mask("leading 64 hidden", "t s", partial(_without_leading, 64)),
    Mask("trailing 16 hidden", "1 1 t s", partial(_without_trailing, 16)),
    Mask("four fifths seen", "b h t s", partial(_scattered, 0.8)),
)
"""Simplest first. Rows that lose all keys are given one back (`with_a_key`)."""

LEAVING_ONE = tuple(
    mask for mask in MASKS if "leading" in mask.name or mask.name == "one key seen in every row"
)
"""Those that leave rows of few keys with a single one, of which the weight is 1 whatever it is."""
NOTHING_HIDDEN = Mask("all seen", "b h t s", _all)


def _one_row(rng: np.random.Generator, shape: Shape) -> Array:
    seen = np.ones(shape, bool)
    row = int(rng.integers(seen.size // shape[-1]))
    seen.reshape(-1, shape[-1])[row] = False
    return seen


def _one_entry(rng: np.random.Generator, shape: Shape) -> Array:
    """All rows of one batch entry."""
    seen = np.ones(shape, bool)
    seen[int(rng.integers(shape[0]))] = False
    return seen


def _some_rows(rng: np.random.Generator, shape: Shape) -> Array:
    """Some whole rows, among others with every second key."""
    seen = (rng.random(shape) < 0.5) & (rng.random((*shape[:-1], 1)) < 0.5)
    return np.asarray(seen & _one_row(rng, shape))


def _first_row(_rng: np.random.Generator, shape: Shape) -> Array:
    seen = np.ones(shape, bool)
    seen[..., 0, :] = False
    return seen


def _nothing(_rng: np.random.Generator, shape: Shape) -> Array:
    return np.zeros(shape, bool)


ROW = Mask("a row hidden", "b h t s", _one_row)
EMPTYING: tuple[Mask, ...] = (
    Mask("the first row hidden", "t s", _first_row),
    ROW,
    Mask("a row hidden", "t s", _one_row),
    Mask("a batch entry hidden", "b 1 1 s", _one_entry),
    Mask("whole rows hidden", "b 1 t 1", _one_row),
    Mask("whole rows hidden", "1 h t 1", _some_rows),
    Mask("some rows hidden", "b h t s", _some_rows),
    Mask("some rows hidden", "b 1 t s", _some_rows),
    Mask("all hidden", "t s", _nothing),
    Mask("all hidden", "b h t s", _nothing),
)
"""Some row sees nothing."""


def with_a_key(
    rng: np.random.Generator,
    conventions: Mapping[str, str],
    shape: Shape,
    options: Mapping[str, Any],
    mask: Array | None,
    bias: Array | None,
) -> None:
    """Shows a key, in place, to every row that mask and bias leave without one. Rows that have
    none under `causal` and `window` stay without."""
    some = np.any(seen(conventions, shape, options, mask, bias), axis=-1)
    rows = np.nonzero(~some)
    if not rows[0].size:
        return
    t, s = shape[2:]
    first, before, after = reach(conventions, t, s, options)
    low = np.maximum(rows[2] + first - before, 0)
    high = np.minimum(rows[2] + first + after, s - 1)
    keys = low + (rng.random(low.size) * (high - low + 1)).astype(np.int64)
    keys = np.clip(keys, 0, s - 1)
    for array, shown in ((mask, True), (bias, 0.0)):
        if array is not None:
            whole = with_four_axes(array)
            at = tuple(
                np.minimum(index, size - 1)
                for index, size in zip((*rows, keys), whole.shape, strict=True)
            )
            whole[at] = (
                shown if array.dtype == bool else np.where(whole[at] > -np.inf, whole[at], 0)
            )
