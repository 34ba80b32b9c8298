"""LayerNorm: each token gets mean 0, and a variance just below 1.

Source: document 004 (3.8, LayerNorm). What it does to tokens is in `layer_norm_tokens`, invariances
and bounds are in `norm_invariances`.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.layer_norm_definition import layer_norm
from attnspec.spec.moments import eps
from attnspec.spec.norm_forms import (
    ROW_SUM,
    SQUARE_SUM,
    at,
    bias,
    channels,
    d,
    in_moments,
    layer_norm_form,
    mu,
    v,
    weight,
)
from attnspec.spec.sums import distributed
from attnspec.spec.symbols import c, x

_BARE = layer_norm(weight=False, bias=False)


def _hat() -> sp.Expr:
    """The normalised value, before gain and bias."""
    return layer_norm_form(affine=False).value


def statistics() -> tuple[Step, ...]:
    """That mu and v in the forms are the row's mean and its variance over d."""
    total, squares = layer_norm_form().sums
    return (
        Step("mu is the mean: it stands for the sum of x over d", total - ROW_SUM),
        Step(
            "v is the mean of the squares of x - mu",
            squares - sp.Sum((x[c] - mu) ** 2, channels),
        ),
        Step(
            "which is the mean of x^2 less mu^2: with d (v + mu^2) for the sum of x^2, the squares "
            "of x - mu sum to d v",
            in_moments(squares) - d * v,
        ),
    )


def _formula() -> tuple[Step, ...]:
    outside = layer_norm_form(placement="outside").value
    expanded = distributed(sp.Sum((x[c] - mu) ** 2, channels)).doit().subs(ROW_SUM, d * mu)
    return (
        *statistics(),
        Step(
            "the value is gamma (x - mu) / sqrt(v + eps) + beta",
            layer_norm_form().value - weight[c] * (x[c] - mu) / sp.sqrt(v + eps) - bias[c],
        ),
        Step(
            "the squares of x - mu sum to the sum of x^2 less d mu^2",
            sp.simplify(expanded - (SQUARE_SUM - d * mu**2)),
        ),
        Step(
            "with eps outside of the root: gamma (x - mu) / (sqrt(v) + eps) + beta",
            outside - weight[c] * (x[c] - mu) / (sp.sqrt(v) + eps) - bias[c],
        ),
        Step(
            "(1, -1) stays what it is at eps = 0: its variance is 1, over d and not d - 1",
            at(_BARE, (1, -1))[0] - 1,
        ),
    )


def _mean_zero() -> tuple[Step, ...]:
    outside = layer_norm_form(affine=False, placement="outside").value
    return (
        *statistics(),
        Step("the normalised values sum to zero", in_moments(sp.Sum(_hat(), channels))),
        Step("wherever eps stands", in_moments(sp.Sum(outside, channels))),
    )


def _variance() -> tuple[Step, ...]:
    found = in_moments(sp.Sum(_hat() ** 2, channels)) / d
    small, spread = sp.symbols("e s", positive=True)
    shrunk = found.subs({eps: small, v: spread})
    outside = layer_norm_form(affine=False, placement="outside").value
    return (
        *_mean_zero(),
        Step(
            "so their variance is the mean of their squares: v / (v + eps)", found - v / (v + eps)
        ),
        Step("which is below 1 for eps > 0", sp.simplify(1 - shrunk).is_positive),
        Step("1/2 at v = eps", shrunk.subs(spread, small) - sp.Rational(1, 2)),
        Step("0 for a constant row", found.subs({eps: small, v: 0})),
        Step("and 1 at eps = 0, v > 0", found.subs({eps: 0, v: spread}) - 1),
        Step(
            "with eps outside of the root: v / (sqrt(v) + eps)^2",
            sp.simplify(in_moments(sp.Sum(outside**2, channels)) / d - v / (sp.sqrt(v) + eps) ** 2),
        ),
    )


def _half_variance() -> Counterexample:
    first, second = at(_BARE, (1, -1), sp.S.One)
    return Counterexample(
        "x = (1, -1), eps = 1: variance of the normalised values",
        stated=sp.S.One,
        actual=(first**2 + second**2) / 2 - ((first + second) / 2) ** 2,
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="layer_norm.definition",
        number="C164",
        statement="LayerNorm is gain times (x - mean) over sqrt(variance + eps) plus bias, mean "
        "and variance over the d channels of one token.",
        latex=r"\gamma\frac{x-\mu}{\sqrt{\sigma^2+\epsilon}}+\beta,\ "
        r"\sigma^2=\tfrac1d\sum_i(x_i-\mu)^2",
        source=Source(
            "004", "3.8 LayerNorm", "The formula, with mean and variance that divide by d."
        ),
        verdict="holds",
        form="symbolic",
        derivation=_formula,
    ),
    Claim(
        id="layer_norm.mean_zero",
        number="C165",
        statement="The normalised values of a token have mean 0.",
        latex=r"\sum_i\hat x_i=0",
        source=Source("004", "3.8 LayerNorm", "After centering and scaling the mean is zero."),
        verdict="holds",
        form="symbolic",
        derivation=_mean_zero,
    ),
    Claim(
        id="layer_norm.variance_below_one",
        number="C166",
        statement="The normalised values of a token have variance 1.",
        latex=r"\mathrm{Var}\,\hat x=\frac{\sigma^2}{\sigma^2+\epsilon}<1",
        source=Source("004", "3.8 LayerNorm", "After centering and scaling the variance is one."),
        verdict="corrected",
        form="symbolic",
        truth="Their variance is v / (v + eps): below 1, 1/2 at v = eps, and 0 for a constant "
        "token. It is 1 only at eps = 0.",
        counterexample=_half_variance,
        derivation=_variance,
    ),
)
