"""Softmax: weights in proportion to the exponentials of the logits.

Sources: document 003 (1), document 004 (3.1, core idea, why divide and the score matrix). What
the documents say of saturation and gradients is in `softmax_saturation`, the expression that is
evaluated in `softmax_definition`: the first two claims say that it is softmax.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.definition import Maximum, either, rnd, unmarked, weights
from attnspec.spec.softmax_definition import DEFINITION
from attnspec.spec.sums import distributed
from attnspec.spec.symbols import N, j, k, others, z

_positive = sp.Symbol("Z", positive=True)


def exponentials(shift: sp.Expr = sp.S.Zero) -> sp.Sum:
    """The sum of exp(z_k - shift) over all N logits."""
    return sp.Sum(sp.exp(z[k] - shift), (k, 0, N - 1))


def two_way(gap: sp.Expr) -> sp.Expr:
    """Weight of the first of two logits that leads by `gap`."""
    return 1 / (1 + sp.exp(-gap))


def positive_sum() -> bool | None:
    """Whether sympy knows that the others' exponentials, at least one, have a positive sum."""
    positive: bool | None = sp.Sum(sp.exp(z[k]), (k, 1, others)).is_positive
    return positive


def shift_invariance() -> tuple[Step, ...]:
    """The steps of `softmax.shift_invariance`, on which statements about stability rest."""
    shift = sp.Symbol("M", real=True)
    shifted = sp.exp(z[j] - shift) / exponentials(shift)
    pulled = sp.factor_terms(sp.expand(exponentials(shift)))
    return (
        Step(
            "exp(-M) leaves the sum of the exponentials as a factor",
            pulled - sp.exp(-shift) * exponentials(),
        ),
        Step(
            "and cancels against the numerator's, for every real M, the row maximum among them",
            sp.simplify(
                sp.expand(shifted.subs(exponentials(shift), pulled)) - sp.exp(z[j]) / exponentials()
            ),
        ),
    )


def _definition_forms() -> tuple[sp.Expr, sp.Expr]:
    """Both forms of the definition without marks, with M for the row maximum, which by
    `softmax.shift_invariance` may be any number."""
    shift = sp.Symbol("M", real=True)
    both = DEFINITION.expression.replace(
        lambda node: isinstance(node, Maximum), lambda _: shift
    ).replace(lambda node: isinstance(node, (rnd, weights)), lambda node: node.args[0])
    if not isinstance(both, either):
        raise TypeError(f"softmax is defined in one form only: {both}")
    divided, subtracted = (unmarked(form) for form in both.args)
    return divided, subtracted


def _definition_is_softmax() -> tuple[Step, ...]:
    row, column = (axis for axis, _ in DEFINITION.axes)
    size = DEFINITION.axes[1][1]
    logits = DEFINITION.arrays[0]
    divided, _ = _definition_forms()
    as_here = divided.subs(size, N).replace(
        lambda node: isinstance(node, sp.Indexed), lambda node: z[node.indices[1]]
    )
    shift = sp.Symbol("M", real=True)
    ours = sp.exp(z[column] - shift) / sp.Sum(sp.exp(z[column] - shift), (column, 0, N - 1))
    return (
        Step(
            "rows of the array enter one at a time",
            sp.Integer(len({node.indices[0] for node in divided.atoms(sp.Indexed)} - {row})),
        ),
        Step(
            "and no array but the logits",
            sp.Integer(len({node.base for node in divided.atoms(sp.Indexed)} - {logits})),
        ),
        Step("without marks a row is exp(z_j - M) over the sum of exp(z_k - M)", as_here - ours),
        *shift_invariance(),
    )


def _log_form() -> tuple[Step, ...]:
    total = sp.Symbol("T", positive=True)
    divided, subtracted = _definition_forms()
    sums = divided.atoms(sp.Sum) | subtracted.atoms(sp.Sum)
    named = dict.fromkeys(sums, total)
    return (
        Step("both forms sum the same exponentials", sp.Integer(len(sums) - 1)),
        Step(
            "with T that sum, exp(z - (M + log T)) = exp(z - M) / T",
            sp.simplify(divided.subs(named) - subtracted.subs(named)),
        ),
    )


def _depends_on_data() -> tuple[Step, ...]:
    rest = sp.Symbol("r", positive=True)
    logit, w, feature = sp.symbols("z w x", real=True)
    slope = sp.diff(sp.exp(logit) / (sp.exp(logit) + rest), logit)
    same = sp.exp(w) / (sp.exp(w) + sp.exp(w))
    other = sp.exp(w) / (sp.exp(w) + sp.exp(w * feature))
    return (
        Step(
            "d p_j / d z_j > 0 beside others, of the sum r: a weight moves with its score",
            sp.factor(slope).is_positive,
        ),
        Step(
            "two tokens of one feature, W_Q W_K = w, query 1: keys 1 and x weigh "
            "1 / (1 + exp(w (x - 1)))",
            sp.simplify(other - 1 / (1 + sp.exp(w * (feature - 1)))),
        ),
        Step(
            "so the weight moves by -w/4 at x = 1", sp.diff(other, feature).subs(feature, 1) + w / 4
        ),
        Step("from 1/2, with the same w", same - sp.Rational(1, 2)),
    )


