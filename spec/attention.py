"""Attention: what its output is, for given weights.

Sources: document 004 (3.1: core idea, the score matrix). That the expression which is evaluated
is attention is in `attention_formula`, projections and scores in `attention_scores`, what the
scale does in `attention_scaling`, masks in `attention_masks` and `attention_causal`, the order of
tokens in `attention_symmetry`, saturation in `attention_saturation`.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention_sums import exponentials, head, output
from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.sums import distributed
from attnspec.spec.symbols import N, c, j, slack, z

_p = sp.IndexedBase("p", nonnegative=True)
_total = sp.Symbol("Z", positive=True)
_place, _after = sp.symbols("a b", integer=True, nonnegative=True)


def _weights_sum_one() -> Step:
    row = sp.factor_terms(sp.Sum(sp.exp(z[j]) / _total, (j, 0, N - 1)))
    return Step(
        "the weights exp(z_j) / Z sum to 1, where Z is the sum of the exponentials",
        row.subs(exponentials(), _total) - 1,
    )


def _hull() -> tuple[Step, ...]:
    keys = (j, 0, N - 1)
    constant, values = sp.Symbol("C", real=True), sp.IndexedBase("v", real=True)
    largest = distributed(sp.Sum(_p[j] * (values[j] + slack[j]), keys))
    smallest = distributed(sp.Sum(_p[j] * (values[j] - slack[j]), keys))
    average, room = sp.Sum(_p[j] * values[j], keys), sp.Sum(_p[j] * slack[j], keys)
    return (
        _weights_sum_one(),
        Step(
            "and as they sum to 1, the weighted average of a constant is that constant",
            sp.factor_terms(sp.Sum(_p[j] * constant, keys)).subs(sp.Sum(_p[j], keys), 1) - constant,
        ),
        Step(
            "the largest value is v_j + e_j at every j, e_j >= 0: it exceeds the output by the sum "
            "of p_j e_j",
            largest - average - room,
        ),
        Step(
            "the smallest is v_j - e_j at every j: the output exceeds it by the sum of p_j e_j",
            average - smallest - room,
        ),
        Step("whose terms are non-negative", (_p[j] * slack[j]).is_nonnegative),
    )


def value_slope() -> tuple[Step, ...]:
    """How much an output moves with one token's value."""
    moved = sp.IndexedBase("v", real=True)
    numerator = sp.Sum(sp.exp(z[j]) * moved[j], (j, 0, N - 1))
    return (
        Step(
            "without a mask the output's slope in the value of token a, times Z, is exp(z_a), "
            "for each a < N",
            sp.diff(numerator, moved[_place]).subs(N, _place + 1 + _after).doit()
            - sp.exp(z[_place]),
        ),
        Step("which is positive: every token counts", sp.exp(z[_place]).is_positive),
        Step("and Z is positive, as a sum of such terms", exponentials().function.is_positive),
    )


def _average() -> tuple[Step, ...]:
    return (_weights_sum_one(), *value_slope())


def _linear() -> tuple[Step, ...]:
    first, second = (sp.IndexedBase(name, real=True) for name in ("v", "y"))
    alpha, beta = sp.symbols("alpha beta", real=True)
    keys = (j, 0, N - 1)
    mixed = distributed(sp.Sum(_p[j] * (alpha * first[j] + beta * second[j]), keys))
    apart = alpha * sp.Sum(_p[j] * first[j], keys) + beta * sp.Sum(_p[j] * second[j], keys)
    slope = sp.diff(sp.Sum(_p[j] * first[j], keys), first[_place])
    return (
        Step("the output of alpha v + beta y is that of v and y, mixed alike", mixed - apart),
        Step(
            "moving v_a alone moves the output by p_a times as much",
            slope.subs(N, _place + 1 + _after).doit() - _p[_place],
        ),
    )


def _mean() -> tuple[Step, ...]:
    constant = sp.Symbol("C", real=True)
    equal = output().replace(lambda node: node == z[j], lambda _: constant).doit()
    values = sp.Sum(sp.IndexedBase("v", real=True)[j], (j, 0, N - 1))
    channels = (c, 0, head - 1)
    query, keyed = sp.IndexedBase("q", real=True), sp.IndexedBase("k", real=True)
    scores = sp.Sum(query[c] * keyed[j, c], channels)
    return (
        Step(
            "N equal scores C, whatever C is: the output is the mean of the values",
            sp.simplify(sp.factor_terms(equal) - values / N),
        ),
        Step(
            "a query of zeros has equal scores, 0",
            scores.replace(lambda node: node == query[c], lambda _: sp.S.Zero).doit(),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="attention.output_in_hull",
        number="C009",
        statement="The output blends the values: each channel lies between their smallest and "
        "largest, and equal values come back.",
        latex=r"\min_jv_{jc}\le o_{ic}\le\max_jv_{jc}",
        source=Source("004", "3.1 Core Idea", "The product with V blends by those probabilities."),
        verdict="holds",
        form="symbolic",
        derivation=_hull,
    ),
    Claim(
        id="attention.output_is_average",
        number="C018",
        statement="Each output averages the values of all tokens by its weights.",
        latex=r"o_i=\sum_jp_{ij}v_j,\quad p_{ij}>0,\quad\sum_jp_{ij}=1",
        source=Source("004", "3.1 QK^T", "A token's new form averages all values by its row."),
        verdict="holds",
        form="symbolic",
        truth="Of every one without a mask; a hidden token's value has no weight.",
        derivation=_average,
    ),
    Claim(
        id="attention.linear_in_values",
        number="",
        statement="The output is linear in the values; moving one of them moves it by its weight.",
        latex=r"o(\alpha v+\beta y)=\alpha o(v)+\beta o(y),\quad\partial o_i/\partial v_j=p_{ij}",
        source=Source("004", "3.1 Core Idea", "Multiplies the weights by V."),
        verdict="holds",
        form="symbolic",
        derivation=_linear,
    ),
    Claim(
        id="attention.mean_of_equal_scores",
        number="",
        statement="Equal scores, such as those of a zero query, give the mean of the values.",
        latex=r"z_j=C\ \forall j\Rightarrow o=\tfrac1N\sum_jv_j",
        source=Source("004", "3.1 QK^T", "Rows of weights split attention over the tokens."),
        verdict="holds",
        form="symbolic",
        derivation=_mean,
    ),
)
