"""Calls of rope as models make them: packed documents, chunks of a sequence, streams beside each
other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from attnspec.oracle.family import DRESSES, PLAIN, Draw, Dress, Family, Form, Scope
from attnspec.oracle.law import Inputs
from attnspec.oracle.positions import POSITIONS, Array, Positions
from attnspec.oracle.rope_inputs import ALL_EQUAL, Drawn, rope_forms, rope_inputs, shaped
from attnspec.oracle.shapes import even, several
from attnspec.oracle.values import PATTERNS, VALUES, Pattern

ROOM = 2**16
"""Positions lie below, where a law moves them on."""


def _restarted(starts: Array) -> Array:
    """Positions from 0 in every document, by where documents start: rows, length."""
    places = np.arange(starts.shape[1])
    return places - np.maximum.accumulate(np.where(starts, places, 0), axis=1)


def _starts(rows: int, n: int) -> Array:
    starts = np.zeros((rows, n), bool)
    starts[:, :1] = True
    return starts


def _two_documents(rng: np.random.Generator, rows: int, n: int) -> Array:
    starts = _starts(rows, n)
    starts[np.arange(rows), rng.integers(1, n, size=rows)] = True
    return _restarted(starts)


def _many_documents(rng: np.random.Generator, rows: int, n: int) -> Array:
    starts = _starts(rows, n) | (rng.random((rows, n)) < 0.4)
    starts[np.arange(rows), rng.integers(1, n, size=rows)] = True
    return _restarted(starts)


def _continued_documents(rng: np.random.Generator, rows: int, n: int) -> Array:
    """Every row has a part of two documents, each of which began elsewhere."""
    first = np.arange(n) < rng.integers(1, n, size=(rows, 1))
    begun = rng.integers(1, 300, size=(2, rows, 1))
    return np.asarray(np.arange(n) + np.where(first, begun[0] + 2 * n, begun[1]))


DOCUMENTS: tuple[Positions, ...] = (
    Positions("two documents", _two_documents),
    Positions("many documents", _many_documents),
    Positions("parts of two documents", _continued_documents),
)
_RUNS = ("from 0", "continued", "different offsets", "from an edge", "restarting", "random")
RUNS: tuple[Positions, ...] = tuple(p for p in POSITIONS if p.name in _RUNS)
"""A sequence, or what is left of one, and now and then other positions."""


def _partial_forms(scope: Scope) -> tuple[Form, ...]:
    needs = {"d": lambda d: even(d) and d > 2}
    return rope_forms(scope, partial_only=True, needs=needs)


def _with_room(scope: Scope, drawn: Draw) -> Inputs:
    return rope_inputs(scope, drawn, end=ROOM)


def _family(
    name: str,
    says: str,
    *,
    extras: tuple[Drawn, ...],
    forms: Callable[[Scope], tuple[Form, ...]] = rope_forms,
    build: Callable[[Scope, Draw], Inputs] = _with_room,
    patterns: tuple[Pattern, ...] = VALUES,
    dresses: tuple[Dress, ...] = DRESSES,
) -> Family:
    return Family(
        name=name,
        component="rope",
        says=says,
        forms=forms,
        extras=extras,
        build=build,
        patterns=patterns,
        dresses=dresses,
    )


FAMILIES: tuple[Family, ...] = (
    _family(
        "rope_partial_at_one",
        "every position is 1, and some channels do not turn",
        extras=shaped(ALL_EQUAL[:1]),
        forms=_partial_forms,
        patterns=(PATTERNS["ones"],),
        dresses=PLAIN,
    ),
    _family(
        "rope_two_streams",
        "a stream that turns beside one that does not, with room for a shift",
        extras=shaped(POSITIONS),
        forms=_partial_forms,
    ),
    _family(
        "rope_packed",
        "documents packed into one row",
        extras=shaped(DOCUMENTS),
        forms=partial(rope_forms, needs={"n": several}),
    ),
    _family(
        "rope_chunks",
        "a sequence of several tokens, with room for a shift",
        extras=shaped(RUNS),
        forms=partial(rope_forms, needs={"n": several}),
    ),
    _family(
        "rope_shared",
        "positions that all entries of a batch share",
        extras=shaped(POSITIONS, False),
        forms=partial(rope_forms, needs={"b": several}),
        build=rope_inputs,
    ),
)
