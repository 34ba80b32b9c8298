"""What a target is called with: legal calls, drawn by Hypothesis in at most five draws.

Structure is drawn (a shape with options, what is special to the family, a value pattern, memory
layout with special numbers, a seed), simplest table entries first, so that shrinking leads to
small, contiguous and simple calls. Everything else is filled from the seed by NumPy's generator,
identically on every device. Limits of a target narrow the tables when a strategy is built;
nothing is drawn and thrown away.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from attnspec.oracle.family import LAYOUTS, Draw, Family, Scope
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

FAMILIES: Mapping[str, Family] = {family.name: family for family in (*SOFTMAX, *ROPE)}
"""Name to family. Laws refer to the names."""

SEEDS = 2**31

_Key = tuple[Hashable, ...]
_BUILT: dict[_Key, SearchStrategy[Inputs]] = {}


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
    key = (family, scope.dtype, scope.accepts, _frozen(scope.limits), scope.index_dtype)
    if key not in _BUILT:
        _BUILT[key] = _strategy(found, scope)
    return _BUILT[key]


def _strategy(family: Family, scope: Scope) -> SearchStrategy[Inputs]:
    build = family.build
    forms, extras = _from(family.forms(scope)), _from(family.extras)
    patterns, dresses = _from(family.patterns), _from(family.dresses)
    seeds = st.integers(0, SEEDS - 1)

    @st.composite
    def call(draw: st.DrawFn) -> Inputs:
        drawn = Draw(draw(forms), draw(extras), draw(patterns), draw(dresses), draw(seeds))
        return build(scope, drawn)

    return call()


def sampled(family: str, scope: Scope, many: int, seed: int = 0) -> Iterator[Inputs]:
    """The same calls as `strategy` draws, from NumPy's generator instead: for long runs, which
    have no use for shrinking. Raises ValueError as `strategy` does."""
    strategy(family, scope)
    found = FAMILIES[family]
    tables = (found.forms(scope), found.extras, found.patterns, found.dresses)
    rng = np.random.default_rng(seed)
    for _ in range(many):
        places = [int(rng.integers(len(table))) for table in tables]
        form, extra, pattern, dress = (t[i] for t, i in zip(tables, places, strict=True))
        yield found.build(scope, Draw(form, extra, pattern, dress, int(rng.integers(SEEDS))))


def _from(table: Sequence[Any]) -> SearchStrategy[Any]:
    return st.sampled_from(table) if len(table) > 1 else st.just(table[0])


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
    shapes = ", ".join(
        f"{name} {' x '.join(map(str, values.shape))}" for name, values in inputs.arrays.items()
    )
    options = "".join(f", {name}={value!r}" for name, value in inputs.options.items())
    return (
        f"{shapes}{options}; {inputs.dtype}; {inputs.pattern}; {inputs.layout}; seed {inputs.seed}"
    )
