"""Longformer attention: what the expression is, who sees whom, how many pairs, how few layers.

Source: document 004 (3.7, Longformer). The conditions are the definition's: a query is global, or
a key is, or the key is in the window.
"""

from __future__ import annotations

from itertools import product

import sympy as sp

from attnspec.spec import attention_definition
from attnspec.spec.attention_definition import Options
from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.definition import one_if, unmarked
from attnspec.spec.longformer_attention_definition import (
    in_window,
    longformer_attention,
    sees,
    visible,
    visible_pairs,
)
from attnspec.spec.softmax import two_way
from attnspec.spec.sums import distributed
from attnspec.spec.window import band_count, by_distance
from attnspec.spec.window_definition import band_pairs

_n, _w, _g = sp.symbols("n w g", integer=True, positive=True)
_u, _e = sp.symbols("u e", integer=True, nonnegative=True)
(_b, _batch), (_i, _length), (_j, _) = visible().axes
(_flags,) = visible().arrays
_window = visible().parameters[-1]
_QUERY, _KEY = sp.Ne(_flags[_b, _i], 0), sp.Ne(_flags[_b, _j], 0)
_global = sp.IndexedBase("G", integer=True)
"""G_i is 1 where token i is global, else 0."""


def _where(query: bool | None, key: bool | None) -> sp.Basic:
    """Who sees whom where a query and a key are, or aren't, global."""
    given = {_QUERY: query, _KEY: key}
    known = {node: sp.sympify(value) for node, value in given.items() if value is not None}
    return sees().xreplace(known)


def _ahead(condition: sp.Basic, ahead: sp.Expr, window: sp.Expr) -> sp.Basic:
    return condition.subs({_j: _i + ahead, _window: window}, simultaneous=True)


def _of_all() -> tuple[Step, ...]:
    return (
        Step("a global query sees every key", _where(True, None) == sp.true),
        Step("a global key is seen by every query", _where(None, True) == sp.true),
        Step("two others by the window alone", _where(False, False) == in_window()),
        *by_distance(),
    )


def _definition() -> tuple[Step, ...]:
    masked = attention_definition.attention(Options(mask=True))
    mask = attention_definition.sees(Options(mask=True))
    sizes = {p.name: p for p in masked.parameters}
    square = {sizes["t"]: _length, sizes["s"]: _length, sizes["groups"]: sizes["heads"]}
    own = unmarked(longformer_attention().expression)
    same = unmarked(masked.expression).xreplace(square)
    read = {
        (str(node.base.label), node.indices[1])
        for node in same.atoms(sp.Indexed)
        if str(node.base.label) in "kv"
    }
    cases = [
        one_if(_case(query, key, near)) for query, key, near in product((False, True), repeat=3)
    ]
    heads = masked.axes[1][0]
    return (
        *_of_all(),
        Step(
            "with a mask's entry in place of that condition, the expression is attention of as "
            "many queries as keys under the mask",
            own.xreplace({sees(): mask.xreplace(square)}) - same,
        ),
        Step(
            "where every query head has its own keys and values",
            read == {("k", heads), ("v", heads)},
        ),
        Step(
            "a key that is global, read by a global query and in the window counts once",
            sp.Matrix(cases) - sp.Matrix([0, 1, 1, 1, 1, 1, 1, 1]),
        ),
        Step("every token sees at least itself", _ahead(sees(), sp.S.Zero, _w - 1) == sp.true),
    )  # fmt: skip


def _special_cases() -> tuple[Step, ...]:
    back, ahead = (_ahead(in_window(), sign * _u, _u + _e) for sign in (-1, 1))
    alone = visible().expression.xreplace({_QUERY: sp.false, _KEY: sp.false})
    return (
        Step(
            "no token is global: a key counts where the window has it",
            alone - one_if(in_window()),
        ),
        Step(
            "all are: every key counts",
            visible().expression.xreplace({_QUERY: sp.true, _KEY: sp.true}) - 1,
        ),
        Step(
            "a window of n - 1 or more has all n tokens, at distances u <= n - 1",
            back == sp.true and ahead == sp.true,
        ),
    )


def _case(query: bool, key: bool, near: bool) -> sp.Basic:
    """The condition in one of the eight cases."""
    return _where(query, key).xreplace({in_window(): sp.sympify(near)})


def _two_way() -> tuple[Step, ...]:
    earlier = _j <= _i
    return (
        *_of_all(),
        Step(
            "with a causal mask a global query doesn't see what comes after it",
            _ahead(sp.And(_where(True, None), earlier), 1 + _u, _w) == sp.false,
        ),
        Step(
            "nor is a global key seen by what comes before it",
            _ahead(sp.And(_where(None, True), earlier), 1 + _u, _w) == sp.false,
        ),
    )


def _seen_by_first(*, causal: bool) -> sp.Expr:
    """The keys that token 0 of 2 sees, which is global."""
    condition = sp.And(_where(True, None), *([_j <= _i] if causal else []))
    there = [condition.subs({_i: 0, _j: key}) for key in range(2)]
    return sp.Integer(sum(seen == sp.true for seen in there))


def _global_and_causal() -> Counterexample:
    return Counterexample(
        "n = 2, token 0 global, under a causal mask: keys that it sees, stated to be all",
        stated=_seen_by_first(causal=False),
        actual=_seen_by_first(causal=True),
    )


def _indicators() -> Step:
    """1 - (1 - x)(1 - y)(1 - z) for the choice, in all eight cases."""
    cases = tuple(product((False, True), repeat=3))
    return Step(
        "1 where one of three conditions holds is b + (1 - b)(x + y - x y), with x = 1 for a "
        "global query, y for a global key and b for a key in the window",
        sp.Matrix([one_if(_case(*case)) for case in cases])
        - sp.Matrix([int(b) + (1 - int(b)) * (x + y - x * y) for x, y, b in cases]),
    )


