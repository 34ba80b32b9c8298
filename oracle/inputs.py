"""What a target is called with: legal calls, drawn by Hypothesis in one draw.

Structure is drawn (a shape with options, what is special to the family, a value pattern, memory
layout with special numbers, a seed), simplest table entries first, so that shrinking leads to
small, contiguous and simple calls. Everything else is filled from the seed by NumPy's generator,
identically on every device. Limits of a target narrow the tables when a strategy is built;
nothing is drawn and thrown away.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from attnspec.oracle import (
    alibi_inputs,
    decode_attention_inputs,
    layer_norm_inputs,
    learned_positions_inputs,
    mla_cache_inputs,
    mla_inputs,
    multi_head_attention_inputs,
    residual_block_inputs,
    rms_norm_inputs,
    rope_streams_inputs,
    sinusoidal_inputs,
    t5_inputs,
    transformer_layer_inputs,
)
from attnspec.oracle.attention_families import ATTENTION
from attnspec.oracle.family import LAYOUTS, Draw, Family, Form, Scope
from attnspec.oracle.law import Inputs
from attnspec.oracle.rope_inputs import ROPE
from attnspec.oracle.softmax_inputs import SOFTMAX

__all__ = [
    "FAMILIES",
    "LAYOUTS",
    "Scope",
    "description",
    "families",
    "generator",
    "sampled",
    "strategy",
]

_ALL = (
    *SOFTMAX,
    *ATTENTION,
    *decode_attention_inputs.FAMILIES,
    *sinusoidal_inputs.FAMILIES,
    *learned_positions_inputs.FAMILIES,
    *t5_inputs.FAMILIES,
    *alibi_inputs.FAMILIES,
    *ROPE,
    *rope_streams_inputs.FAMILIES,
    *layer_norm_inputs.FAMILIES,
    *rms_norm_inputs.FAMILIES,
    *residual_block_inputs.FAMILIES,
    *mla_inputs.FAMILIES,
    *mla_cache_inputs.FAMILIES,
    *multi_head_attention_inputs.FAMILIES,
    *transformer_layer_inputs.FAMILIES,
)

FAMILIES: Mapping[str, Family] = {family.name: family for family in _ALL}
"""Name to family. Laws refer to the names."""

SEEDS = 2**31
LOWEST = 12
"""Entries of a table, from its simplest, to which `lowered` goes."""

MOST_BUILT = 200
"""Families within a scope whose tables are kept."""

_Key = tuple[Hashable, ...]
_BUILT: dict[_Key, SearchStrategy[Inputs]] = {}
_FORMS: dict[_Key, Sequence[Form]] = {}


def families(component: str | None = None) -> tuple[str, ...]:
    """The names of all families, or of those of one component."""
    return tuple(n for n, f in FAMILIES.items() if component in (None, f.component))


def strategy(family: str, scope: Scope) -> SearchStrategy[Inputs]:
    """Draws calls of a family within a scope; built once for each.

    Raises ValueError for an unknown family, one of another component, and when the limits or the
    options of the target leave no legal call; the message says which.
    """
    if family not in FAMILIES:
        raise ValueError(f"unknown family of inputs {family!r}; there are: {', '.join(FAMILIES)}")
    found = FAMILIES[family]
    if found.component != scope.component:
        raise ValueError(
            f"the family {family!r} draws calls of {found.component}, not of {scope.component}"
        )
    key = _key(found, scope)
    if key not in _BUILT:
        _forget()
        _BUILT[key] = _strategy(found, scope)
    return _BUILT[key]


def _forget() -> None:
    """Starts the tables anew once there are many: a run over all targets meets every scope."""
    if len(_BUILT) >= MOST_BUILT:
        _BUILT.clear()
        _FORMS.clear()


def _strategy(family: Family, scope: Scope) -> SearchStrategy[Inputs]:
    """One draw of bytes, two for the place in each table and four for the seed.

    Integers would do, but Hypothesis mixes the constants of whatever modules are loaded into
    them, so that the calls of a seed would depend on what else the process has imported. All
    bytes zero is the simplest call, and shrinking lowers them one by one.
    """
    tables = _tables(family, scope)
    return st.binary(min_size=12, max_size=12).map(partial(_call, family, scope, tables))


def _tables(family: Family, scope: Scope) -> tuple[Sequence[Any], ...]:
    key = _key(family, scope)
    if key not in _FORMS:
        _FORMS[key] = family.forms(scope)
    return _FORMS[key], family.extras, family.patterns, family.dresses


def _key(family: Family, scope: Scope) -> _Key:
    limits, followed = _frozen(scope.limits), tuple(sorted(scope.conventions.items()))
    narrowed = (scope.dtype, scope.accepts, limits, followed, scope.index_dtype)
    return (family.name, family.forms, *narrowed)


def _call(family: Family, scope: Scope, tables: tuple[Sequence[Any], ...], drawn: bytes) -> Inputs:
    words = [int.from_bytes(drawn[at : at + 2], "big") for at in range(0, 8, 2)]
    form, extra, pattern, dress = (
        table[word * len(table) >> 16] for table, word in zip(tables, words, strict=True)
    )
    seed = int.from_bytes(drawn[8:], "big") % SEEDS
    return replace(family.build(scope, Draw(form, extra, pattern, dress, seed)), drawn=drawn)


def lowered(family: str, scope: Scope, inputs: Inputs) -> Iterator[Inputs]:
    """Simpler calls than a drawn one: one table entry exchanged for an earlier one, or seed 0.

    Hypothesis lowers the bytes of a draw one by one and stops where none can be lowered alone;
    these are the steps that it cannot see. Nothing for a call that was not drawn.
    """
    if not inputs.drawn:
        return
    found, drawn = FAMILIES[family], inputs.drawn
    tables = _tables(found, scope)
    for at, table in zip(range(0, 8, 2), tables, strict=True):
        now = int.from_bytes(drawn[at : at + 2], "big") * len(table) >> 16
        for index in range(min(now, LOWEST)):
            word = -(-(index << 16) // len(table))
            lower = drawn[:at] + word.to_bytes(2, "big") + drawn[at + 2 :]
            yield _call(found, scope, tables, lower)
    if any(drawn[8:]):
        yield _call(found, scope, tables, drawn[:8] + bytes(4))


def sampled(family: str, scope: Scope, many: int, seed: int = 0) -> Iterator[Inputs]:
    """The same calls as `strategy` draws, from NumPy's generator instead: for long runs, which
    have no use for shrinking. Raises ValueError as `strategy` does."""
    strategy(family, scope)
    found = FAMILIES[family]
    tables = _tables(found, scope)
    rng = np.random.default_rng(seed)
    for _ in range(many):
        places = [int(rng.integers(len(table))) for table in tables]
        form, extra, pattern, dress = (t[i] for t, i in zip(tables, places, strict=True))
        yield found.build(scope, Draw(form, extra, pattern, dress, int(rng.integers(SEEDS))))


def _frozen(limits: Mapping[str, Any]) -> Hashable:
    """Limits as a key, sets and ranges apart."""
    return tuple(
        (axis, isinstance(limit, (set, frozenset)), tuple(sorted(limit)))
        if isinstance(limit, (set, frozenset))
        else (axis, False, tuple(limit) if isinstance(limit, list) else limit)
        for axis, limit in sorted(limits.items())
    )


def generator(inputs: Inputs, purpose: str) -> np.random.Generator:
    """The generator from which a law fills what it needs at random. It depends on the seed of the
    inputs and on the purpose, so two laws, or two uses within one, do not share numbers."""
    return np.random.default_rng((inputs.seed, crc32(purpose.encode())))


def description(inputs: Inputs) -> str:
    """One line: shapes, options, pattern, layout, seed."""
    words = [f"{name} {' x '.join(map(str, a.shape))}" for name, a in inputs.arrays.items()]
    more = (*inputs.callees.items(), *inputs.numbers.items(), *inputs.options.items())
    words += [f"{n}={v!r}" for n, v in more]
    told = (", ".join(words), inputs.dtype, inputs.pattern, inputs.layout, f"seed {inputs.seed}")
    return "; ".join(part for part in told if part)
