"""Attention of the newest token over a cache, as an expression.

Sources: document 004 (3.1, KV cache). The cache has room for more keys than are valid: each batch
entry has its own length, the newest token included. It is the definition of attention for one
query, which stands at position length - 1, so that causality ends what is seen. Slots from the
length on are not read at all. Windows and rows without keys are the project's contract.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.attention_definition import Options, attention
from attnspec.spec.definition import Definition, choice
from attnspec.spec.substitution import substituted

_slots, _batch, _groups, _d, _e = sp.symbols("slots batch groups d e", integer=True, positive=True)
_lengths = sp.IndexedBase(sp.Symbol("lengths", integer=True), shape=(_batch,))
_caches = {
    "k": sp.IndexedBase("k_cache", shape=(_batch, _groups, _slots, _d), real=True),
    "v": sp.IndexedBase("v_cache", shape=(_batch, _groups, _slots, _e), real=True),
}


def _read(node: sp.Indexed) -> sp.Expr:
    """What a query reads in place of k[b, g, j, l] or v[b, g, j, c]: the cache, where slot j is
    valid."""
    batch, _, slot, _ = node.indices
    cached = _caches[str(node.base.label)][node.indices]
    return choice(cached, slot < _lengths[batch], sp.Integer(0))


@cache
def decode_attention(
    *, window: bool = False, head_order: str = "grouped", scaling: str = "any"
) -> Definition:
    """q[b, h, i, l], k_cache[b, g, j, l], v_cache[b, g, j, c], lengths[b] -> o[b, h, i, c], with
    i = 0 alone. A window shows the newest key and `left` ones before it."""
    whole = attention(Options(ranges=True, head_order=head_order, scaling=scaling))
    names = {str(symbol): symbol for symbol in whole.parameters}
    (b, _), *_ = whole.axes
    q = next(array for array in whole.arrays if str(array.label) == "q")
    given: dict[sp.Basic, sp.Basic] = {
        names["t"]: sp.S.One,
        names["s"]: _slots,
        names["offset"]: _lengths[b] - 1,
        names["right"]: sp.S.Zero,
    }
    if not window:
        given[names["left"]] = sp.oo
    entries = whole.expression.atoms(sp.Indexed)
    given |= {node: _read(node) for node in entries if node.base != q}
    queries = sp.IndexedBase(q.label, shape=tuple(size.xreplace(given) for size in q.shape))
    given |= {node: queries[node.indices] for node in entries if node.base == q}
    gone = ("t", "offset", "right") if window else ("t", "offset", "left", "right")
    return Definition(
        "decode_attention",
        substituted(whole.expression, given),
        tuple((axis, size.xreplace(given)) for axis, size in whole.axes),
        (queries, *_caches.values(), _lengths),
        tuple(_slots if name == "s" else names[name] for name in names if name not in gone),
        "with a window" if window else "without a window",
    )


@cache
def definitions() -> tuple[Definition, ...]:
    """Without a window and with one: the order of heads and the scale are attention's."""
    return (decode_attention(), decode_attention(window=True))
