"""A cache of keys and values: why it may be kept, and what is done again without one.

Source: document 004 (3.1, KV cache). That decoding over a cache gives what attention over all
tokens gives is in `decode_attention`, how many bytes a cache takes in `kv_cache_bytes`.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention import value_slope
from attnspec.spec.attention_causal import autoregressive
from attnspec.spec.attention_definition import Options, sees
from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.exact_values import entry_value
from attnspec.spec.kv_cache_definition import projected_tokens
from attnspec.spec.multi_head_attention import b, beyond, by_projections, h, i, j, l, tokens
from attnspec.spec.multi_head_attention_definition import (
    MultiHead,
    entries,
    multi_head_attention,
)
from attnspec.spec.rope_definition import LAYOUTS
from attnspec.spec.rotation import block

_n = sp.Symbol("n", integer=True, positive=True)


def sees_all() -> tuple[Step, ...]:
    """That the newest query sees every key that there is."""
    seen = sees(Options(ranges=True))
    names = {str(symbol): symbol for symbol in seen.free_symbols}
    last = {"i": sp.S.Zero, "offset": _n - 1, "right": sp.S.Zero, "left": sp.oo}
    newest = seen.subs({names[name]: given for name, given in last.items()})
    key = names["j"]
    return (
        Step(
            "one query over n keys stands at n - 1: key n - 1 - u is seen for every u",
            newest.subs(key, _n - 1 - beyond) == sp.true,
        ),
        Step("its own, u = 0, too", newest.subs(key, _n - 1) == sp.true),
        *value_slope(),
    )


def _key(layout: str | None) -> sp.Expr:
    """Channel l of the key that a layer makes of token j, by X W_k."""
    return by_projections(entries(MultiHead(layout=layout))(sp.IndexedBase("k")[b, h, j, l]))


def _second_key(*values: int) -> sp.Expr:
    """The second layer's key of token 0 where both layers are full attention of one channel, all
    weights 1."""
    call = multi_head_attention(MultiHead())
    one = [[1]]
    sizes = dict.fromkeys(("batch", "heads", "groups", "width", "d", "e"), 1)
    arrays = {
        "x": [[[value] for value in values]],
        **dict.fromkeys(("w_q", "w_k", "w_v", "w_o"), one),
    }
    return entry_value(call, {**sizes, "n": len(values)}, arrays, (0, 0, 0))


def _append_only() -> tuple[Step, ...]:
    unit = sp.ImmutableMatrix([1, 0])
    others = {
        (str(node.base), node.indices[1])
        for layout in (None, *LAYOUTS)
        for node in _key(layout).atoms(sp.Indexed)
    }
    return (
        Step("a layer makes a token's key of that token alone", others == {("Xw_k", j)}),
        Step(
            "turned by its own position or not at all: neither the newest, i, nor the number of "
            "tokens is in it",
            not any(_key(layout).has(i, tokens) for layout in (None, *LAYOUTS)),
        ),
        *autoregressive(),
        Step(
            "without causality a second layer's key of token 0 is 0 for the token 0 alone",
            _second_key(0),
        ),
        Step("and 1/2 once a token 1 has come", _second_key(0, 1) - sp.Rational(1, 2)),
        Step(
            "a key turned by its distance to the newest token is (1, 0) at first, and changes with "
            "the next, as cos(1) < 1",
            (block(sp.S.One) * unit)[0] < (block(sp.S.Zero) * unit)[0],
        ),
    )


def _changed_key() -> Counterexample:
    return Counterexample(
        "two layers of full attention, one channel, all weights 1, tokens 0 and then 1: the second "
        "layer's key of the first, stated to stay what it was",
        stated=_second_key(0),
        actual=_second_key(0, 1),
    )


def _recomputed() -> tuple[Step, ...]:
    total = projected_tokens().expression.doit()
    step = sp.Symbol("t", integer=True, positive=True)
    pairs = sp.Sum(step * (step + 1) / 2, (step, 1, _n)).doit()
    return (
        Step(
            "without a cache step t projects t tokens: n (n + 1) / 2 in all",
            sp.expand(total - _n * (_n + 1) / 2),
        ),
        Step(
            "n (n - 1) / 2 more than once each",
            sp.expand(total - _n - _n * (_n - 1) / 2),
        ),
        Step("(n + 1) / 2 times as many", sp.simplify(total / _n - (_n + 1) / 2)),
        Step("which grows without bound", sp.Eq(sp.limit(total / _n, _n, sp.oo), sp.oo)),
        Step(
            "rows of attention that are computed again have n (n + 1) (n + 2) / 6 pairs",
            sp.expand(pairs - _n * (_n + 1) * (_n + 2) / 6),
        ),
        Step(
            "where n (n + 1) / 2 are enough: (n + 2) / 3 times as many",
            sp.simplify(pairs / total - (_n + 2) / 3),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="kv_cache.next_token_sees_all",
        number="C029",
        statement="The next token attends to the keys and values of all tokens before it.",
        latex=r"p_{n-1,j}>0\quad(0\le j\le n-1)",
        source=Source("004", "3.1 KV Cache", "A new token needs every earlier key and value."),
        verdict="holds",
        form="symbolic",
        truth="And to its own; under a window to the nearest ones only.",
        derivation=sees_all,
    ),
    Claim(
        id="kv_cache.append_only_of_causal",
        number="C030",
        statement="Keys and values of past tokens never change once they are computed.",
        latex=r"\partial k^{(L)}_j/\partial x_m=\partial v^{(L)}_j/\partial x_m=0\quad(m>j)",
        source=Source("004", "3.1 KV Cache", "What was computed for past tokens stays as it is."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "attention is causal in every layer"),
            Condition(
                "D2",
                "keys are stored without positions, or turned by their own position: not by the "
                "distance to the newest token",
            ),
        ),
        truth="Without causality the keys of all layers but the first change with every token.",
        counterexample=_changed_key,
        derivation=_append_only,
    ),
    Claim(
        id="kv_cache.recomputed_projections",
        number="C032",
        statement="Computing all keys and values anew at every step is wasteful.",
        latex=r"\sum_{t=1}^nt=\tfrac{n(n+1)}2",
        source=Source("004", "3.1 KV Cache", "Recomputing at each step would waste a lot."),
        verdict="holds",
        form="symbolic",
        truth="n (n + 1) / 2 projections in place of n.",
        derivation=_recomputed,
    ),
)
