"""Attention in a window: who is seen, how many pairs that makes, and how far layers reach.

Source: document 004 (3.7: sliding window, and what DSA is to mend). Who sees whom is the
definition's; keys are named by their distance from a query.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.window_definition import (
    BAND_PAIRS,
    LEFT,
    RIGHT,
    VISIBLE_PAIRS,
    band_pairs,
    sees,
)

_n, _w = sp.symbols("n w", integer=True, positive=True)
_i, _u, _e, _f = sp.symbols("i u e f", integer=True, nonnegative=True)
"""`_i` is a query, `_u` a distance; `_e` and `_f` are what there is to spare."""
_SEES = {str(symbol): symbol for symbol in sees().free_symbols}


def at(ahead: sp.Expr, left: sp.Expr, right: sp.Expr) -> sp.Basic:
    """Whether a query sees the key that is so far ahead of its own."""
    there = {_SEES["i"]: _i, _SEES["j"]: _i + ahead, LEFT: left, RIGHT: right}
    return sees().subs(there, simultaneous=True)


def _counted(rows: int, left: int, right: int, query: int) -> sp.Integer:
    """The keys that a query of so many tokens sees, one by one."""
    there = {_SEES["i"]: query, LEFT: left, RIGHT: right}
    return sp.Integer(sum(bool(sees().subs({**there, _SEES["j"]: key})) for key in range(rows)))


def by_distance() -> tuple[Step, ...]:
    """A band of radius w is the keys at distances up to w."""
    return (
        Step("a key at most w back is seen: w = u + e", at(-_u, _u + _e, _u + _e) == sp.true),
        Step("one at most w ahead too", at(_u, _u + _e, _u + _e) == sp.true),
        Step("one further back isn't", at(-_w - 1 - _e, _w, _w) == sp.false),
        Step("nor one further ahead", at(_w + 1 + _e, _w, _w) == sp.false),
    )


def _radius() -> tuple[Step, ...]:
    everyone = sp.Sum(sp.S.One, (_u, -_w, _w)).doit()
    back = sp.Sum(sp.S.One, (_u, 0, _w)).doit()
    return (
        *by_distance(),
        Step("distances -w to w are 2w + 1", sp.expand(everyone - (2 * _w + 1))),
        Step(
            "query 2 of 5 with w = 1 sees 3, counted",
            _counted(5, 1, 1, 2) - everyone.subs(_w, 1),
        ),
        Step(
            "query 0, which has none on its left, sees 2",
            _counted(5, 1, 1, 0) - 2,
        ),
        Step("causal: no key ahead is seen", at(1 + _u, _w, sp.S.Zero) == sp.false),
        Step("w back and its own are w + 1", sp.expand(back - (_w + 1))),
        Step(
            "a window of w that counts its own key reaches w - 1 back",
            at(-_w, _w - 1, sp.S.Zero) == sp.false and at(1 - _w, _w - 1, sp.S.Zero) == sp.true,
        ),
    )


def _three_keys() -> Counterexample:
    return Counterexample(
        "w = 1: keys that query 2 of 5 sees, stated by `window of size w` to be 1",
        stated=sp.S.One,
        actual=_counted(5, 1, 1, 2),
    )


def diagonals(keys: sp.Expr) -> sp.Expr:
    """Pairs at distances 1 to `keys` on one side, n - u at distance u."""
    at_distance = sp.Sum(sp.S.One, (_i, 0, _n - 1 - _u)).doit()
    return sp.Sum(at_distance, (_u, 1, keys)).doit()


def _instances() -> sp.Matrix:
    """Pairs counted one by one, minus the closed form: up to 4 tokens and any window."""
    sizes = [(n, left, right) for n in (1, 2, 4) for left in range(3) for right in (0, 2, 5)]
    t, s, offset, *_ = VISIBLE_PAIRS.parameters
    tokens, *_ = BAND_PAIRS.parameters
    found = []
    for n, left, right in sizes:
        limits = {LEFT: left, RIGHT: right}
        counted = VISIBLE_PAIRS.expression.subs({t: n, s: n, offset: 0, **limits}).doit()
        found.append(counted - BAND_PAIRS.expression.subs({tokens: n, **limits}))
    return sp.Matrix(found)


def band_count() -> tuple[Step, ...]:
    """The visible pairs of a band, causal or not."""
    tokens = _w + 1 + _e  # w <= n - 1
    band, causal = (band_pairs(tokens, _w, right) for right in (_w, sp.S.Zero))
    both, back = (_n + sides * diagonals(_w) for sides in (2, 1))
    return (
        *by_distance(),
        Step(
            "n own keys, and n - u pairs at each distance u on either side: "
            "n (2w + 1) - w (w + 1), for w <= n - 1",
            sp.expand(both - (_n * (2 * _w + 1) - _w * (_w + 1))),
        ),
        Step("on one side: n (w + 1) - w (w + 1)/2",
             sp.expand(back - (_n * (_w + 1) - _w * (_w + 1) / 2))),
        Step(
            "w keys with the own one, w - 1 back: n w - w (w - 1)/2",
            sp.expand(back.subs(_w, _w - 1) - (_n * _w - _w * (_w - 1) / 2)),
        ),
        Step("all keys back, w = n - 1: n (n + 1)/2",
             sp.expand(back.subs(_w, _n - 1) - _n * (_n + 1) / 2)),
        Step("the closed form says the same of a band", sp.expand(band - both.subs(_n, tokens))),
        Step("and of a causal one", sp.expand(causal - back.subs(_n, tokens))),
        Step("counted one by one up to 4 tokens, windows beyond them included", _instances()),
    )  # fmt: skip


def _banded() -> tuple[Step, ...]:
    bounds = at(sp.Symbol("v", integer=True), _w, _w).args
    return (
        *band_count(),
        Step(
            "neither bound on the distance moves with the row",
            sp.Matrix([sp.diff(bound.lhs - bound.rhs, _i) for bound in bounds]),
        ),
    )


def _linear() -> tuple[Step, ...]:
    band = _n * (2 * _w + 1) - _w * (_w + 1)
    return (
        *band_count(),
        Step(
            "no more than n (2w + 1)",
            sp.expand(_n * (2 * _w + 1) - band).is_nonnegative,
        ),
        Step("so for a fixed w a vanishing share of n^2", sp.limit(band / _n**2, _n, sp.oo)),
        Step(
            "of which (n - w)(n - w - 1) are saved",
            sp.expand(_n**2 - band - (_n - _w) * (_n - _w - 1)),
        ),
        Step("none with w = n - 1", sp.expand((_n**2 - band).subs(_w, _n - 1))),
        Step(
            "nor with a larger one: w = n + e",
            sp.expand(band_pairs(_n, _n + _e, _n + _e) - _n**2),
        ),
    )


def _whole() -> Counterexample:
    t, s, offset, *_ = VISIBLE_PAIRS.parameters
    sizes = {t: 3, s: 3, offset: 0, LEFT: 2, RIGHT: 2}
    return Counterexample(
        "n = 3, w = 2: visible pairs, stated to be fewer than n^2, so at most 8",
        stated=sp.Integer(8),
        actual=VISIBLE_PAIRS.expression.subs(sizes).doit(),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="window.radius",
        number="C136",
        statement="In a window of size w token m attends to the tokens from m - w to m + w.",
        latex=r"\#\{n:|n-m|\le w\}=2w+1",
        source=Source("004", "3.7 Sliding Window", "The window has size w, or radius w."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "w is the radius: the window has 2w + 1 keys, the token's own too"),
            Condition("D2", "the token is w or more from either end, and there is no causal mask"),
        ),
        truth="Causal variants see w back and their own, or count their own among the w.",
        counterexample=_three_keys,
        derivation=_radius,
    ),
    Claim(
        id="window.band",
        number="C137",
        statement="The attention matrix is banded: only a strip about the diagonal is filled.",
        latex=r"\#=n(2w+1)-w(w+1)\quad(w\le n-1)",
        source=Source("004", "3.7 Sliding Window", "Fills a strip along the diagonal."),
        verdict="holds",
        form="symbolic",
        truth="Causal, with w back and the own key: n (w + 1) - w (w + 1)/2 entries.",
        derivation=_banded,
    ),
    Claim(
        id="window.cost_is_linear",
        number="C138",
        statement="A window makes the cost O(n w) instead of O(n^2).",
        latex=r"n^2-\#=(n-w)(n-w-1)",
        source=Source("004", "3.7 Sliding Window", "Gives the complexities of band and square."),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "w doesn't grow with the sequence, and is below n - 1"),),
        truth="A window of n - 1 or more hides nothing and saves nothing.",
        counterexample=_whole,
        derivation=_linear,
    ),
    Claim(
        id="window.eq_causal_of_window_ge_length",
        number="",
        statement="A causal window of n - 1 or more keys back is the causal mask.",
        latex=r"w\ge n-1\Rightarrow\#=n(n+1)/2",
        source=Source("004", "3.7 Sliding Window", "Restricts a token to its window."),
        verdict="holds",
        form="symbolic",
        derivation=lambda: (
            Step(
                "u <= n - 1 back: seen with w = n - 1 + e, n = u + 1 + f",
                at(-_u, _u + _f + _e, sp.S.Zero) == sp.true,
            ),
            Step("a key ahead isn't", at(1 + _u, _w, sp.S.Zero) == sp.false),
            Step(
                "pairs: n (n + 1)/2",
                sp.expand(band_pairs(_n, _n - 1 + _e, sp.S.Zero) - _n * (_n + 1) / 2),
            ),
        ),
    ),
)
