"""Longformer attention as expressions: attention in a window, with some tokens of all and for all.

Source: document 004 (3.7, Longformer). Everything but who sees whom is attention's own definition;
its mask's condition is replaced, and there are as many queries as keys, and key heads as query
heads.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sympy as sp

from attnspec.spec import attention_definition, window_definition
from attnspec.spec.attention_definition import Options
from attnspec.spec.definition import Definition, one_if
from attnspec.spec.window_definition import LEFT, RIGHT

_b, _i, _j = sp.symbols("b i j", integer=True, nonnegative=True)
_batch, _n = sp.symbols("batch n", integer=True, positive=True)
_window = sp.Symbol("window", integer=True, nonnegative=True)
_is_global = sp.IndexedBase(sp.Symbol("is_global", integer=True), shape=(_batch, _n))
_MASKED = Options(mask=True)
_named = {p.name: p for p in attention_definition.attention(_MASKED).parameters}
_SQUARE = {_named["t"]: _n, _named["s"]: _n, _named["groups"]: _named["heads"]}


def in_window() -> sp.Basic:
    """Whether key j is among the `window` keys on either side of query i, or its own."""
    return window_definition.sees().xreplace(dict.fromkeys((LEFT, RIGHT), _window))


def sees() -> sp.Basic:
    """Whether query i sees key j: a global query sees all, a global key is seen by all. A key that
    is global and in the window is one key."""
    return sp.Or(sp.Ne(_is_global[_b, _i], 0), sp.Ne(_is_global[_b, _j], 0), in_window())


def _square(node: Any) -> Any:
    return node.xreplace(_SQUARE)


@cache
def longformer_attention(scaling: str = "any") -> Definition:
    """q[b, h, i, l], k[b, h, j, l], v[b, h, j, c], is_global[b, i] -> o[b, h, i, c].

    `scaling`: where the scale is applied, as in `attention_definition`.
    """
    options = Options(mask=True, scaling=scaling)
    masked = attention_definition.attention(options)
    condition = attention_definition.sees(_MASKED)
    arrays = tuple(_square(array) for array in masked.arrays[:3])
    sizes = [p for p in masked.parameters if p not in _SQUARE]
    sizes.insert(2, _n)
    return Definition(
        "longformer_attention",
        _square(masked.expression.xreplace({condition: sees()})),
        tuple((index, _square(size)) for index, size in masked.axes),
        (*arrays, _is_global),
        (*sizes, _window),
    )


@cache
def visible() -> Definition:
    """1 where query i sees key j, else 0: for all heads alike."""
    return Definition(
        "longformer_attention.visible",
        one_if(sees()),
        ((_b, _batch), (_i, _n), (_j, _n)),
        (_is_global,),
        (_batch, _n, _window),
    )


@cache
def visible_pairs() -> Definition:
    """How many pairs of a query and a key that it sees a batch entry has: [b]."""
    pairs = sp.Sum(visible().expression, (_j, 0, _n - 1), (_i, 0, _n - 1))
    return Definition(
        "longformer_attention.visible_pairs",
        pairs,
        ((_b, _batch),),
        (_is_global,),
        (_batch, _n, _window),
    )


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return (longformer_attention(), visible(), visible_pairs())
