"""Attention near saturation: what one leading score does to outputs and to gradients.

Sources: document 004 (3.1, why divide). How much weight a leader leaves is in
`softmax_saturation`; here is what follows for attention. Gradients through the scores vanish with
that weight, gradients through the values don't.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention_sums import exponentials
from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.softmax import two_way
from attnspec.spec.sums import distributed
from attnspec.spec.symbols import N, i, j, l, others, z

_gap = sp.Symbol("g", real=True)
_p = sp.IndexedBase("p", nonnegative=True)
_upstream = sp.IndexedBase("G", real=True)
_inner = sp.IndexedBase("y", real=True)
"""y_j = G.v_j, the upstream gradient's product with the value of key j."""
_keys = (j, 0, N - 1)


def _weights_sum_one(expression: sp.Expr) -> sp.Expr:
    """The expression, in which the weights of a row sum to 1."""
    return expression.subs(sp.Sum(_p[l], (l, 0, N - 1)), 1).subs(sp.Sum(_p[j], _keys), 1)


def _left_by_leader() -> tuple[Step, ...]:
    """What the leader leaves, as in `softmax.saturated_of_gap`: with S <= s exp(-g) the others'
    exponentials over its own, S / (1 + S)."""
    held, room = sp.symbols("S u", nonnegative=True)
    left = held / (1 + held)
    return (
        Step("a leader keeps 1/(1+S) and leaves S/(1+S)", sp.cancel(1 - 1 / (1 + held) - left)),
        Step(
            "which is at most S, and so at most S + u = s exp(-g)",
            sp.factor(held + room - left).is_nonnegative,
        ),
        Step("that vanishes with the gap", sp.limit(others * sp.exp(-_gap), _gap, sp.oo)),
        Step(
            "and the leader's weight goes to 1",
            sp.limit(1 / (1 + others * sp.exp(-_gap)), _gap, sp.oo) - 1,
        ),
    )


def _score_gradients() -> tuple[Step, ...]:
    """Gradients in the scores of one row: dS_j = p_j (y_j - sum of p_l y_l)."""
    loss = sp.Sum(sp.exp(z[j]) * _inner[j], _keys) / exponentials()
    place, after = sp.symbols("a b", integer=True, nonnegative=True)
    size = place + 1 + after
    slope = sp.diff(loss, z[place]).doit().subs(N, size).doit()
    weight = sp.exp(z[place]) / exponentials(size)
    expected = weight * (_inner[place] - loss.subs(N, size))
    across = sp.Sum(_p[l] * (_inner[j] - _inner[l]), (l, 0, N - 1))
    centred = _inner[j] - sp.Sum(_p[l] * _inner[l], (l, 0, N - 1))
    bound, weight_left, mine, rest = sp.symbols("B w p r", nonnegative=True)
    return (
        Step("dS_a = p_a (y_a - sum of p_l y_l)", sp.simplify(sp.expand(slope - expected))),
        Step(
            "as weights sum to 1, that is p_a times the sum of p_l (y_a - y_l)",
            _weights_sum_one(distributed(across)) - centred,
        ),
        Step(
            "|y_a - y_l| <= B: for the leader, of which the term l = a is 0, |dS_a| <= p_a w B "
            "with w the weight of the others, and p_a = 1/(1 + r) <= 1",
            sp.factor(weight_left * bound - weight_left * bound / (1 + rest)).is_nonnegative,
        ),
        Step(
            "for another |dS_a| <= p_a B, and p_a is part of w = p + r",
            sp.expand((mine + rest) * bound - mine * bound).is_nonnegative,
        ),
    )


