"""ALiBi's bias: what it does to attention's weights, and how far it reaches.

Source: document 004 (3.4, ALiBi), with the sign of `alibi_bias.falls_with_distance`.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.alibi_bias import SIGN, axes, behind, entry, linear, penalty, printed, sigma
from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.symbols import N, j, k, z

_back, _more, _at = sp.symbols("u v m", integer=True, nonnegative=True)


def _weights() -> tuple[Step, ...]:
    own, other = sp.symbols("z_n z_k", real=True)
    ratio = sp.exp(other + behind(_back + _more)) / sp.exp(own + behind(_back))
    log_ratio = sp.expand(sp.expand_log(sp.log(ratio)))
    backwards = sp.exp(printed(-sigma, _at, _at - _back - 1)) / sp.exp(
        printed(-sigma, _at, _at - _back)
    )
    return (
        *penalty(),
        Step("a key v steps further back weighs exp(z_k - z_n - sigma v) times as much",
             sp.expand(log_ratio - (other - own - sigma * _more))),
        Step("of equal contents exp(-sigma) a step", sp.simplify(
            ratio.subs({other: own, _more: 1}) - sp.exp(-sigma))),
        Step("below 1", log_ratio.subs({other: own, _more: 1}).is_negative),
        Step("a content lead of sigma v makes up for v steps", log_ratio.subs(
            other, own + sigma * _more)),
        Step("sigma = 1/2: a lead of 5, 8 steps back, is ahead by 1",
             log_ratio.subs({sigma: sp.Rational(1, 2), _more: 8, other: own + 5}) - 1),
        Step("with the printed sign each step back weighs exp(sigma) times more",
             sp.simplify(backwards - sp.exp(sigma))),
    )  # fmt: skip


def _lead_of_content() -> Counterexample:
    half, steps, lead = sp.Rational(1, 2), sp.Integer(8), sp.Integer(5)
    return Counterexample(
        "sigma = 1/2, a key 8 steps back whose score leads by 5: how far its logit is ahead of the "
        "query's own key, stated to be what it is for equal contents",
        stated=behind(steps).subs(sigma, half),
        actual=lead + behind(steps).subs(sigma, half),
    )


def _endless() -> tuple[Step, ...]:
    i, j, t, s = axes("zero-diagonal")
    square = entry().subs(t, s)
    return (
        *linear(),
        Step(
            "of a whole text an entry has no length in it",
            sp.Integer(len(square.free_symbols - {i, j, sigma})),
        ),
        Step("and the penalty has no end", sp.limit(-behind(_back), _back, sp.oo) == sp.oo),
    )


def _shifted_softmax() -> tuple[Step, ...]:
    place = sp.Symbol("m", real=True)
    biased = sp.exp(z[k] - sigma * (place - k))
    pulled = sp.factor_terms(sp.expand(sp.Sum(biased, (k, 0, N - 1))))
    by_key = sp.Sum(sp.exp(z[k] + sigma * k), (k, 0, N - 1))
    weight = biased.subs(k, j) / sp.Sum(biased, (k, 0, N - 1))
    second = behind(_back + 2) - 2 * behind(_back + 1) + behind(_back)
    return (
        *penalty(),
        Step("second differences along a row are 0: a straight line", sp.expand(second)),
        Step(
            "exp(-sigma m) leaves the sum of exp(z_k - sigma (m - k)) over the keys",
            sp.expand(pulled - sp.exp(-sigma * place) * by_key),
        ),
        Step(
            "and cancels: softmax of z_k - sigma (m - k) is softmax of z_k + sigma k, where the "
            "bias knows the key alone",
            sp.simplify(
                sp.expand(weight.subs(sp.Sum(biased, (k, 0, N - 1)), pulled))
                - sp.exp(z[j] + sigma * j) / by_key
            ),
        ),
        Step("gone on past the diagonal, the line has a bonus of sigma one step after the query",
             behind(_back).subs(_back, -1) - sigma),
        Step("where the distance costs sigma", behind(-sp.S.One) + sigma),
    )  # fmt: skip


def _later_key() -> Counterexample:
    half = sp.Rational(1, 2)
    return Counterexample(
        "sigma = 1/2, no mask: bias of the key after the query, stated to lie on the line of the "
        "triangle, -sigma (m - n)",
        stated=behind(_back).subs({_back: -1, sigma: half}),
        actual=behind(sp.S.NegativeOne).subs(sigma, half),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="alibi_bias.favors_near_keys",
        number="C098",
        statement="ALiBi biases attention to near tokens by default.",
        latex=r"\frac{p_{n-v}}{p_n}=e^{z_{n-v}-z_n-|\mu|v}",
        source=Source("004", "3.4 ALiBi", "Near tokens get more attention by nature."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            SIGN,
            Condition("D2", "the far key's score leads by less than |mu| times the distance"),
        ),
        truth="Of equal contents each step back weighs exp(-|mu|) times as much. As printed, the "
        "farthest token is favored.",
        counterexample=_lead_of_content,
        derivation=_weights,
    ),
    Claim(
        id="alibi_bias.defined_at_every_distance",
        number="C099",
        statement="ALiBi extrapolates cleanly beyond the lengths of training.",
        latex=r"b(m,n)=-|\mu|(m-n)\quad\forall m,n",
        source=Source("004", "3.4 ALiBi", "The penalty goes on, with no case undefined."),
        verdict="empirical",
        form="symbolic",
        truth="The bias is defined at every distance, and a longer text leaves its entries as they "
        "are. How good a model is there is an experiment.",
        derivation=_endless,
    ),
    Claim(
        id="alibi_bias.linear_in_distance",
        number="C100",
        statement="The attention matrix gets a triangle of steadily growing penalties.",
        latex=r"\mathrm{softmax}_n(z_n-|\mu|(m-n))=\mathrm{softmax}_n(z_n+|\mu|n)",
        source=Source("004", "3.4 ALiBi", "How the penalty looks in the matrix of scores."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            SIGN,
            Condition(
                "D2",
                "keys after the query are masked: else there are penalties on both "
                "sides of the diagonal",
            ),
        ),
        truth="Linear in the distance. Softmax doesn't see a constant a row, so that |mu| n, "
        "without the query, does the same below the diagonal.",
        counterexample=_later_key,
        derivation=_shifted_softmax,
    ),
)
