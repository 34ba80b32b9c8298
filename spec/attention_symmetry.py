"""Attention and the order of tokens: outputs move along with them, they don't stay.

Sources: document 004 (3.1, the permutation problem). Shuffled tokens have the same scores,
relabelled, so their outputs are the same ones, shuffled: equivariance. A causal mask breaks it.
"""

from __future__ import annotations

from itertools import permutations

import sympy as sp

from attnspec.spec.attention_sums import (
    a,
    at_places,
    head,
    over_keys,
    places,
    relabelling,
    u,
)
from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.shapes import shapes_fit
from attnspec.spec.symbols import N, c, i, j

_tokens, _width = sp.symbols("n d", integer=True, positive=True)
_score = sp.IndexedBase("s", real=True)
_value = sp.IndexedBase("v", real=True)
_query = sp.Symbol("t", real=True)


def _relabelled_scores() -> tuple[Step, ...]:
    order = sp.MatrixSymbol("P", _tokens, _tokens)
    x = sp.MatrixSymbol("X", _tokens, _width)
    w_q, w_k = (sp.MatrixSymbol(name, _width, head) for name in ("W_Q", "W_K"))
    shuffled = ((order * x * w_q) * (order * x * w_k).T).doit()
    scores = (x * w_q) * (x * w_k).T
    return (
        Step("the shapes fit", shapes_fit(order, x, w_q, w_k.T, x.T, order.T)),
        Step(
            "the scores of P X are P S P^T, with S those of X",
            (shuffled - order * scores * order.T).doit(),
        ),
        Step(
            "entry by entry: the sum over j of s_ij delta(j, phi_a) is s_i,phi_a, where phi_a is "
            "the token at place a",
            at_places(_score[i, j], N).function - _score[i, places[a]],
        ),
    )


def _row(query: sp.Expr) -> tuple[sp.Sum, sp.Sum]:
    """Both sums of a query's output, over tokens in their first order."""
    keys = (j, 0, N - 1)
    weight = sp.exp(_score[query, j])
    return sp.Sum(weight * _value[j], keys), sp.Sum(weight, keys)


def _equivariance() -> tuple[Step, ...]:
    terms = (a, 0, N - 1)
    weight = sp.exp(_score[places[i], j])
    upper, lower = _row(places[i])
    return (
        *relabelling(),
        Step(
            "row i of shuffled tokens adds the exponentials of s_(phi_i, phi_a) over a: those of "
            "row phi_i at the places",
            at_places(weight, N) - sp.Sum(weight.subs(j, places[a]), terms),
        ),
        Step("which are all of row phi_i", over_keys(weight) - lower),
        Step("with values alike, so that o'_i = o_(phi_i)", over_keys(weight * _value[j]) - upper),
        Step(
            "a sum or mean over all outputs, whatever they are, is then invariant",
            over_keys(sp.Function("o")(j)) - sp.Sum(sp.Function("o")(j), (j, 0, N - 1)),
        ),
    )


def first_outputs(tokens: tuple[int, ...], *, causal: bool) -> list[sp.Expr]:
    """Outputs of attention with q = k = v = the tokens, one channel each."""
    rows = []
    for place, query in enumerate(tokens):
        seen = tokens[: place + 1] if causal else tokens
        weights = [sp.exp(query * key) for key in seen]
        rows.append(sum(x * y for x, y in zip(weights, seen, strict=True)) / sum(weights))
    return rows


def _not_invariant() -> tuple[Step, ...]:
    e = sp.exp(1)
    free = [first_outputs(order, causal=False) for order in ((0, 1), (1, 0))]
    causal = [first_outputs(order, causal=True) for order in ((0, 1), (1, 0))]
    return (
        *_relabelled_scores(),
        *_equivariance(),
        Step(
            "q = k = v = (0, 1): outputs 1/2 and e/(1+e)",
            sp.Matrix(free[0]) - sp.Matrix([sp.Rational(1, 2), e / (1 + e)]),
        ),
        Step(
            "tokens swapped: the same two, swapped", sp.Matrix(free[1]) - sp.Matrix(free[0][::-1])
        ),
        Step(
            "with a causal mask 0 and e/(1+e)", sp.Matrix(causal[0]) - sp.Matrix([0, e / (1 + e)])
        ),
        Step(
            "tokens swapped: 1 and 1/2, which are others",
            sp.Matrix(causal[1]) - sp.Matrix([1, sp.Rational(1, 2)]),
        ),
        Step(
            "and have another sum, so even the set isn't kept",
            sp.Ne(sp.simplify(sum(causal[1]) - sum(causal[0])), 0),
        ),
    )


def _swapped() -> Counterexample:
    return Counterexample(
        "q = k = v = (0, 1) and (1, 0), no mask: first output of the second, "
        "stated to be that of the first",
        stated=first_outputs((0, 1), causal=False)[0],
        actual=first_outputs((1, 0), causal=False)[0],
    )