def _value_gradients() -> tuple[Step, ...]:
    value = sp.IndexedBase("v", real=True)
    rows = (i, 0, sp.Symbol("t", integer=True, positive=True) - 1)
    place, after = sp.symbols("a b", integer=True, nonnegative=True)
    loss = sp.Sum(_upstream[i] * sp.Sum(_p[i, j] * value[j], _keys), rows)
    moved = sp.diff(loss, value[place]).subs(N, place + 1 + after).doit()
    return (
        Step(
            "dv_a is the sum over rows of p_ia G_i",
            moved - sp.Sum(_upstream[i] * _p[i, place], rows),
        ),
        Step(
            "summed over the keys too, with the weights of row i that sum to 1, that is the sum of "
            "G_i: as much as goes in, however saturated",
            sp.Sum(sp.factor_terms(sp.Sum(_p[i, j] * _upstream[i], _keys)), rows)
            .replace(lambda node: node == sp.Sum(_p[i, j], _keys), lambda _: sp.S.One)
            .doit()
            - sp.Sum(_upstream[i], rows),
        ),
    )


def _survive() -> tuple[Step, ...]:
    one_hot = sp.KroneckerDelta(j, 0)
    jacobian = one_hot * (sp.KroneckerDelta(j, l) - sp.KroneckerDelta(l, 0))
    return (
        *_left_by_leader(),
        *_score_gradients(),
        *_value_gradients(),
        Step(
            "in the limit, where row 0 has all weight on key 0, p_j (delta_jl - p_l) is 0",
            sp.Matrix(3, 3, lambda row, key: jacobian.subs({j: row, l: key})),
        ),
        Step("while dv_0 = p_0 G is G", one_hot.subs(j, 0) * _upstream[0] - _upstream[0]),
    )


def _winner() -> Counterexample:
    return Counterexample(
        "scores (1000, 0): slope of the output in the first value, stated to be nearly zero "
        "like all gradients",
        stated=sp.S.Zero,
        actual=two_way(sp.Integer(1000)),
    )


def _needle() -> tuple[Step, ...]:
    value, leader = sp.IndexedBase("v", real=True), sp.Symbol("v_0", real=True)
    average = sp.Sum(_p[j] * value[j], _keys)
    off = distributed(sp.Sum(_p[j] * (value[j] - leader), _keys))
    first, second = sp.symbols("v_0 v_1", real=True)
    rest, left = sp.symbols("y S", real=True)
    tied = (first + second + left * rest) / (2 + left)
    return (
        *_left_by_leader(),
        Step(
            "o - v_0 is the sum of p_j (v_j - v_0), whose term j = 0 is 0: at most the others' "
            "weight times the largest |v_j - v_0|",
            _weights_sum_one(off) - (average - leader),
        ),
        Step(
            "two leaders of one score share the rest's loss: with S the others' exponentials and "
            "y their average, the output goes to the mean of both values",
            sp.limit(tied, left, 0) - (first + second) / 2,
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="attention.value_gradients_survive_saturation",
        number="C013",
        statement="With one dominant score gradients become vanishingly small everywhere.",
        latex=r"|dS_{ij}|\le(1-p_{i0})\max_l|y_j-y_l|,\quad dv_j=\sum_ip_{ij}G_i,"
        r"\quad\sum_jdv_j=\sum_iG_i",
        source=Source("004", "3.1 Why Divide", "Saturation leaves small gradients everywhere."),
        verdict="corrected",
        form="symbolic",
        truth="Those through the scores do. Those in the values don't: dv = P^T G, whose sum over "
        "the keys is that of G, whatever the weights; the winner's is G itself in the limit.",
        counterexample=_winner,
        derivation=_survive,
    ),
    Claim(
        id="attention.output_near_value_of_gap",
        number="",
        statement="Where one key leads s others by g, the output is its value, up to s exp(-g) "
        "times the largest difference of values.",
        latex=r"|o-v_0|\le s\,e^{-g}\max_j|v_j-v_0|",
        source=Source("004", "3.1 Core Idea", "A query that matches a key pulls in its value."),
        verdict="holds",
        form="symbolic",
        derivation=_needle,
    ),
)
