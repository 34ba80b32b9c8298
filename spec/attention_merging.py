"""Attention over parts of the keys, merged by their log-sum-exp; and heads that share keys.

Sources: document 004 (3.1). Lemmas of our own, on which laws rest: that keys may be split
anywhere is what caches, split kernels and streaming have in common.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention_sums import (
    any_function,
    exponentials,
    gathering,
    output,
    v,
)
from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.symbols import j

_first, _second, _third = sp.symbols("E_1 E_2 E_3", positive=True)
_upper = sp.symbols("U_1 U_2 U_3", real=True)
_cut, _more = sp.symbols("n_1 n_2", integer=True, positive=True)


def merged(parts: tuple[tuple[sp.Expr, sp.Expr], ...]) -> tuple[sp.Expr, sp.Expr]:
    """Output and log-sum-exp of all keys, from those of each part."""
    total = sp.Add(*(sp.exp(lse) for _, lse in parts))
    return sp.Add(*(out * sp.exp(lse) for out, lse in parts)) / total, sp.log(total)


def _part(upper: sp.Expr, lower: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    return upper / lower, sp.log(lower)


def _split() -> tuple[Step, ...]:
    one, two, three = (
        _part(upper, lower) for upper, lower in zip(_upper, (_first, _second, _third), strict=True)
    )
    both = merged((one, two))
    hidden, shown = sp.symbols("L_2 o_2", real=True)
    with_empty = merged((one, (shown, hidden)))
    shift = sp.symbols("M_1 M_2 M", real=True)
    return (
        *gathering(),
        Step(
            "where every key is at a place of the one part or of the other, m_j + m'_j = 1, sums "
            "of any f add up: for keys 0 to n_1 - 1 and the n_2 after",
            sp.simplify(
                sp.Sum(any_function(j), (j, 0, _cut + _more - 1))
                - sp.Sum(any_function(j), (j, 0, _cut - 1))
                - sp.Sum(any_function(j), (j, _cut, _cut + _more - 1))
            ),
        ),
        Step(
            "parts with lower sums E and upper sums U: the merged output is "
            "(U_1 + U_2) / (E_1 + E_2)",
            sp.simplify(both[0] - (_upper[0] + _upper[1]) / (_first + _second)),
        ),
        Step("the merged log-sum-exp log(E_1 + E_2)", both[1] - sp.log(_first + _second)),
        Step(
            "three parts, in any order: merging two first is the same",
            sp.simplify(merged((both, three))[0] - merged((one, two, three))[0]),
        ),
        Step(
            "for the log-sum-exp too",
            sp.simplify(merged((both, three))[1] - merged((three, two, one))[1]),
        ),
        Step(
            "a part without keys: as L_2 goes to minus infinity the other part's output is left, "
            "whatever finite output it has",
            sp.limit(with_empty[0], hidden, -sp.oo) - one[0],
        ),
        Step("and its log-sum-exp", sp.limit(with_empty[1], hidden, -sp.oo) - one[1]),
        Step(
            "sums about maxima M_1, M_2, rescaled to M: exp(M_1 - M) times exp(-M_1) U_1",
            sp.simplify(
                sp.exp(shift[0] - shift[2]) * sp.exp(-shift[0]) * _upper[0]
                - sp.exp(-shift[2]) * _upper[0]
            ),
        ),
    )


def streamed() -> tuple[Step, ...]:
    """Key after key, with sums about a running maximum."""
    first, last = sp.symbols("M_1 M_2", real=True)
    total, weighed = sp.Symbol("E", positive=True), sp.Symbol("U", real=True)
    fresh, item = sp.symbols("z v", real=True)
    lower = sp.exp(-last) * (total + sp.exp(fresh))
    step = sp.exp(first - last) * (sp.exp(-first) * total) + sp.exp(fresh - last)
    step_upper = sp.exp(first - last) * (sp.exp(-first) * weighed) + sp.exp(fresh - last) * item
    return (
        Step(
            "one more key adds one term to either sum",
            sp.simplify(
                sp.Sum(any_function(j), (j, 0, _cut))
                - sp.Sum(any_function(j), (j, 0, _cut - 1))
                - sp.Sum(any_function(j), (j, _cut, _cut))
            ),
        ),
        Step(
            "sums about a running maximum M_1 follow it to M_2 by a factor exp(M_1 - M_2)",
            sp.simplify(sp.expand(step - lower)),
        ),
        Step(
            "which cancels in the output",
            sp.simplify(
                step_upper / step - (weighed + sp.exp(fresh) * item) / (total + sp.exp(fresh))
            ),
        ),
        Step("before the first key both sums are 0", exponentials(sp.S.Zero).doit()),
        Step("and with it the output is its value", sp.cancel(output(sp.S.One).doit() - v[0])),
    )


def _shared_keys() -> tuple[Step, ...]:
    group, place, left, above = sp.symbols("g a e f", integer=True, nonnegative=True)
    share = place + 1 + left  # query heads a group: a < r
    groups = group + 1 + above  # g < G
    grouped = (group * share + place) * groups / (share * groups)
    tiled = place * groups + group
    return (
        Step(
            "h = g r + a with a < r: h G / (r G) = g + a / r",
            sp.simplify(grouped - group - place / share),
        ),
        Step("where a / r is not below 0", (place / share).is_nonnegative),
        Step(
            "and below 1: rounded down it is g",
            sp.factor(1 - place / share).is_positive,
        ),
        Step("h = a G + g with g < G leaves g", sp.expand(tiled - place * groups - group)),
        Step("as g is not below 0 and G - g is above", sp.expand(groups - group).is_positive),
        Step(
            "each group serves r query heads, r G in all",
            sp.Sum(sp.Sum(1, (j, 0, share - 1)).doit(), (j, 0, groups - 1)).doit() - share * groups,
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="attention.split_and_merge",
        number="",
        statement="Attention over parts of the keys, weighed by their exponentials' sums, is "
        "attention over all; a part without keys counts nothing.",
        latex=r"o=\frac{e^{L_1}o_1+e^{L_2}o_2}{e^{L_1}+e^{L_2}},\quad "
        r"L=\log(e^{L_1}+e^{L_2})",
        source=Source("004", "3.1 QK^T", "Averages the values of the whole sequence."),
        verdict="holds",
        form="symbolic",
        truth="With log-sum-exp minus infinity for a part without keys; where both have none there "
        "is no output, only a convention.",
        derivation=_split,
    ),
    Claim(
        id="attention.streamed_eq_whole",
        number="",
        statement="Key after key, with sums rescaled whenever the running maximum moves, gives "
        "attention over all.",
        latex=r"E'=e^{M_1-M_2}E+e^{z-M_2}",
        source=Source("004", "3.1 QK^T", "Averages the values of the whole sequence."),
        verdict="holds",
        form="symbolic",
        derivation=streamed,
    ),
    Claim(
        id="attention.key_head_of_query_head",
        number="",
        statement="With r query heads a key head, query head g r + a reads key head g, or, where "
        "heads are tiled, query head a G + g does.",
        latex=r"\lfloor(gr+a)G/(rG)\rfloor=g,\quad(aG+g)\bmod G=g",
        source=Source("004", "3.1 GQA", "Query heads form groups that share keys and values."),
        verdict="holds",
        form="symbolic",
        derivation=_shared_keys,
    ),
)
