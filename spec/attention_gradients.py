"""The gradients of attention: that the closed formulas are derivatives, and what follows.

Source: our own derivation; the documents write attention down, and no derivative of it. Every
formula is for any batch, heads, groups of heads, bias and mask at once, the mask as an indicator
m; derivatives are of the whole sum of upstream times output, not step by step. Every row is to see
a key: what others give is a convention, not a derivative.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention_definition import Options, sees
from attnspec.spec.attention_definition import attention as evaluated
from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.closed_gradients import (
    attention,
    by_groups,
    by_heads,
    over_groups,
    over_heads,
)
from attnspec.spec.definition import choice, unmarked
from attnspec.spec.derivatives import (
    derivative,
    gradient_step,
    places,
    plain,
    ranges,
    shift,
)
from attnspec.spec.normal import normal

_NAMES = {"q": "queries", "k": "keys", "v": "values", "bias": "bias"}
_ARRAYS = {str(array.label): array for array in attention("q").arrays}
_Q, _BIAS, _SEEN = (_ARRAYS[name] for name in ("q", "bias", "m"))
_SIZES = {symbol.name: symbol for symbol in attention("q", softcap=True).parameters}


def _loss(of: str, *, softcap: bool) -> sp.Expr:
    """The sum of upstream times output: over heads, and for what heads share over groups."""
    if of in ("k", "v"):
        return over_groups(by_groups(softcap=softcap).loss)
    return over_heads(by_heads(softcap=softcap).loss)


def gradient(of: str, *, softcap: bool = False) -> Step:
    """That one closed formula is the derivative."""
    says = f"d{of} is the derivative of the sum of upstream times output"
    formula, total = attention(of, softcap=softcap), _loss(of, softcap=softcap)
    return gradient_step(says, formula, total, _ARRAYS[of], _Q)


def _evaluated(*, softcap: bool) -> sp.Expr:
    """The output as the suite evaluates it, in a row that sees a key: with the indicator for
    'query i sees key j', and the bias at its full shape."""
    options = Options(mask=True, bias=True, softcap=softcap, ranges=True)
    definition, seen = evaluated(options), sees(options)
    pair = tuple(axis for axis, _ in attention("bias").axes)
    sizes = {symbol.name: symbol for symbol in definition.parameters}
    named = {array: _ARRAYS.get(str(array.label), array) for array in definition.arrays}
    named |= {
        sizes["heads"]: _SIZES["groups"] * _SIZES["members"],
        sizes["t"]: _SIZES["queries"],
        sizes["s"]: _SIZES["keys"],
    }

    def is_numerator(node: sp.Basic) -> bool:
        return (
            isinstance(node, choice) and isinstance(node.args[0], sp.exp) and node.args[1] == seen
        )

    return (
        unmarked(definition.expression)
        # a hidden exponential is 0, and what is in one that is seen is seen
        .replace(is_numerator, lambda node: _SEEN[pair] * sp.exp(node.args[0].args[0].args[0]))
        .replace(lambda node: isinstance(node, choice), lambda node: node.args[0])
        .xreplace(named)
        .replace(
            lambda node: isinstance(node, sp.Indexed) and node.base == _BIAS, lambda _: _BIAS[pair]
        )
    )


def _output_of_definition() -> tuple[Step, ...]:
    return tuple(
        Step(
            f"the output {name} a soft cap, where a row sees a key",
            normal(plain(_evaluated(softcap=softcap) - by_heads(softcap=softcap).output, _Q), {}),
        )
        for name, softcap in (("without", False), ("with", True))
    )


def _log_sum_exp() -> tuple[Step, ...]:
    weights = attention("bias")
    where = places(weights)
    entry = _BIAS[tuple(where.values())]
    head = by_heads()
    total = plain(head.log_sum_exp, _Q)
    (b, _), (h, _), (i, _), _ = weights.axes
    row = {axis: where[axis] for axis in (b, h, i)}
    found = derivative(total.xreplace(row), entry)
    weight = plain(head.weight, _Q).xreplace(where)
    return (
        Step(
            "the derivative of a row's log-sum-exp with respect to a score, which is that with "
            "respect to its bias, is the weight",
            normal(found - weight, ranges(weights)),
        ),
        Step(
            "and with respect to what the row is shifted by, zero",
            normal(derivative(total, shift[b, h, i]), dict(weights.axes)),
        ),
    )


def _softcap() -> tuple[Step, ...]:
    slope = sp.Symbol("x", real=True)
    cap = _SIZES["cap"]
    return (
        Step(
            "the slope of cap tanh(x / cap) is 1 - tanh(x / cap)^2",
            sp.diff(cap * sp.tanh(slope / cap), slope) - 1 + sp.tanh(slope / cap) ** 2,
        ),
        *(gradient(of, softcap=True) for of in _NAMES),
    )


def _claim(of: str, statement: str, latex: str) -> Claim:
    return Claim(
        id=f"attention.gradient_of_{_NAMES[of]}",
        number="",
        statement=statement,
        latex=latex,
        source=Source("003", "2 Formulations", "Attention as softmax of scaled scores times V."),
        verdict="holds",
        form="symbolic",
        derivation=lambda: (gradient(of),),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="attention.gradients_are_of_definition",
        number="",
        statement="The output that the gradients are derived from is the one that the suite "
        "evaluates.",
        latex=r"o_i=\sum_jm_{ij}e^{s_{ij}-M_i}v_j\big/\sum_jm_{ij}e^{s_{ij}-M_i}",
        source=Source("003", "2 Formulations", "Attention as softmax of scaled scores times V."),
        verdict="holds",
        form="symbolic",
        derivation=_output_of_definition,
    ),
    _claim(
        "v",
        "The gradient of a value is upstream, weighted as the value is, summed over the queries.",
        r"dv_j=\sum_iP_{ij}\,u_i",
    ),
    _claim(
        "bias",
        "The gradient of a score, and so of its bias, is the weight times how far its own gradient "
        "exceeds the row's weighted mean of them.",
        r"dS_{ij}=P_{ij}(dP_{ij}-\delta_i),\ dP_{ij}=u_i\cdot v_j,\ \delta_i=\sum_jP_{ij}dP_{ij}",
    ),
    _claim(
        "q",
        "The gradient of a query is the sum of the keys, weighted with the gradients of its "
        "scores, times the scale.",
        r"dq_i=c\sum_jdS_{ij}\,k_j",
    ),
    _claim(
        "k",
        "The gradient of a key is the sum of the queries, weighted with the gradients of its "
        "scores, times the scale.",
        r"dk_j=c\sum_idS_{ij}\,q_i",
    ),
    Claim(
        id="attention.gradient_with_softcap",
        number="",
        statement="With capped scores the gradients of queries and keys have the cap's slope as a "
        "factor, those of values and bias do not.",
        latex=r"dq_i=c\sum_jdS_{ij}\bigl(1-\tanh^2(c\,q_i\cdot k_j/a)\bigr)k_j",
        source=Source("003", "2 Formulations", "Attention as softmax of scaled scores times V."),
        verdict="holds",
        form="symbolic",
        derivation=_softcap,
    ),
    Claim(
        id="attention.gradient_of_log_sum_exp",
        number="",
        statement="The derivative of the log-sum-exp with respect to a score is the weight.",
        latex=r"\partial\log\sum_je^{s_{ij}}/\partial s_{ik}=P_{ik}",
        source=Source("004", "3.1 Core Idea", "Softmax turns each row of scores into weights."),
        verdict="holds",
        form="symbolic",
        derivation=_log_sum_exp,
    ),
)
