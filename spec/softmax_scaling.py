"""Softmax of scaled scores: what dividing by the square root of the head dimension does.

Sources: document 000 (1), document 003 (1), document 004 (3.1, why divide). It is a temperature,
and it keeps scores from growing with the dimension in a model of random vectors.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.shapes import shapes_fit
from attnspec.spec.softmax import shift_invariance, two_way
from attnspec.spec.symbols import c, d, i, j, k, l, slack, z


def _bounded_scores() -> tuple[Step, ...]:
    bound = sp.Symbol("B", nonnegative=True)
    above, room = sp.symbols("y u", nonnegative=True)
    total = sp.Symbol("T", positive=True)
    term = sp.exp(bound) / (1 + slack[k])
    margin = sp.exp(bound) * slack[k] / (1 + slack[k])
    second = sp.Sum(sp.KroneckerDelta(i, j, (1, d)), (j, 1, d), (i, 1, d)).doit()
    return (
        Step(
            "independent entries of mean 0 and variance 1: E (q.k)^2 = sum of delta_ij^2 = d, so "
            "the scaled score has variance 1 at every d",
            second / sp.sqrt(d) ** 2 - 1,
        ),
        Step(
            "|z_k| <= B: N exp(B) exceeds the sum of the exponentials by a sum",
            sp.simplify(sp.exp(bound) - term - margin),
        ),
        Step("whose terms are non-negative", margin.is_nonnegative),
        Step(
            "with T the sum, N exp(B) = T + u and exp(z_j) = exp(-B) (1 + y): "
            "p_j / (exp(-2B) / N) = (1 + y) (T + u) / T is at least 1",
            sp.expand((1 + above) * (total + room) / total - 1).is_nonnegative,
        ),
        *_aligned(),
    )


def _aligned() -> tuple[Step, ...]:
    ones = sp.Sum(sp.S.One, (c, 0, d - 1)).doit() / sp.sqrt(d)
    slope = (two_way(2 * ones) * (1 - two_way(2 * ones))).rewrite(sp.exp)
    return (
        Step(
            "q = k_1 = (1, ..., 1), k_2 = -k_1: scaled scores +-sqrt(d)",
            sp.simplify(ones - sp.sqrt(d)),
        ),
        Step(
            "and a slope of 1 / (4 cosh(sqrt d)^2)",
            sp.simplify(slope - (1 / (4 * sp.cosh(sp.sqrt(d)) ** 2)).rewrite(sp.exp)),
        ),
        Step("which vanishes as d grows", sp.limit(1 / (4 * sp.cosh(sp.sqrt(d)) ** 2), d, sp.oo)),
    )


def _aligned_scores() -> Counterexample:
    size = sp.Integer(16)
    return Counterexample(
        "q = k_1 = (1, ..., 1), k_2 = -k_1, d_k = 16: size of a scaled score, "
        "stated to be of order 1 at every d_k",
        stated=sp.S.One,
        actual=size / sp.sqrt(size),
    )


def _temperature() -> tuple[Step, ...]:
    scale = sp.Symbol("tau", positive=True)
    ratio = sp.exp(z[j] / scale) / sp.exp(z[l] / scale)
    sizes = sp.symbols("n_t d_m d_k", integer=True, positive=True)
    tokens, width, head = sizes
    x_q, x_k = (sp.MatrixSymbol(name, tokens, width) for name in ("X", "Y"))
    w_q, w_k = (sp.MatrixSymbol(name, width, head) for name in ("W_Q", "W_K"))
    root = sp.sqrt(head)
    scaled = ((x_q * w_q) * (x_k * w_k).T / root).doit()
    absorbed = ((x_q * (w_q / root)) * (x_k * w_k).T).doit()
    return (
        Step(
            "dividing by tau divides every log-ratio of two weights by tau: a temperature",
            sp.expand(sp.expand_log(sp.log(ratio), force=True) - (z[j] - z[l]) / scale),
        ),
        Step(
            "scores (2 log 2, 0), d_k = 4: weight 4/5 without the scaling",
            sp.simplify(two_way(2 * sp.log(2))) - sp.Rational(4, 5),
        ),
        Step(
            "and 2/3 with it",
            sp.simplify(two_way(2 * sp.log(2) / sp.sqrt(4))) - sp.Rational(2, 3),
        ),
        Step("the shapes of X W_Q (Y W_K)^T fit", shapes_fit(x_q, w_q, w_k.T, x_k.T)),
        Step("W_Q / sqrt(d_k) in place of W_Q absorbs it", (scaled - absorbed).doit()),
        Step(
            "a fix for stability alone is a shift by the row maximum, which changes no value",
            shift_invariance()[1].residual,
        ),
    )


def _scaled_pair() -> Counterexample:
    gap = 2 * sp.log(2)
    return Counterexample(
        "scores (2 log 2, 0), d_k = 4: weight of the first, "
        "stated to be what it is without the scaling",
        stated=sp.simplify(two_way(gap)),
        actual=sp.simplify(two_way(gap / sp.sqrt(4))),
    )


_IID = Condition(
    "D1", "q and k have independent entries of mean 0 and variance 1 (a model, not a bound)"
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="softmax.unsaturated_of_scaling",
        number="A02",
        statement="Dividing the scores by the square root of the head dimension keeps softmax "
        "from saturating.",
        latex=r"\max_k|z_k|\le B\Rightarrow\min_j p_j\ge e^{-2B}/N",
        source=Source(
            "000", "1 Core Intuition", "Scaling the scores keeps softmax out of saturation."
        ),
        verdict="holds-if",
        form="symbolic",
        conditions=(_IID,),
        truth="Scores bounded by B keep every weight above exp(-2B)/N, and in the model their "
        "variance is 1 at every d. Nothing bounds trained vectors: aligned ones of unit entries "
        "have scaled scores +-sqrt(d), and the slope 1/(4 cosh(sqrt d)^2) vanishes.",
        counterexample=_aligned_scores,
        derivation=_bounded_scores,
    ),
    Claim(
        id="softmax.gradient_kept_by_scaling",
        number="B02",
        statement="Scaling by the square root of the head dimension prevents saturated gradients.",
        latex=r"\max_k|z_k|\le B\Rightarrow\min_j p_j\ge e^{-2B}/N",
        source=Source("003", "1 Core Intuition", "Scaled products keep gradients from saturating."),
        verdict="holds-if",
        form="symbolic",
        conditions=(_IID,),
        same_as="softmax.unsaturated_of_scaling",
    ),
    Claim(
        id="softmax.scaling_is_temperature",
        number="C015",
        statement="Scaling by the square root of the head dimension is nothing but a fix for "
        "numerical stability.",
        latex=r"\log\frac{p_j}{p_l}=\frac{z_j-z_l}{\tau},\quad"
        r"\mathrm{softmax}(z-\max z)=\mathrm{softmax}(z)",
        source=Source(
            "004", "3.1 Why Divide", "The division serves numerical stability and nothing else."
        ),
        verdict="corrected",
        form="symbolic",
        truth="It is a temperature, which changes the function and which W_Q can absorb. The fix "
        "that changes no value is subtracting the row maximum.",
        counterexample=_scaled_pair,
        derivation=_temperature,
    ),
)
