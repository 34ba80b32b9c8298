"""The checks of rope's laws about streams, documents and caches.

Sources: the claims of `spec/rope_partial.py`, `spec/rope_scores.py` and `spec/mla_streams.py`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from attnspec.oracle.calls import agree, close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.rope_checks import scores, unit_of
from attnspec.oracle.rope_values import paired, rope, width
from attnspec.oracle.rounding import formed

Array = np.ndarray[Any, Any]

STEPS = (1, 2, 17, 300, 1000, 4096, 30000)
"""How far a query is behind the newest key, or all tokens are moved."""
APART = 2**10
"""How far a token is moved at most, another way than its neighbours."""
MOST_CALLS = 6
"""Parts in which a sequence is rotated."""


def _with_positions(inputs: Inputs, positions: Array) -> Inputs:
    given = inputs.arrays["positions"]
    return inputs.with_arrays(positions=positions.astype(given.dtype))


def _narrow(inputs: Inputs) -> Inputs:
    """The channels that turn as a head of their own, all of which turn."""
    options = {name: v for name, v in inputs.options.items() if name != "rotary_dim"}
    x = np.ascontiguousarray(inputs.arrays["x"][..., : width(inputs)])
    return replace(inputs.with_arrays(x=x), options=options)


def _tokens(inputs: Inputs, first: int, last: int, row: int | None = None) -> Inputs:
    """Some tokens of a call, of one batch entry or of all."""
    x, positions = inputs.arrays["x"], inputs.arrays["positions"]
    rows = slice(None) if row is None else slice(row, row + 1)
    if positions.ndim == 2:
        positions = positions[rows]
    return inputs.with_arrays(
        x=np.ascontiguousarray(x[rows, :, first:last]),
        positions=np.ascontiguousarray(positions[..., first:last]),
    )


def partial_frequencies(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """At position 1, from pairs that hold (1, 0), stand the cosine and the sine of the pairs'
    frequencies."""
    first, _ = paired(implementation, np.arange(inputs.arrays["x"].shape[-1]), width(inputs))
    x = np.zeros_like(inputs.arrays["x"])
    x[..., first] = 1.0
    inputs = inputs.with_arrays(x=x)
    right, actual = rope(implementation, inputs), implementation(inputs)
    return [close("cosine and sine of a frequency", actual, right, implementation.dtype)]


def partial_eq_narrow_head(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The channels that turn are what they are in a head that has no others."""
    narrow = _narrow(inputs)
    if not implementation.legal(narrow):
        return []
    r, layout = width(inputs), "contiguous"
    allowance = 2.0 * rope(implementation, inputs).allowance[..., :r]
    among = implementation(inputs, layout=layout)[..., :r]
    alone = implementation(narrow, layout=layout)
    what = "channels that turn, in a head of their own"
    return [agree(what, among, alone, allowance, implementation.dtype)]


