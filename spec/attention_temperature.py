"""Attention: what can be read off from weights about the scale, and who else may carry it.

Sources: document 000 (2), document 004 (3.1, why divide). Lemmas of our own, on which laws rest:
no document states them.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention_sums import exponentials, head
from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.hadamard_matrices import H, induction, size, with_gram
from attnspec.spec.shapes import shapes_fit
from attnspec.spec.symbols import N, c, j, key, l, q, z

_scale, _power = sp.symbols("s alpha", positive=True)
_bias = sp.IndexedBase("b", real=True)


def _product(query: sp.Expr = sp.S.One) -> sp.Sum:
    """The product of a query, times a factor, with a key."""
    return sp.Sum(query * q[c] * key[c], (c, 0, head - 1))


def _moved_scale() -> tuple[Step, ...]:
    split = sp.Sum((sp.sqrt(_scale) * q[c]) * (sp.sqrt(_scale) * key[c]), (c, 0, head - 1))
    return (
        Step(
            "(alpha q).k s = q.k (alpha s)",
            sp.factor_terms(_product(_power)) * _scale - _product() * (_power * _scale),
        ),
        Step(
            "(sqrt(s) q).(sqrt(s) k) = q.k s: each of both may carry its root",
            sp.factor_terms(split) - _product() * _scale,
        ),
    )


def _log_ratio() -> tuple[Step, ...]:
    keyed = sp.IndexedBase("k", real=True)
    channels = (c, 0, head - 1)
    first, second = (sp.Sum(q[c] * keyed[a, c], channels) for a in (j, l))
    ratio = (sp.exp(z[j]) / exponentials()) / (sp.exp(z[l]) / exponentials())
    gap = sp.expand_log(sp.log(sp.powsimp(ratio)), force=True)
    logits = {z[j]: _scale * first + _bias[j], z[l]: _scale * second + _bias[l]}
    asked = _scale * (first - second) + _bias[j] - _bias[l]
    mine, rest = sp.symbols("a r", positive=True)
    return (
        Step("the sum of the exponentials cancels: log p_j / p_l = z_j - z_l", gap - z[j] + z[l]),
        Step(
            "with z = s q.k + b that is s times the gap of the products, plus the gap of the bias",
            sp.expand(gap.subs(logits, simultaneous=True) - asked),
        ),
        Step(
            "two keys and values 1, 0: the output is p_1, and log o / (1 - o) is the gap",
            sp.expand_log(sp.log(sp.cancel((mine / (mine + rest)) / (1 - mine / (mine + rest)))))
            - sp.log(mine)
            + sp.log(rest),
        ),
    )


def _hadamard() -> tuple[Step, ...]:
    signs = sp.MatrixSymbol("k", size, 1)
    squares = ((H * signs).T * (H * signs)).doit()
    half = sp.Symbol("x", real=True)
    entry = sp.IndexedBase("k", real=True)
    norm = sp.Sum(entry[c] ** 2, (c, 0, size - 1))
    of_signs = norm.replace(lambda node: node == entry[c] ** 2, lambda _: sp.S.One).doit()
    total = with_gram(squares)
    return (
        Step("the shapes of H k fit", shapes_fit(H, signs)),
        *induction(),
        Step(
            "queries that run over the rows of H: the sum of (h.k)^2 is k^T H^T H k = n k^T k",
            (total - size * signs.T * signs).doit(),
        ),
        Step("k^T k = n for signs, whose squares are 1", of_signs - size),
        Step("(-1)^2 and 1^2 are 1", sp.Matrix(sp.solve(half**2 - 1, half)) - sp.Matrix([-1, 1])),
        Step(
            "the mean over the n queries of (h.k / sqrt(n))^2 is n n / (n n) = 1",
            size * of_signs / (size * sp.sqrt(size) ** 2) - 1,
        ),
    )


def _log_sum_exp() -> tuple[Step, ...]:
    shift = sp.Symbol("M", real=True)
    pulled = sp.factor_terms(sp.expand(sp.Sum(sp.exp(z[j] + shift), (j, 0, N - 1))))
    total = sp.Symbol("T", positive=True)
    place, after = sp.symbols("a b", integer=True, nonnegative=True)
    slope = sp.diff(sp.log(exponentials()), z[place])
    lone = sp.log(exponentials(sp.S.One).doit())
    return (
        Step(
            "exp(z_j - L) is the weight, for L the logarithm of the sum",
            sp.simplify(
                sp.exp(z[j] - sp.log(total)).subs(total, exponentials())
                - sp.exp(z[j]) / exponentials()
            ),
        ),
        Step(
            "adding M to every logit of a row adds M to L",
            sp.expand_log(
                sp.log(pulled.subs(exponentials(), total)) - sp.log(total) - shift, force=True
            ),
        ),
        Step(
            "its slope in a logit is the weight",
            slope.doit().subs(N, place + 1 + after).doit()
            - sp.exp(z[place]) / exponentials(place + 1 + after),
        ),
        Step("a single key has L = z_0", sp.expand_log(lone, force=True) - z[0]),
        Step(
            "N equal logits C have L = C + log N",
            sp.expand_log(sp.log(N * sp.exp(shift)) - shift - sp.log(N), force=True),
        ),
    )


def _row_constant() -> tuple[Step, ...]:
    shift = sp.Symbol("M", real=True)
    moved = sp.Sum(sp.exp(z[j] + _bias[j] + shift), (j, 0, N - 1))
    kept = sp.Sum(sp.exp(z[j] + _bias[j]), (j, 0, N - 1))
    value = sp.IndexedBase("v", real=True)
    upper = sp.Sum(sp.exp(z[j] + _bias[j] + shift) * value[j], (j, 0, N - 1))
    plain = sp.Sum(sp.exp(z[j] + _bias[j]) * value[j], (j, 0, N - 1))

    def pulled(total: sp.Sum) -> sp.Expr:
        terms = total.replace(
            lambda node: isinstance(node, sp.exp) and node.has(shift),
            lambda node: sp.exp(shift) * sp.exp(node.args[0] - shift),
        )
        return sp.factor_terms(terms)

    return (
        Step("exp(M) leaves the sum of the exponentials", pulled(moved) - sp.exp(shift) * kept),
        Step("and that of the values", pulled(upper) - sp.exp(shift) * plain),
        Step(
            "and cancels in the output",
            sp.simplify(pulled(upper) / pulled(moved) - plain / kept),
        ),
    )


_OWN = Source("004", "3.1 Why Divide", "Divides the scores by sqrt(d_k) and takes softmax.")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="attention.scale_is_temperature",
        number="",
        statement="A factor on the queries, on the keys, or the scale: the scores are the same.",
        latex=r"(\alpha q)\cdot k\,s=q\cdot k\,(\alpha s)",
        source=_OWN,
        verdict="holds",
        form="symbolic",
        derivation=_moved_scale,
    ),
    Claim(
        id="attention.log_weight_ratio_eq_scaled_gap",
        number="",
        statement="The logarithm of two weights' ratio is the scaled gap of their products, plus "
        "that of their biases.",
        latex=r"\log\frac{p_j}{p_l}=s\,q\cdot(k_j-k_l)+b_j-b_l",
        source=_OWN,
        verdict="holds",
        form="symbolic",
        derivation=_log_ratio,
    ),
    Claim(
        id="attention.mean_square_of_scores_eq_one_of_hadamard",
        number="",
        statement="Where queries run over the rows of a Hadamard matrix and the key is a vector of "
        "signs, the mean square of the scaled scores is exactly 1.",
        latex=r"\tfrac1n\sum_r\bigl(h_r\cdot k/\sqrt n\bigr)^2=1",
        source=Source("000", "2 Formulations", "The scaled product has variance 1 on average."),
        verdict="holds",
        form="symbolic",
        derivation=_hadamard,
    ),
    Claim(
        id="attention.weights_of_log_sum_exp",
        number="",
        statement="With L the logarithm of the sum of exponentials, weights are exp(z - L), and L "
        "moves with the logits.",
        latex=r"p_j=e^{z_j-L},\quad L(z+M)=L(z)+M,\quad\partial L/\partial z_j=p_j",
        source=_OWN,
        verdict="holds",
        form="symbolic",
        derivation=_log_sum_exp,
    ),
    Claim(
        id="attention.bias_up_to_row_constant",
        number="",
        statement="A constant added to a row of the bias changes no output.",
        latex=r"o(z+b+M\mathbf 1)=o(z+b)",
        source=_OWN,
        verdict="holds",
        form="symbolic",
        derivation=_row_constant,
    ),
)
