"""Attention's soft cap: cap times tanh of the scores over cap, after the scale, before the mask.

A lemma of our own, on which laws rest: no document has a cap. It belongs to what document 004
(3.1, why divide) says of scores in a healthy range.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Source, Step

_cap = sp.Symbol("C", positive=True)
_score, _bias = sp.symbols("x b", real=True)


def _capped(score: sp.Expr) -> sp.Expr:
    return _cap * sp.tanh(score / _cap)


def _bounds() -> tuple[Step, ...]:
    e, other = sp.symbols("E F", positive=True)  # exp(2 x / C) of two scores
    high, low = (_cap * (1 - 2 / (1 + grown)) for grown in (e, other))
    slope = sp.diff(_capped(_score), _score)
    return (
        Step(
            "tanh(x / C) = 1 - 2 / (1 + E), E = exp(2 x / C)",
            sp.simplify(
                (sp.tanh(_score / _cap) - 1 + 2 / (1 + sp.exp(2 * _score / _cap))).rewrite(sp.exp)
            ),
        ),
        Step("a capped score is below C", sp.factor(_cap - high).is_positive),
        Step("and above -C", sp.factor(_cap + high).is_positive),
        Step(
            "so two of them differ by less than 2 C, and weights by a factor below exp(2 C)",
            sp.Add(*(sp.factor(part) for part in (_cap - high, _cap + low))).is_positive,
        ),
        Step(
            "which is 2 C - (high - low)",
            sp.expand(_cap - high + _cap + low - (2 * _cap - (high - low))),
        ),
        Step("as C grows the score comes back", sp.limit(_capped(_score), _cap, sp.oo) - _score),
        Step(
            "the order of scores stays: the slope is 1 - tanh(x / C)^2",
            sp.simplify(slope - (1 - sp.tanh(_score / _cap) ** 2)),
        ),
        Step(
            "which is 4 E / (1 + E)^2 > 0",
            sp.factor(1 - (1 - 2 / (1 + e)) ** 2 - 4 * e / (1 + e) ** 2),
        ),
        Step("and not above 1", sp.expand((1 - e) ** 2 - ((1 + e) ** 2 - 4 * e))),
        Step("a score of 0 stays 0", _capped(sp.S.Zero)),
    )


def _revived() -> tuple[Step, ...]:
    hidden = sp.limit(_capped(_bias), _bias, -sp.oo)
    return (
        Step(
            "mask first: cap times tanh of minus infinity is -C, at any score",
            hidden + _cap,
        ),
        Step("whose exponential isn't 0: the hidden key has weight", sp.exp(hidden).is_positive),
        Step("cap first: the exponential is 0", sp.exp(_capped(_score) + -sp.oo)),
        Step(
            "equal scores 0, one of two keys hidden, C = log 2: it has weight 1/3, not 0",
            sp.simplify((sp.exp(hidden) / (1 + sp.exp(hidden))).subs(_cap, sp.log(2)))
            - sp.Rational(1, 3),
        ),
        Step(
            "a finite bias b is capped as well, where x + b stays below C",
            sp.limit(_capped(_score + _bias), _bias, sp.oo) - _cap,
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="attention.softcap_bounds_ratio",
        number="",
        statement="A soft cap C keeps scores within C and so every ratio of weights below "
        "exp(2 C); without bound it changes nothing.",
        latex=r"|C\tanh(x/C)|<C,\quad p_j/p_l<e^{2C},\quad C\to\infty:\ x",
        source=Source("004", "3.1 Why Divide", "Wants scores that stay in a healthy range."),
        verdict="holds",
        form="symbolic",
        derivation=_bounds,
    ),
    Claim(
        id="attention.mask_after_softcap",
        number="",
        statement="The mask comes after the soft cap: before it, hidden keys come back.",
        latex=r"\lim_{b\to-\infty}C\tanh\bigl((x+b)/C\bigr)=-C",
        source=Source("003", "2 Formulations", "The mask is the last addition before softmax."),
        verdict="holds",
        form="symbolic",
        derivation=_revived,
    ),
)
