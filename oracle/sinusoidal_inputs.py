"""Calls of sinusoidal: positions at edges and far out, narrow and wide rows, other bases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from attnspec.oracle import positions as at
from attnspec.oracle.family import Draw, Dress, Family, Form, Scope, naming_the_dtype
from attnspec.oracle.law import Inputs
from attnspec.oracle.positions import EDGES, POSITIONS, ZERO, Array, Positions
from attnspec.oracle.shapes import Need, Shape, even, fitted, several
from attnspec.oracle.values import VALUES

AXES = ("n", "dim")

SHAPES: tuple[Shape, ...] = (
    (1, 2), (2, 2), (3, 2), (1, 4), (2, 4), (3, 4), (4, 2), (5, 4), (3, 6), (4, 6), (5, 8), (7, 4),
    (2, 10), (3, 8), (8, 4), (9, 6), (6, 10), (4, 14), (5, 12), (7, 10), (8, 6), (10, 8), (3, 16),
    (15, 4), (16, 6), (17, 10), (5, 18), (4, 22), (7, 32), (9, 30), (31, 4), (32, 6), (33, 8),
    (3, 64), (5, 50), (7, 66), (12, 64), (63, 6), (64, 4), (65, 10), (4, 96), (9, 128), (5, 100),
    (3, 126), (7, 256), (5, 130), (2, 254), (33, 64), (16, 128), (1, 128), (2, 256),
)  # fmt: skip
LONG: tuple[Shape, ...] = ((127, 4), (128, 6), (129, 10), (255, 8), (257, 4), (100, 64), (1025, 2))
"""More rows than are multiplied with each other."""

BASES: tuple[float | None, ...] = (None, 10000.0, 500000.0, 100.0, None, 2.0, 1000000.0, 30.0)
"""None where it is left out."""

PLAIN: tuple[Dress, ...] = tuple(
    Dress(layout, ()) for layout in ("contiguous", "column-step", "offset", "expanded")
)
"""How positions on one axis can lie: the last where all are equal."""


def _forms(
    scope: Scope,
    *,
    table: tuple[Shape, ...] = (*SHAPES, *LONG),
    needs: Mapping[str, Need] | None = None,
) -> tuple[Form, ...]:
    """Every shape with each way to name the dtype, without a base and then with each."""
    shapes = fitted(table, AXES, scope.limits, {"dim": even, **(needs or {})})
    bases = BASES if "base" in scope.accepts else BASES[:1]
    return tuple(
        Form(shape, {**named, **({} if base is None else {"base": base})})
        for base in bases
        for named in naming_the_dtype(scope)
        for shape in shapes
    )


def _empty_forms(scope: Scope) -> tuple[Form, ...]:
    """No position, which is legal unless a limit forbids it."""
    limit = scope.limits.get("n", (0, 0))
    if not (0 in limit if isinstance(limit, (set, frozenset)) else limit[0] <= 0):
        raise ValueError(f"the limit {limit!r} of n allows no empty axis")
    limits = {axis: other for axis, other in scope.limits.items() if axis != "n"}
    shapes = fitted(((1, 4), (1, 2), (1, 10), (1, 64)), AXES, limits, {"dim": even})
    named = naming_the_dtype(scope)
    return tuple(Form((0, dim), options) for _, dim in shapes for options in named)


def sinusoidal_inputs(scope: Scope, drawn: Draw, *, end: int = 2**62) -> Inputs:
    """A call of sinusoidal, at positions below `end`."""
    (n, dim), options = drawn.form
    rows = drawn.extra.fill(np.random.default_rng(drawn.seed), 1, n)
    index = np.dtype(scope.index_dtype)
    rows = at.below(rows, min(end, int(np.iinfo(index).max) + 1)).astype(index, copy=False)
    return Inputs(
        component=scope.component,
        dtype=scope.dtype,
        arrays={"positions": rows[0]},
        numbers={"dim": dim},
        options=dict(options),
        layout=drawn.dress.layout,
        pattern=f"positions: {drawn.extra.name}",
        seed=drawn.seed,
    )


def _one_and_two(_rng: np.random.Generator, rows: int, n: int) -> Array:
    return np.zeros((rows, 1), np.int64) + 1 + np.arange(n) % 2


APART = (1, 6, 22, 44, 355, 710, 256, 2048, 4096, 32768, 65536)
"""Distances at which rows may come out equal: near whole turns of the first pair, and where number
formats and tables end."""


def _apart(rng: np.random.Generator, rows: int, n: int) -> Array:
    """One position, and others at such distances from it, all of them different."""
    first = EDGES[int(rng.integers(len(EDGES)))].start if rng.random() < 0.5 else rng.integers(600)
    far = np.asarray(APART)[rng.permutation(len(APART))]
    rest = APART[-1] + 1 + np.arange(n)
    return np.tile(first + np.concatenate([[0], far, rest])[:n], (rows, 1))


def _next(rng: np.random.Generator, rows: int, n: int) -> Array:
    """Running positions from an edge of a number format, or before it."""
    start = EDGES[int(rng.integers(len(EDGES)))].start - rng.integers(2)
    return np.tile(start + np.arange(n), (rows, 1))


DISTINCT: tuple[Positions, ...] = (
    POSITIONS[0],
    Positions("whole turns apart", _apart),
    Positions("from an edge", _next),
    Positions("whole turns apart", _apart),
)
FIRST: tuple[Positions, ...] = (Positions("1 and 2 by turns", _one_and_two),)


def _family(
    name: str,
    says: str,
    *,
    extras: tuple[Positions, ...] = POSITIONS,
    forms: Callable[[Scope], tuple[Form, ...]] = _forms,
    build: Callable[[Scope, Draw], Inputs] = sinusoidal_inputs,
) -> Family:
    return Family(
        name=name,
        component="sinusoidal",
        says=says,
        forms=forms,
        extras=extras,
        build=build,
        # no floating array is handed over
        patterns=VALUES[:1],
        dresses=PLAIN,
    )


_several: Mapping[str, Any] = {"table": SHAPES, "needs": {"n": several}}

FAMILIES: tuple[Family, ...] = (
    _family("sinusoidal", "any positions"),
    _family(
        "sinusoidal_pairs",
        "several positions that leave room for a shift",
        forms=partial(_forms, **_several),
        build=partial(sinusoidal_inputs, end=2**16),
    ),
    _family("sinusoidal_zero", "every position is 0", extras=ZERO),
    _family("sinusoidal_first", "every position is 1 or 2", extras=FIRST),
    _family(
        "sinusoidal_distinct",
        "different positions",
        extras=DISTINCT,
        forms=partial(_forms, **_several),
    ),
    _family("sinusoidal_empty", "no position", extras=POSITIONS[:1], forms=_empty_forms),
)
