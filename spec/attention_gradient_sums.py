"""The gradients of attention: sums of them that are known, and entries that vanish.

Source: our own derivation, from the formulas of `attention_gradients`. Inner products are over
all batch entries, heads, tokens and channels.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from attnspec.spec.attention_gradients import gradient
from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.closed_gradients import attention, by_groups, by_heads, over_groups
from attnspec.spec.definition import Definition
from attnspec.spec.derivatives import entry_of, places, plain, ranges
from attnspec.spec.normal import normal

_Q, _K, _V, _BIAS, _SEEN, _UPSTREAM = attention("q").arrays
_ROWS = dict(attention("q").axes[:3])
"""Batch entry, head and query, with their sizes."""


def _normal(expression: sp.Expr) -> sp.Expr:
    """The normal form of an expression in one batch entry, head and query."""
    return normal(plain(expression, _Q), _ROWS)


def _inner(of: str, array: sp.IndexedBase) -> sp.Expr:
    """The inner product of a gradient of k or v with the array."""
    formula = attention(of)
    axes = [axis for axis, _ in formula.axes]
    limits = [(axis, 0, size - 1) for axis, size in reversed(formula.axes)]
    return sp.Sum(formula.expression * array[tuple(axes)], *limits)


def _delta() -> tuple[Step, ...]:
    head = by_heads()
    from_weights, from_output = head.deltas
    return (
        Step(
            "sum over j of P_ij dP_ij is sum over c of u_ic o_ic",
            _normal(from_weights - from_output),
        ),
        Step(
            "so dS may be formed with either",
            _normal(head.weight * (head.of_weight - from_output) - head.of_score),
        ),
        gradient("bias"),
    )


def _rows() -> tuple[Step, ...]:
    formula = attention("bias")
    column, size = formula.axes[3]
    total = sp.Sum(formula.expression, (column, 0, size - 1))
    return (gradient("bias"), Step("the sum of dS_ij over the keys j is zero", _normal(total)))


def _without(formula: Definition, hidden: sp.Symbol) -> sp.Expr:
    """An entry of the formula where the indicator is zero for the key `hidden`."""
    found = normal(entry_of(formula, _Q), ranges(formula))
    return found.replace(
        lambda node: (
            isinstance(node, sp.Indexed) and node.base == _SEEN and node.indices[3] == hidden
        ),
        lambda _: sp.S.Zero,
    )


def _masked() -> tuple[Step, ...]:
    steps = []
    for of in ("k", "v", "bias"):
        formula = attention(of)
        key = formula.axes[3][0] if of == "bias" else formula.axes[2][0]
        found = _without(formula, places(formula)[key])
        zero = found.replace(
            lambda node: isinstance(node, sp.Sum) and node.function == 0, lambda _: sp.S.Zero
        )
        seen = "where m_ij = 0" if of == "bias" else "of a key that no query of its heads sees"
        steps += [gradient(of), Step(f"d{of} {seen} is zero", zero)]
    return tuple(steps)


def _values_adjoint() -> tuple[Step, ...]:
    given = over_groups(by_groups().loss)
    return (
        gradient("v"),
        Step("sum of u o is sum of dv v", _normal(given - _inner("v", _V))),
    )


def _scores_adjoint() -> tuple[Step, ...]:
    head = by_groups()
    (b, _), (_, _), (i, queries), (channel, size) = attention("q").axes
    terms = head.of_query * _Q[b, head.query, i, channel]
    of_queries = over_groups(sp.Sum(terms, (channel, 0, size - 1), (i, 0, queries - 1)))
    return (
        gradient("q"),
        gradient("k"),
        Step(
            "sum of dq q is sum of dk k, heads counted by groups",
            _normal(of_queries - _inner("k", _K)),
        ),
    )


def _equal_weights() -> tuple[Step, ...]:
    formula = attention("v")
    sizes = {symbol.name: symbol for symbol in formula.parameters}
    given = {_Q: 0, _BIAS: 0, _SEEN: 1, _UPSTREAM: 1}
    entry = entry_of(formula, _Q).replace(
        lambda node: isinstance(node, sp.Indexed) and node.base in given,
        lambda node: sp.Integer(given[node.base]),
    )
    heads, queries, keys = (sizes[name] for name in ("members", "queries", "keys"))
    return (
        gradient("v"),
        Step(
            "q = 0 and u = 1, without bias and mask: dv is 'heads per group' L / S",
            normal(entry, ranges(formula)) - heads * queries / keys,
        ),
    )


def _claim(
    name: str, statement: str, latex: str, derivation: Callable[[], tuple[Step, ...]]
) -> Claim:
    return Claim(
        id=f"attention.{name}",
        number="",
        statement=statement,
        latex=latex,
        source=Source("003", "2 Formulations", "Attention as softmax of scaled scores times V."),
        verdict="holds",
        form="symbolic",
        derivation=derivation,
    )


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "delta_eq_output_dot_upstream",
        "The weighted mean of the gradients of a row's weights is the product of its output with "
        "upstream.",
        r"\delta_i=\sum_jP_{ij}dP_{ij}=o_i\cdot u_i",
        _delta,
    ),
    _claim(
        "gradient_rows_vanish",
        "The gradients of the scores of one query, and of its bias, sum to zero.",
        r"\sum_jdS_{ij}=0",
        _rows,
    ),
    _claim(
        "gradient_of_masked_keys_vanishes",
        "A key that no query sees has a gradient of zero, and so has its value; a hidden pair has "
        "one of zero in the bias.",
        r"m_{ij}=0\ \forall i\Rightarrow dk_j=dv_j=0;\quad m_{ij}=0\Rightarrow dS_{ij}=0",
        _masked,
    ),
    _claim(
        "values_adjoint",
        "The inner product of output and upstream is that of the values and their gradient.",
        r"\langle u,o\rangle=\langle dv,v\rangle",
        _values_adjoint,
    ),
    _claim(
        "scores_adjoint",
        "Queries have the same inner product with their gradient as keys with theirs.",
        r"\langle dq,q\rangle=\langle dk,k\rangle",
        _scores_adjoint,
    ),
    _claim(
        "long_sum_of_equal_weights",
        "Queries of zero and upstream one, without bias and mask: the gradient of every value is "
        "the number of queries over that of keys, for each head of its group.",
        r"q=0,\ u=1\Rightarrow dv_{jc}=r\,L/S",
        _equal_weights,
    ),
)