def content_without_position(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Whatever the positions, the content's channels have the same bits."""
    positions, r = inputs.arrays["positions"], width(inputs)
    rng = generator(inputs, "other positions")
    others = positions + rng.integers(1, APART, size=positions.shape)
    layout = "contiguous"
    here = implementation(inputs, layout=layout)[..., r:]
    there = implementation(_with_positions(inputs, others), layout=layout)[..., r:]
    return [same("content at other positions", there, here, implementation.dtype)]


def streams_add_up(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The scores of vectors with a part that turns and one that does not are those of the first
    part alone, all of it at later positions, and the plain product of the second."""
    narrow = _narrow(inputs)
    if not implementation.legal(narrow):
        return []
    r, unit = width(inputs), unit_of(inputs)
    shift = STEPS[int(generator(inputs, "shift").integers(len(STEPS)))]
    later = _with_positions(narrow, narrow.arrays["positions"] + shift)
    both, alone = implementation(inputs) * unit, implementation(later) * unit
    content = inputs.arrays["x"][..., r:] * unit
    errors = rope(implementation, inputs).allowance * unit
    room = _room(both, errors) + _room(alone, rope(implementation, later).allowance * unit)
    sizes = [scores(np.abs(y), np.abs(y)) for y in (both, alone, content)]
    room += formed(sizes[0], both.shape[-1]) + formed(sizes[1] + sizes[2], both.shape[-1] + 1)
    sums = scores(alone, alone) + scores(content, content)
    what = f"scores, and those of the streams, the position moved by {shift}"
    return [agree(what, scores(both, both), sums, room, "float64")]


def _room(y: Array, errors: Array) -> Array:
    """How far scores of y with itself may be off, whose elements are off by `errors`."""
    one = scores(np.abs(y), errors)
    room: Array = one + np.swapaxes(one, -1, -2) + scores(errors, errors)
    return room


def packed_documents(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A document among others in its row is what it is alone."""
    whole = implementation(inputs, layout="contiguous")
    allowance = 2.0 * rope(implementation, inputs).allowance
    found = []
    for row, first, last in _documents(inputs):
        part = _tokens(inputs, first, last, row)
        if not implementation.legal(part):
            return []
        alone = implementation(part, layout="contiguous")
        at = (slice(None) if row is None else slice(row, row + 1), slice(None), slice(first, last))
        where = f"tokens {first} to {last - 1}" + ("" if row is None else f" of entry {row}")
        found += _equal(implementation, f"document of {where}", alone, whole[at], allowance[at])
    return found


def _equal(
    implementation: Implementation, what: str, one: Array, other: Array, allowance: Array
) -> list[Comparison]:
    """Within the allowance, and to the bit where that is promised."""
    dtype, exact = implementation.dtype, "batch-invariant" in implementation.guarantees
    return [
        agree(what, one, other, allowance, dtype),
        same(f"{what}, to the bit", one, other, dtype, promised=exact),
    ]


def _documents(inputs: Inputs) -> list[tuple[int | None, int, int]]:
    """Batch entry (None for all), first and end of some documents: runs of positions."""
    positions = inputs.arrays["positions"]
    shared = positions.ndim == 1
    found: list[tuple[int | None, int, int]] = []
    for row, places in enumerate(np.atleast_2d(positions)):
        edges = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
        found += [(None if shared else row, a, b) for a, b in pairwise(edges)]
    chosen = generator(inputs, "documents").permutation(len(found))[:MOST_CALLS]
    return [found[i] for i in sorted(chosen.tolist())]


def chunk_by_chunk(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The chunks of a sequence one after another, and then all of it at once."""
    edges = _edges(implementation, inputs)
    parts = [_tokens(inputs, a, b) for a, b in pairwise(edges)]
    if not all(map(implementation.legal, parts)):
        return []
    chunks = np.concatenate([implementation(p, layout="contiguous") for p in parts], axis=2)
    whole = implementation(inputs, layout="contiguous")
    allowance = 2.0 * rope(implementation, inputs).allowance
    what = f"chunks of {', '.join(str(p.arrays['x'].shape[2]) for p in parts)} tokens"
    return _equal(implementation, what, chunks, whole, allowance)


def _edges(implementation: Implementation, inputs: Inputs) -> list[int]:
    """Where chunks begin and end: one token after another, a prefix and the tokens behind it, or
    anywhere; now and then with a chunk of nothing, where that is legal."""
    n = inputs.arrays["x"].shape[2]
    rng = generator(inputs, "chunks")
    few = min(n, MOST_CALLS - 1)
    anywhere = sorted(set(rng.integers(1, n, size=2).tolist()))
    ways = ([*range(few)], [0, *range(n - few + 1, n)], [0, *anywhere])
    edges = [*ways[int(rng.integers(len(ways)))], n]
    if rng.random() < 0.25 and implementation.legal(_tokens(inputs, 0, 0)):
        place = int(rng.integers(len(edges)))
        edges.insert(place, edges[place])
    return edges


def cached_keys(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Keys that were rotated as they came, and a query that comes later: its scores are those of
    a call with all of them whose positions begin at 0, or later where they began there."""
    x, positions = inputs.arrays["x"], inputs.arrays["positions"]
    first = positions.min(axis=-1, keepdims=True)
    newest = positions.max(axis=-1, keepdims=True)
    step, shift = generator(inputs, "query").choice(STEPS, size=2)
    at = newest + step
    moved = np.where(first > 0, -first, shift)
    query = inputs.with_arrays(
        x=np.ascontiguousarray(x[:, :, :1]), positions=at.astype(positions.dtype)
    )
    together = inputs.with_arrays(
        x=np.concatenate([x, x[:, :, :1]], axis=2),
        positions=(np.concatenate([positions, at], axis=-1) + moved).astype(positions.dtype),
    )
    n = x.shape[2]
    parts = [_tokens(inputs, 0, n - 1), _tokens(inputs, n - 1, n), query]
    if not all(map(implementation.legal, [*parts, together])):
        return []
    unit, layout = unit_of(inputs), "contiguous"
    cached, errors = (
        np.concatenate(found, axis=2) * unit
        for found in (
            [implementation(part, layout=layout) for part in parts],
            [rope(implementation, part).allowance for part in parts],
        )
    )
    anew = implementation(together, layout=layout) * unit
    room = _room(cached, errors) + _room(anew, rope(implementation, together).allowance * unit)
    d = x.shape[-1]
    room += sum(formed(scores(np.abs(y), np.abs(y)), d) for y in (cached, anew))
    what = "scores of the query with the cached keys"
    one, other = (scores(y, y)[..., -1:, :-1] for y in (cached, anew))
    return [agree(what, one, other, room[..., -1:, :-1], "float64")]


def rows_eq_shared(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Positions with a row for each entry of the batch, all rows alike, are positions that all
    entries share."""
    positions = inputs.arrays["positions"]
    shape = (len(inputs.arrays["x"]), *positions.shape)
    rows = inputs.with_arrays(positions=np.broadcast_to(positions, shape).copy())
    layout = "contiguous"
    one = implementation(rows, layout=layout)
    other = implementation(inputs, layout=layout)
    allowance = 2.0 * rope(implementation, inputs).allowance
    return _equal(implementation, "a row of positions for each entry", one, other, allowance)