def _three_tokens() -> tuple[Step, ...]:
    scores = sp.MatrixSymbol("S", 3, 3)
    values = sp.MatrixSymbol("V", 3, 1)

    def outputs(order: tuple[int, ...]) -> list[sp.Expr]:
        rows = [[sp.exp(scores[x, y]) for y in order] for x in order]
        shuffled = [values[x, 0] for x in order]
        return [sum(x * y for x, y in zip(row, shuffled, strict=True)) / sum(row) for row in rows]

    plain = outputs((0, 1, 2))
    cycle = sp.Matrix([[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    return (
        *_relabelled_scores(),
        Step(
            "[x_1, x_2, x_3] -> [x_3, x_1, x_2] is the cyclic P",
            cycle * sp.Matrix(sp.symbols("x_1:4")) - sp.Matrix(sp.symbols("x_3 x_1 x_2")),
        ),
        *(
            Step(
                f"order {order} of three tokens, any scores: outputs in that order",
                sp.Matrix(outputs(order)) - sp.Matrix([plain[place] for place in order]),
            )
            for order in permutations(range(3))
        ),
    )


def _not_products() -> tuple[Step, ...]:
    two_keys = (sp.exp(_query) * 1 + sp.exp(0) * 0) / (sp.exp(_query) + sp.exp(0))
    return (
        Step(
            "query t, keys and values 1 and 0: the output is 1/(1 + exp(-t))",
            sp.simplify(two_keys - 1 / (1 + sp.exp(-_query))),
        ),
        Step("which goes to 1 as t grows", sp.limit(two_keys, _query, sp.oo) - 1),
        Step("and to 0 as it falls", sp.limit(two_keys, _query, -sp.oo)),
        Step(
            "products and sums alone make polynomials in t, and of those only a constant has a "
            "limit: t^n does not, for n >= 1",
            sp.Eq(sp.limit(_query ** (1 + sp.Symbol("n", nonnegative=True)), _query, sp.oo), sp.oo),
        ),
        Step(
            "the output isn't constant: its slope at 0 is 1/4",
            sp.diff(two_keys, _query).subs(_query, 0) - sp.Rational(1, 4),
        ),
        *_equivariance(),
    )


def _limits() -> Counterexample:
    two_keys = sp.exp(_query) / (sp.exp(_query) + 1)
    return Counterexample(
        "query t, keys and values 1 and 0: limit of the output as t falls, which for a polynomial "
        "with limit 1 as t grows is 1",
        stated=sp.limit(two_keys, _query, sp.oo),
        actual=sp.limit(two_keys, _query, -sp.oo),
    )


def _other_queries() -> tuple[Step, ...]:
    query, key = (sp.IndexedBase(name, real=True) for name in ("q", "k"))
    channels = (c, 0, head - 1)
    score = sp.Sum(query[i, c] * key[j, c], channels)
    at_place = sp.Sum(query[places[i], c] * key[j, c], channels)
    return (
        Step(
            "the score of query i with any key does not move with another query's entries",
            sp.diff(score, query[i + 1 + u, c]).doit(),
        ),
        Step(
            "so the query at place phi_i has the scores, and the output, that it has anywhere",
            at_place - score.subs(i, places[i]),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="attention.equivariant_in_place_of_dot_products",
        number="C019",
        statement="Everything in attention is built out of dot products.",
        latex=r"t\mapsto1/(1+e^{-t})\text{ is no polynomial};\quad o'_i=o_{\phi_i}",
        source=Source("004", "3.1 Permutation", "Scores, softmax and V are products throughout."),
        verdict="corrected",
        form="symbolic",
        truth="Scores are. Exponentials and the division are not, nor are they polynomials; what "
        "the argument needs is that every step is equivariant.",
        counterexample=_limits,
        derivation=_not_products,
    ),
    Claim(
        id="attention.scores_of_shuffled_tokens",
        number="C020",
        statement="Shuffled tokens have the same pairwise scores, relabelled.",
        latex=r"S(PX)=P\,S(X)\,P^T",
        source=Source("004", "3.1 Permutation", "The relevance scores are equal up to names."),
        verdict="holds",
        form="symbolic",
        derivation=_relabelled_scores,
    ),
    Claim(
        id="attention.three_shuffled_tokens",
        number="C021",
        statement="So it is for [x_1, x_2, x_3] -> [x_3, x_1, x_2].",
        latex=r"o'=(o_3,o_1,o_2)",
        source=Source("004", "3.1 Permutation", "Shows three tokens and a cyclic shift of them."),
        verdict="holds",
        form="fixed",
        truth="And for all six orders.",
        derivation=_three_tokens,
    ),
    Claim(
        id="attention.equivariant_in_tokens",
        number="C022",
        statement="Attention is permutation invariant: its output doesn't depend on the order.",
        latex=r"\mathrm{Attn}(PX)=P\,\mathrm{Attn}(X)",
        source=Source(
            "004", "3.1 Permutation", "Names it invariance: only which tokens there are counts."
        ),
        verdict="corrected",
        form="symbolic",
        truth="It is equivariant: outputs are shuffled like the tokens, so only their set, and "
        "sums over all of them, stay. With a causal mask not even that.",
        counterexample=_swapped,
        derivation=_not_invariant,
    ),
    Claim(
        id="attention.permutation_of_keys",
        number="",
        statement="Keys and values shuffled together change no output.",
        latex=r"\sum_af(\phi_a)=\sum_jf(j)\text{ for a permutation }\phi",
        source=Source("004", "3.1 Permutation", "No order enters the computation."),
        verdict="holds",
        form="symbolic",
        derivation=relabelling,
    ),
    Claim(
        id="attention.permutation_of_queries",
        number="",
        statement="A query's output doesn't depend on the other queries, nor on its place.",
        latex=r"\partial o_i/\partial q_l=0\ (l\ne i)",
        source=Source("004", "3.1 Permutation", "No order enters the computation."),
        verdict="holds",
        form="symbolic",
        derivation=_other_queries,
    ),
)
