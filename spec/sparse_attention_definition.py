"""Sparse attention as an expression: attention whose mask is read off a table of indices.

Source: document 004 (3.7, DSA). Query i of a batch entry attends, with all its heads, to the keys
indices[b, i, :] and to no others. An index of -1 is no key.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec import attention_definition
from attnspec.spec.attention_definition import HEAD_ORDERS, Options
from attnspec.spec.definition import Definition, one_if

_b, _i, _j, _p = sp.symbols("b i j p", integer=True, nonnegative=True)
_places = sp.Symbol("places", integer=True, positive=True)
_whole = attention_definition.attention(Options(mask=True))
_batch, _t = (size for axis, size in _whole.axes if axis in (_b, _i))
_indices = sp.IndexedBase(sp.Symbol("indices", integer=True), shape=(_batch, _t, _places))


def times_selected(key: sp.Expr = _j) -> sp.Expr:
    """How often a key is among the indices of query i."""
    hit = one_if(sp.Eq(_indices[_b, _i, _p], key))
    return sp.Sum(hit, (_p, 0, _places - 1))


def _is_mask(node: sp.Basic) -> bool:
    return isinstance(node, sp.Indexed) and str(node.base.label) == "mask"


@cache
def sparse_attention(head_order: str, scaling: str = "any") -> Definition:
    """q[b, h, i, l], k[b, g, j, l], v[b, g, j, c], indices[b, i, p] -> o[b, h, i, c]."""
    dense = attention_definition.attention(
        Options(mask=True, head_order=head_order, scaling=scaling)
    )
    (mask,) = (node for node in dense.expression.atoms(sp.Indexed) if _is_mask(node))
    kept = tuple(array for array in dense.arrays if array != mask.base)
    return Definition(
        f"sparse_attention.{head_order}",
        dense.expression.xreplace({mask: times_selected()}),
        dense.axes,
        (*kept, _indices),
        (*dense.parameters, _places),
    )


@cache
def selected() -> Definition:
    """indices[b, i, p] -> 1 where query i attends to key j, else 0."""
    s = next(p for p in _whole.parameters if p.name == "s")
    return Definition(
        "sparse_attention.selected",
        one_if(sp.Ne(times_selected(), 0)),
        ((_b, _batch), (_i, _t), (_j, s)),
        (_indices,),
        (_batch, _t, s, _places),
    )


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return (*(sparse_attention(order) for order in HEAD_ORDERS), selected())
