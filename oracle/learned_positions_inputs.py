"""Calls of learned_positions: tables whose rows differ, positions of every order within them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from attnspec.oracle.family import DRESSES, PLAIN, Draw, Dress, Family, Form, Scope, floats
from attnspec.oracle.law import Inputs
from attnspec.oracle.shapes import Need, Shape, fitted, several
from attnspec.oracle.values import VALUES, Pattern, Span, span

Array = np.ndarray[Any, Any]

AXES = ("n", "L", "m")

SHAPES: tuple[Shape, ...] = (
    (1, 1, 1), (1, 2, 1), (2, 3, 1), (3, 2, 2), (2, 5, 3), (5, 3, 2), (4, 7, 3), (7, 4, 5),
    (3, 9, 4), (9, 5, 2), (5, 17, 3), (17, 5, 3), (6, 16, 5), (16, 7, 6), (3, 1, 4), (4, 12, 1),
    (3, 33, 16), (33, 6, 4), (5, 65, 7), (65, 9, 3), (2, 129, 31), (3, 257, 5), (6, 300, 3),
    (9, 512, 2), (5, 1025, 2), (7, 2049, 2), (129, 12, 2), (200, 5, 3), (40, 257, 3), (2, 7, 64),
    (17, 600, 3), (31, 1025, 1), (15, 2049, 1),
    (3, 5, 100), (2, 3, 257), (3, 4, 1023), (5, 40, 33),
)  # fmt: skip
"""Tokens, rows and width, simplest first: fewer tokens than rows and more, one row, one channel,
tables beyond the integers of a byte, of bfloat16 and of float16."""

EXACT_COUNT = 256
"""Integers up to here are numbers of every storage dtype."""


@dataclass(frozen=True)
class Reading:
    """One named way to choose the rows that are read."""

    name: str
    fill: Callable[[np.random.Generator, int, int], Array]
    """From a generator, the tokens and the rows of the table to int64, one row for each token."""


def _running(_rng: np.random.Generator, n: int, rows: int) -> Array:
    return np.arange(n) % rows


def _up_to_the_last(_rng: np.random.Generator, n: int, rows: int) -> Array:
    return (np.arange(n) + rows - n) % rows


def _last(_rng: np.random.Generator, n: int, rows: int) -> Array:
    return np.full(n, rows - 1)


def _continued(rng: np.random.Generator, n: int, rows: int) -> Array:
    return (np.arange(n) + rng.integers(rows)) % rows


def _repeated(rng: np.random.Generator, n: int, rows: int) -> Array:
    return np.arange(n) // rng.integers(2, 4) % rows


def _restarting(rng: np.random.Generator, n: int, rows: int) -> Array:
    """Documents packed into one row."""
    starts = rng.random(n) < 0.3
    starts[:1] = True
    places = np.maximum.accumulate(np.where(starts, np.arange(n), 0))
    return (np.arange(n) - places) % rows


def _reversed(_rng: np.random.Generator, n: int, rows: int) -> Array:
    return np.ascontiguousarray((np.arange(n) % rows)[::-1])


def _permuted(rng: np.random.Generator, n: int, rows: int) -> Array:
    return rng.permutation((np.arange(n) + rng.integers(rows)) % rows)


def _all_equal(rng: np.random.Generator, n: int, rows: int) -> Array:
    return np.full(n, rng.integers(rows))


def _ends(rng: np.random.Generator, n: int, rows: int) -> Array:
    return np.asarray(rng.integers(2, size=n) * (rows - 1))


def _random(rng: np.random.Generator, n: int, rows: int) -> Array:
    return rng.integers(rows, size=n)


READINGS: tuple[Reading, ...] = (
    Reading("from 0", _running),
    Reading("up to the last row", _up_to_the_last),
    Reading("the last row", _last),
    Reading("continued", _continued),
    Reading("repeated", _repeated),
    Reading("restarting", _restarting),
    Reading("reversed", _reversed),
    Reading("permuted", _permuted),
    Reading("all equal", _all_equal),
    Reading("first and last", _ends),
    *(Reading("random", _random),) * 4,
)
"""Simplest first; repeated as often as they shall be drawn."""
REPEATING = tuple(r for r in READINGS if r.name not in ("from 0", "up to the last row", "reversed"))


def _counted(_rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """Whole numbers that every dtype holds, each channel of each row another one as long as
    there are any."""
    return np.arange(np.prod(shape)).reshape(shape) % 509.0 - 254.0


def _row_numbers(_rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return np.broadcast_to(np.arange(float(shape[0]))[:, None], shape).copy()


_ALIKE = ("zeros", "ones", "one-hot", "constant", "equal rows")
TABLES: tuple[Pattern, ...] = (
    Pattern("counted", _counted, signed=False),
    *(pattern for pattern in VALUES if pattern.name not in _ALIKE),
)
"""In which most rows differ from each other."""
ROW_NUMBERS = (Pattern("row numbers", _row_numbers, signed=False),)
"""In which every row says which one it is."""


def _own_rows(dresses: tuple[Dress, ...]) -> tuple[Dress, ...]:
    """Those in which not every row is the same memory."""
    return tuple(dress for dress in dresses if dress.layout != "expanded")


def _forms(scope: Scope, needs: Mapping[str, Need] | None = None) -> tuple[Form, ...]:
    return tuple(Form(shape, {}) for shape in fitted(SHAPES, AXES, scope.limits, needs or {}))


def _empty_forms(scope: Scope) -> tuple[Form, ...]:
    """No token. It may be so unless a limit forbids it."""
    limit = scope.limits.get("n", (0, 1))
    if 0 not in limit if isinstance(limit, (set, frozenset)) else limit[0] > 0:
        raise ValueError(f"the limits {scope.limits!r} allow no empty axis")
    limits = {axis: limit for axis, limit in scope.limits.items() if axis != "n"}
    shapes = fitted(((1, 1, 1), (1, 5, 3), (1, 3, 8)), AXES, limits, {})
    return tuple(Form((0, *shape[1:]), {}) for shape in shapes)


def _build(scope: Scope, drawn: Draw) -> Inputs:
    form, reading, pattern, dress, seed = drawn
    rng = np.random.default_rng(seed)
    n, rows, width = form.shape
    table = floats(rng, (rows, width), pattern, dress, span(scope.dtype, "values"))
    return Inputs(
        component="learned_positions",
        dtype=scope.dtype,
        arrays={
            "positions": reading.fill(rng, n, rows).astype(scope.index_dtype, copy=False),
            "table": table,
        },
        layout=dress.layout,
        pattern=f"{pattern.name}; positions: {reading.name}",
        seed=seed,
    )


def _family(
    name: str,
    says: str,
    *,
    forms: Callable[[Scope], tuple[Form, ...]] = _forms,
    extras: tuple[Reading, ...] = READINGS,
    patterns: tuple[Pattern, ...] = TABLES,
    dresses: tuple[Dress, ...] = DRESSES,
) -> Family:
    return Family(
        name=name,
        component="learned_positions",
        says=says,
        forms=forms,
        extras=extras,
        build=_build,
        patterns=patterns,
        dresses=_own_rows(dresses),
    )


FAMILIES: tuple[Family, ...] = (
    _family("learned_positions", "any positions in a table of different rows"),
    _family(
        "learned_positions_numbered",
        "every row of the table holds its own number",
        forms=partial(_forms, needs={"L": lambda rows: 0 < rows <= EXACT_COUNT + 1}),
        patterns=ROW_NUMBERS,
        dresses=PLAIN,
    ),
    _family(
        "learned_positions_repeated",
        "several tokens at one position, as many as every dtype can count",
        forms=partial(_forms, needs={"n": lambda n: several(n) and n <= EXACT_COUNT}),
        extras=REPEATING,
    ),
    _family(
        "learned_positions_empty",
        "no token",
        forms=_empty_forms,
        extras=READINGS[:1],
        patterns=TABLES[:1],
        dresses=PLAIN,
    ),
)
