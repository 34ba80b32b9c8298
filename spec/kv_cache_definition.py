"""What a cache of keys and values holds, and what is done without one, as numbers of things.

Sources: document 004 (3.1: KV cache, MQA, GQA). All are whole numbers, of sizes alone or of the
lengths of the sequences in a batch. What a layer stores of a token is in `gqa_definition`, what
attention costs in `attention_cost_definition`.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition
from attnspec.spec.gqa_definition import (
    BATCH,
    GROUPS,
    KEY_SIZE,
    LENGTH,
    VALUE_SIZE,
    variant_elements,
)

_b, _t = sp.symbols("b t", integer=True, nonnegative=True)
_layers, _bits, _n = sp.symbols("layers bits n", integer=True, positive=True)
_lengths = sp.IndexedBase(sp.Symbol("lengths", integer=True), shape=(BATCH,))


def elements() -> Definition:
    """lengths[b] -> how many numbers the caches of all layers hold for a batch: d of a key and e
    of a value, for each token and key head."""
    tokens = sp.Sum(_lengths[_b], (_b, 0, BATCH - 1))
    of_token = sp.factor(variant_elements("gqa") / (BATCH * LENGTH))
    return Definition(
        "kv_cache.elements",
        _layers * of_token * tokens,
        (),
        (_lengths,),
        (_layers, BATCH, GROUPS, KEY_SIZE, VALUE_SIZE),
    )


def held_bytes() -> Definition:
    """lengths[b] -> the bytes of these numbers, of `bits` each, packed."""
    whole = elements()
    return Definition(
        "kv_cache.bytes",
        sp.floor((whole.expression * _bits + 7) / 8),
        (),
        whole.arrays,
        (*whole.parameters, _bits),
    )


def projected_tokens() -> Definition:
    """How many tokens are projected on the way to n of them, one at a time, without a cache: all
    that there are, at every step."""
    return Definition("kv_cache.projected_tokens", sp.Sum(_t + 1, (_t, 0, _n - 1)), (), (), (_n,))


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return (elements(), held_bytes(), projected_tokens())
