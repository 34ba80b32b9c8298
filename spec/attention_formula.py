"""The expression that the suite evaluates, without its marks, is attention as documents write it.

Sources: document 003 (2), document 004 (3.1, core idea). The expression subtracts a row maximum
and is written for all heads at once; the documents write one head, and no maximum.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention_definition import (
    EITHER_SIDE,
    SCALINGS,
    Options,
    attention,
    log_sum_exp,
    logits,
    sees,
)
from attnspec.spec.attention_sums import gathering, u, w
from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.definition import choice, one_if, unmarked
from attnspec.spec.reading import any_shift, named, shift

_total = sp.Symbol("T", positive=True)
_logit = sp.IndexedBase("z", real=True)
_numerator = sp.IndexedBase("e", nonnegative=True)
_ALL = Options(mask=True, bias=True, softcap=True, ranges=True)


def _keys(expression: sp.Expr) -> tuple[sp.Symbol, sp.Expr]:
    """The index of keys and their number, in the expression of an output."""
    (index, low, high), *rest = expression.limits
    if low != 0 or rest:
        raise ValueError(f"not one sum over keys from 0: {expression.limits}")
    return index, high + 1


def _document_score(form: str = "scores") -> tuple[sp.Expr, sp.Expr]:
    """The expression's scaled score with the scale in that place, and the documents':
    (Q K^T)_ij / sqrt(d)."""
    scored = unmarked(logits(Options(scaling=form)))
    names = named(scored)
    query, key = (
        next(node for node in scored.atoms(sp.Indexed) if str(node.base) == name)
        for name in ("q", "k")
    )
    channels = (names["l"], 0, names["d"] - 1)
    asked = sp.Sum(query * key, channels) / sp.sqrt(names["d"])
    return scored.subs(names["scale"], 1 / sp.sqrt(names["d"])), asked


def _definition() -> tuple[Step, ...]:
    definition = attention(Options())
    output = any_shift(definition.expression)
    j, size = _keys(output)
    by_logits = output.xreplace({unmarked(logits(Options())): _logit[j]})
    value = next(node for node in by_logits.atoms(sp.Indexed) if str(node.base) == "v")
    inner = sp.Sum(sp.exp(_logit[j] - shift), (j, 0, size - 1))
    pulled = sp.factor_terms(sp.expand(inner))
    whole = sp.Sum(sp.exp(_logit[j]), (j, 0, size - 1))
    summand = by_logits.function.xreplace({inner: sp.exp(-shift) * _total})
    indices = {(str(node.base), *map(str, node.indices[:3:2])) for node in output.atoms(sp.Indexed)}
    return (
        Step(
            "queries, keys and values of one batch entry enter, and of queries one row",
            indices == {("q", "b", "i"), ("k", "b", "j"), ("v", "b", "j")},
        ),
        Step(
            "with 1/sqrt(d) for the scale its logits are (Q K^T)_ij / sqrt(d)",
            _document_score()[0] - _document_score()[1],
        ),
        *(
            Step(
                f"and the same with the scale on {form}",
                sp.factor_terms(_document_score(form)[0]) - _document_score(form)[1],
            )
            for form in SCALINGS[1:]
        ),
        Step(
            "and on either side, by a factor of which what is too much is taken out again",
            sp.factor_terms(_document_score(EITHER_SIDE)[0]) - _document_score(EITHER_SIDE)[1],
        ),
        Step(
            "exp(-M) leaves the sum of exp(z_j - M), and T is that of exp(z_j)",
            pulled - sp.exp(-shift) * whole,
        ),
        Step(
            "so a term of the output is exp(z_j) / T times v_j: row i of softmax(Q K^T / sqrt(d)) "
            "times V",
            sp.powsimp(sp.expand(summand)) - sp.exp(_logit[j]) / _total * value,
        ),
    )


def _masked_definition() -> tuple[Step, ...]:
    output = any_shift(attention(_ALL).expression)
    lse = any_shift(log_sum_exp(_ALL).expression)
    j, size = _keys(output)
    seen = sees(_ALL)
    some = sp.Sum(one_if(seen), (j, 0, size - 1)) > 0
    logit = unmarked(logits(_ALL))
    shifted = choice(logit - shift, seen, sp.Integer(0))
    numerator = choice(sp.exp(shifted), seen, sp.Integer(0))
    value = next(node for node in output.atoms(sp.Indexed) if str(node.base) == "v")
    total = sp.Sum(_numerator[j], (j, 0, size - 1))
    row, row_lse = (part.xreplace({some: sp.true}) for part in (output, lse))
    names = named(logit)
    score = unmarked(logits(Options()))
    bias = next(node for node in logit.atoms(sp.Indexed) if str(node.base) == "bias")
    cap = names["cap"]
    return (
        Step(
            "the logits are the scaled scores, capped, plus the bias",
            logit - (cap * sp.tanh(score / cap) + bias),
        ),
        Step(
            "in a row that sees some key, with e_j the numerators the output is the sum of "
            "e_j v_j over that of e_j: who sees whom enters by e_j alone",
            row.xreplace({numerator: _numerator[j]})
            - sp.Sum(_numerator[j] / total * value, (j, 0, size - 1)),
        ),
        Step(
            "e_j is exp(z_j - M) for a key that is seen",
            numerator.xreplace({seen: sp.true}) - sp.exp(logit - shift),
        ),
        Step("and 0 for one that is hidden", numerator.xreplace({seen: sp.false})),
        Step(
            "the log-sum-exp is M + log of the sum of e_j",
            row_lse.xreplace({numerator: _numerator[j]}) - shift - sp.log(total),
        ),
        Step(
            "which is the logarithm of T, where e_j sums to exp(-M) T",
            sp.expand_log(shift + sp.log(sp.exp(-shift) * _total) - sp.log(_total), force=True),
        ),
        *gathering(),
        *_empty_row(output, lse, {some: sp.false, seen: sp.false}),
        *_positions(),
    )


def _empty_row(output: sp.Expr, lse: sp.Expr, unseen: dict[sp.Basic, sp.Basic]) -> tuple[Step, ...]:
    return (
        Step("a row that sees no key gives 0", output.xreplace(unseen).doit()),
        Step("and a log-sum-exp of minus infinity", sp.Eq(lse.xreplace(unseen), -sp.oo)),
    )


def _positions() -> tuple[Step, ...]:
    """Causality and windows are ranges about a query's position."""
    seen = sees(Options(ranges=True))
    names = named(seen)
    position = names["i"] + names["offset"]

    def at(key: sp.Expr, *, left: sp.Expr, right: sp.Expr) -> sp.Basic:
        return seen.subs(
            {names["j"]: key, names["left"]: left, names["right"]: right}, simultaneous=True
        )

    return (
        Step(
            "causal, right = 0: a key after position i + offset is hidden",
            at(position + 1 + u, left=w, right=sp.S.Zero) == sp.false,
        ),
        Step(
            "one at most `left` before it is seen",
            at(position - u, left=u + w, right=sp.S.Zero) == sp.true,
        ),
        Step(
            "one further back is hidden by the window",
            at(position - w - 1 - u, left=w, right=sp.S.Zero) == sp.false,
        ),
        Step(
            "a window without causality sees as far ahead",
            at(position + u, left=u + w, right=u + w) == sp.true,
        ),
        Step(
            "and no further",
            at(position + w + 1 + u, left=w, right=w) == sp.false,
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="attention.definition",
        number="C006",
        statement="Attention is softmax(Q K^T / sqrt(d_k)) V; the expression that the suite "
        "evaluates, without its marks, is that.",
        latex=r"\mathrm{softmax}\bigl(QK^T/\sqrt{d_k}\bigr)V",
        source=Source("004", "3.1 Core Idea", "The whole computation in one formula."),
        verdict="holds",
        form="symbolic",
        derivation=_definition,
    ),
    Claim(
        id="attention.masked_definition",
        number="",
        statement="With a mask, a bias, a cap and a window the expression is attention over the "
        "visible keys, its log-sum-exp the logarithm of their sum.",
        latex=r"o_i=\frac{\sum_jm_{ij}e^{z_{ij}}v_j}{\sum_jm_{ij}e^{z_{ij}}},\quad "
        r"L_i=\log\sum_jm_{ij}e^{z_{ij}}",
        source=Source("003", "2 Formulations", "Adds the mask to the scaled scores."),
        verdict="holds",
        form="symbolic",
        truth="A row that sees no key gives 0 and minus infinity, by convention.",
        derivation=_masked_definition,
    ),
)