def _unit_interval() -> tuple[Step, ...]:
    mine, rest = sp.symbols("a r", positive=True)
    return (
        *_sum_one(),
        Step("the others' exponentials, at least one, have a positive sum r", positive_sum()),
        Step("a weight a/(a + r) is positive", (mine / (mine + rest)).is_positive),
        Step("and below 1", sp.factor(1 - mine / (mine + rest)).is_positive),
    )


def _sum_one() -> tuple[Step, ...]:
    row = sp.factor_terms(sp.Sum(sp.exp(z[k]) / _positive, (k, 0, N - 1)))
    return (
        Step(
            "the common denominator leaves the sum, which is that denominator",
            row.subs(exponentials(), _positive) - 1,
        ),
    )


def _rounded_rows() -> tuple[Step, ...]:
    delta = sp.IndexedBase("delta", real=True)
    weight = sp.IndexedBase("p", real=True)
    rounded = distributed(sp.Sum(weight[k] * (1 + delta[k]), (k, 0, N - 1)))
    errors = sp.Sum(weight[k] * delta[k], (k, 0, N - 1))
    unit = sp.Symbol("u", positive=True)
    p, room = sp.symbols("p r", nonnegative=True)
    return (
        *_sum_one(),
        Step(
            "weights rounded to p_k (1 + delta_k) sum to 1 + sum of p_k delta_k",
            rounded - sp.Sum(weight[k], (k, 0, N - 1)) - errors,
        ),
        Step(
            "|delta_k| <= u, so |delta_k| = u - r: each term is at most u p_k, their sum at most u",
            sp.expand(unit * p - p * (unit - room)).is_nonnegative,
        ),
        Step(
            "three equal weights in float16: 1/3 rounds to 1365/4096, the nearest with 11 bits",
            _third() - sp.Rational(1365, 4096),
        ),
        Step("and three of them sum to 4095/4096", 3 * _third() - sp.Rational(4095, 4096)),
        Step(
            "an error of 1/4096, within u = 1/2048",
            sp.Abs(3 * _third() - 1) <= sp.Rational(1, 2048),
        ),
    )


def _third() -> sp.Rational:
    """1/3 in float16: 11 significant bits, of which the last is worth 2^-12 there."""
    return sp.Rational(round(sp.Rational(1, 3) * 2**12), 2**12)


def _rounded_thirds() -> Counterexample:
    return Counterexample(
        "three equal logits in float16: exact sum of the three rounded weights",
        stated=sp.S.One,
        actual=3 * _third(),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="softmax.definition",
        number="",
        statement="The expression that the suite evaluates, without its marks, is softmax.",
        latex=r"e^{z_j-M}\big/\sum_k e^{z_k-M}=e^{z_j}\big/\sum_k e^{z_k}",
        source=Source("004", "3.1 Core Idea", "Softmax turns each row of scores into weights."),
        verdict="holds",
        form="symbolic",
        derivation=_definition_is_softmax,
    ),
    Claim(
        id="softmax.eq_exp_of_log_softmax",
        number="",
        statement="Subtracting the logarithm of the sum and dividing by the sum agree.",
        latex=r"e^{z_j-(M+\log\sum_k e^{z_k-M})}=e^{z_j-M}\big/\sum_k e^{z_k-M}",
        source=Source("004", "3.1 Core Idea", "Softmax turns each row of scores into weights."),
        verdict="holds",
        form="symbolic",
        derivation=_log_form,
    ),
    Claim(
        id="softmax.shift_invariance",
        number="",
        statement="Subtracting one number M from every logit, such as the row maximum, does not "
        "change softmax.",
        latex=r"\mathrm{softmax}(z-M\mathbf 1)=\mathrm{softmax}(z)",
        source=Source(
            "004", "3.1 Why Divide", "Speaks of a stability fix without naming the one that is."
        ),
        verdict="holds",
        form="symbolic",
        derivation=shift_invariance,
    ),
    Claim(
        id="softmax.weights_depend_on_data",
        number="B01",
        statement="Attention's weights are functions of the data, unlike the projections.",
        latex=r"\partial p_j/\partial z_j=p_j(1-p_j)>0",
        source=Source(
            "003", "1 Core Intuition", "Attention computes routing weights that the data decide."
        ),
        verdict="holds",
        form="symbolic",
        truth="For at least two keys and W_Q W_K^T other than zero: otherwise the weights are 1/N.",
        derivation=_depends_on_data,
    ),
    Claim(
        id="softmax.weights_in_unit_interval",
        number="C008",
        statement="Each row of weights lies between 0 and 1 and sums to 1.",
        latex=r"0<p_j<1,\quad\sum_j p_j=1",
        source=Source("004", "3.1 Core Idea", "Softmax makes each row a probability distribution."),
        verdict="holds",
        form="symbolic",
        truth="Strictly inside for finite logits and at least two of them; undefined for a row "
        "whose logits are all minus infinity.",
        derivation=_unit_interval,
    ),
    Claim(
        id="softmax.row_sums_one",
        number="C017",
        statement="Weights of a row add up to 1 exactly.",
        latex=r"\sum_j p_j=1,\quad\Bigl|\sum_j p_j(1+\delta_j)-1\Bigr|\le u",
        source=Source("004", "3.1 QK^T", "Rows of the weights sum to exactly one."),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "in real arithmetic"),),
        truth="Weights that were only rounded once sum to 1 within one unit roundoff, and rarely "
        "to 1 itself.",
        counterexample=_rounded_thirds,
        derivation=_rounded_rows,
    ),
)