def rows_and_columns() -> tuple[Step, ...]:
    """The pairs of which one or both are global: 2 g n - g^2."""
    rows, columns = (_i, 0, _n - 1), (_j, 0, _n - 1)
    either = _global[_i] + _global[_j] - _global[_i] * _global[_j]
    row = distributed(sp.Sum(either, columns)).subs(sp.Sum(_global[_j], columns), _g).doit()
    whole = distributed(sp.Sum(row, rows)).subs(sp.Sum(_global[_i], rows), _g).doit()
    return (
        Step(
            "over a row, where G sums to g: n G_i + g - g G_i",
            sp.expand(row - (_n * _global[_i] + _g - _g * _global[_i])),
        ),
        Step("over all rows: 2 g n - g^2", sp.expand(whole - (2 * _g * _n - _g**2))),
    )


def pairs_bound() -> tuple[Step, ...]:
    """How many pairs there are at most."""
    inside, both = sp.symbols("b x", integer=True, nonnegative=True)
    tokens = _w + 1 + _e
    band = band_pairs(tokens, _w, _w)
    bound = tokens * (2 * _w + 1) + 2 * _g * tokens
    return (
        _indicators(),
        *band_count(),
        *rows_and_columns(),
        Step(
            "(1 - b) x is x less b x, which isn't negative: so no more pairs than those of the "
            "band and 2 g n - g^2",
            sp.expand(both - (1 - inside) * both).is_nonnegative,
        ),
        Step(
            "which is less than n (2w + 1) + 2 g n, for any w <= n - 1",
            sp.expand(bound - band - (2 * _g * tokens - _g**2)).is_positive,
        ),
        Step(
            "a vanishing share of n^2 for fixed w and g",
            sp.limit((_n * (2 * _w + 1) + 2 * _g * _n) / _n**2, _n, sp.oo),
        ),
        *_instances(),
    )


def _instances() -> tuple[Step, ...]:
    """Pairs of five tokens with w = 1 by the definition, one by one."""

    def counted(*tokens: int) -> sp.Expr:
        pairs = visible_pairs().expression.subs({_length: 5, _window: 1}).doit()
        return pairs.replace(
            lambda node: isinstance(node, sp.Indexed),
            lambda node: sp.Integer(int(node.indices[1] in tokens)),
        ).doit()

    return (
        Step("5 tokens, w = 1, none global: 13", counted() - 13),
        Step("token 0 global: 3 more in its row, 3 in its column", counted(0) - 19),
        Step("tokens 0 and 4, whose two pairs count once: 13 + 12 - 2", counted(0, 4) - 23),
        Step("all global: 25", counted(0, 1, 2, 3, 4) - 25),
    )  # fmt: skip


def _broadcast() -> tuple[Step, ...]:
    first, second = sp.symbols("x y", real=True)
    return (
        Step("the global token sees every key k in a first layer", _where(True, None) == sp.true),
        Step("every token i sees the global one in a second", _where(None, True) == sp.true),
        Step(
            "both weights are positive, so token k counts in token i after two layers",
            (two_way(first) * two_way(second)).is_positive,
        ),
        *pairs_bound(),
    )


_GLOBAL = "3.7 Longformer"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="longformer_attention.definition",
        number="",
        statement="The expression that the suite evaluates, without its marks, is attention under "
        "the mask of global tokens and window.",
        latex=r"m_{ij}=1\iff G_i\lor G_j\lor|i-j|\le w",
        source=Source("004", _GLOBAL, "Global tokens are tied to all, local ones to neighbors."),
        verdict="holds",
        form="symbolic",
        truth="What attention is under a mask is attention.masked_definition.",
        derivation=_definition,
    ),
    Claim(
        id="longformer_attention.global_tokens",
        number="C141",
        statement="Global tokens attend to all tokens and are attended by all.",
        latex=r"G_i\lor G_j\Rightarrow m_{ij}=1",
        source=Source("004", _GLOBAL, "A handful of tokens sees everyone and is seen by everyone."),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "there is no causal mask"),),
        truth="Under a causal mask a global token sees what is before it, and is seen from behind.",
        counterexample=_global_and_causal,
        derivation=_two_way,
    ),
    Claim(
        id="longformer_attention.two_layers",
        number="C142",
        statement="Through global tokens information flows anywhere, without n^2 pairs.",
        latex=r"\#\le n(2w+1)+2gn,\quad m_{ig}m_{gk}=1",
        source=Source("004", _GLOBAL, "Hubs broadcast, and the full square is never paid."),
        verdict="holds",
        form="symbolic",
        truth="From any token to any other in two layers. For a number g of global tokens that "
        "does not grow with n: with g = n it is the full square.",
        derivation=_broadcast,
    ),
    Claim(
        id="longformer_attention.visible_pairs",
        number="",
        statement="g global tokens add at most 2 g n - g^2 pairs to those of the window.",
        latex=r"\#=\sum_{ij}b_{ij}+(1-b_{ij})(G_i+G_j-G_iG_j)",
        source=Source("004", _GLOBAL, "Adds global tokens to a window."),
        verdict="holds",
        form="symbolic",
        derivation=pairs_bound,
    ),
    Claim(
        id="longformer_attention.eq_window_of_no_global_tokens",
        number="",
        statement="Without global tokens it is attention in a window, and with all tokens global, "
        "or a window no shorter than the sequence, attention over all.",
        latex=r"G=0\Rightarrow m_{ij}=b_{ij},\quad G=1\Rightarrow m_{ij}=1",
        source=Source("004", _GLOBAL, "Local tokens keep to their window."),
        verdict="holds",
        form="symbolic",
        derivation=_special_cases,
    ),
)
