"""Selection of the highest-scoring keys: what it is, and what it is best at.

Source: document 004 (3.7, DSA). Which keys a selection may have is counted, as in the definition,
so that ties leave a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.definition import Definition
from attnspec.spec.select_top_k_definition import (
    TIES,
    Selection,
    accepted,
    may_be_selected,
    must_be_selected,
    precedes,
    selected_count,
)
from attnspec.spec.softmax import two_way
from attnspec.spec.symbols import i


def at_every_key(
    make: Callable[[Selection], Definition], scores: Sequence[sp.Expr], k: int, ties: str = "any"
) -> tuple[sp.Expr, ...]:
    """A definition's value at each key of one row of exact scores, all of which are allowed."""
    definition = make(Selection(ties=ties))
    sizes = {str(p): p for p in definition.parameters}
    sized = definition.expression.xreplace(
        {sizes["s"]: sp.Integer(len(scores)), sizes["k"]: sp.Integer(k)}
    ).doit()
    key = definition.axes[-1][0]
    return tuple(
        sized.xreplace({key: sp.Integer(place)}).replace(
            lambda node: isinstance(node, sp.Indexed), lambda node: scores[node.indices[-1]]
        )
        for place in range(len(scores))
    )


def _accepted(scores: Sequence[sp.Expr], rows: Sequence[Sequence[int]]) -> list[sp.Expr]:
    """1 for each row of indices that is right, of exact scores, all of which are allowed."""
    definition = accepted(Selection())
    sizes = {"s": sp.Integer(len(scores)), "k": sp.Integer(len(rows[0]))}
    sized = definition.expression.xreplace(
        {p: sizes[str(p)] for p in definition.parameters if str(p) in sizes}
    ).doit()
    entries = sized.atoms(sp.Indexed)
    found = []
    for row in rows:
        given = {"scores": scores, "indices": [sp.Integer(place) for place in row]}
        values = {node: given[str(node.base.label)][node.indices[-1]] for node in entries}
        found.append(sized.xreplace(values))
    return found


def _definition() -> tuple[Step, ...]:
    above, more, left, here = sp.symbols("a u w h", integer=True, nonnegative=True)
    k = above + 1 + more
    ties = k + left - above
    scores = (sp.Integer(5), sp.Integer(2), sp.Integer(2), sp.Integer(1), sp.Integer(7))
    pairs = [((x, 0), (y, 1)) for x in scores[:2] for y in scores[:3]]
    lowest = TIES[1]
    rows = ((0, 1, 4), (4, 2, 0), (0, 1, 2), (0, 3, 4), (0, 4, 4), (0, 4, -1))
    return (
        Step(
            "let t be the k-th highest score, with a keys above it and e at it: a < k <= a + e. "
            "Above t at most a - 1 keys are higher, fewer than k: such a key may be chosen",
            (k - above).is_positive,
        ),
        Step("and must be, as at most a, so at most k, are as high", (k - above).is_nonnegative),
        Step("at t exactly a are higher: any may be chosen", (k - 1 - above).is_nonnegative),
        Step(
            "there are e of them, not too few for the k - a places left",
            (ties - (k - above)).is_nonnegative,
        ),
        Step(
            "and a + e are as high as t: more than k, so that none of them must be, if one is left",
            (above + ties - k).subs(left, left + 1).is_positive,
        ),
        Step("and k, so that all must be, if none is left", (above + ties - k).subs(left, 0)),
        Step(
            "below t at least a + e are higher, not fewer than k: no such key may be",
            (above + ties + here - k).is_nonnegative,
        ),
        Step(
            "scores (5, 2, 2, 1, 7), k = 3: all but the 1 may be chosen",
            sp.Matrix(at_every_key(may_be_selected, scores, 3)) - sp.Matrix([1, 1, 1, 0, 1]),
        ),
        Step(
            "and 5 and 7 must be",
            sp.Matrix(at_every_key(must_be_selected, scores, 3)) - sp.Matrix([1, 0, 0, 0, 1]),
        ),
        Step(
            "so of the rows of indices (0, 1, 4), (4, 2, 0), (0, 1, 2), (0, 3, 4), (0, 4, 4) and "
            "(0, 4, -1) the first two are right",
            sp.Matrix(_accepted(scores, rows)) - sp.Matrix([1, 1, 0, 0, 0, 0]),
        ),
        Step(
            "where ties go to the lowest index, one of two keys comes first, never both",
            all(
                (precedes(lowest, one, two) == sp.true) != (precedes(lowest, two, one) == sp.true)
                for one, two in pairs
            ),
        ),
        Step(
            "so the first of the tied 2s is chosen",
            sp.Matrix(at_every_key(may_be_selected, scores, 3, lowest))
            - sp.Matrix([1, 1, 0, 0, 1]),
        ),
    )  # fmt: skip


def _all_kept() -> tuple[Step, ...]:
    others, more, lower = sp.symbols("n u r", integer=True, nonnegative=True)
    allowed = others + 1
    k = allowed + more
    scores = (sp.Integer(3), sp.Integer(0), -sp.oo, sp.Integer(3))
    (count, *_) = at_every_key(selected_count, scores, 9)
    return (
        Step(
            "as high as a key are at most all n allowed ones, so at most k: it must be chosen",
            (k - (allowed - lower)).is_nonnegative,
        ),
        Step(
            "and fewer than k are higher, as it is not higher than itself: it may be",
            (k - (allowed - 1 - lower)).is_positive,
        ),
        Step("min(k, n) = n are chosen", sp.Min(k, allowed) - allowed),
        Step(
            "scores (3, 0, -inf, 3), k = 9: all but the third must be",
            sp.Matrix(at_every_key(must_be_selected, scores, 9)) - sp.Matrix([1, 1, 0, 1]),
        ),
        Step("three in all", count - 3),
    )


def _best_by_score() -> tuple[Step, ...]:
    least = sp.Symbol("t", real=True)
    above, below = (sp.IndexedBase(name, nonnegative=True) for name in ("a", "b"))
    swapped = sp.Symbol("r", integer=True, positive=True)
    gain = sp.simplify(
        sp.Sum(least + above[i], (i, 0, swapped - 1))
        - sp.Sum(least - below[i], (i, 0, swapped - 1))
        - sp.Sum(above[i] + below[i], (i, 0, swapped - 1))
    )
    first, second = sp.Integer(2), sp.Integer(1)
    return (
        *_definition(),
        Step(
            "another set of k keys has r others in place of r chosen ones. Chosen scores are "
            "t + a_i, left-out ones t - b_i: the sums differ by the sum of a_i + b_i",
            gain,
        ),
        Step(
            "which is not negative: no set of k keys has a larger sum of scores",
            sp.Sum(above[i] + below[i], (i, 0, swapped - 1)).is_nonnegative,
        ),
        Step(
            "another query, of other scores, gets other keys",
            sp.Matrix(at_every_key(may_be_selected, (first, second), 1))
            + sp.Matrix(at_every_key(may_be_selected, (second, first), 1))
            - sp.ones(2, 1),
        ),
        Step(
            "scores of the indexer need not follow attention's: (2, 1) beside logits (0, log 3), "
            "of which the first weighs 1/4",
            sp.simplify(two_way(-sp.log(3))) - sp.Rational(1, 4),
        ),
    )


def _other_order() -> Counterexample:
    chosen = at_every_key(may_be_selected, (sp.Integer(2), sp.Integer(1)), 1)
    weights = (sp.simplify(two_way(-sp.log(3))), sp.simplify(two_way(sp.log(3))))
    return Counterexample(
        "indexer scores (2, 1), attention's logits (0, log 3), k = 1: softmax weight of the chosen "
        "key, stated to be the largest",
        stated=sp.Max(*weights),
        actual=sp.Add(*(c * weight for c, weight in zip(chosen, weights, strict=True))),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="select_top_k.definition",
        number="",
        statement="Choosing k keys so that none left out scores higher than one chosen is choosing "
        "every key that fewer than k others match or exceed, and else only such that fewer than k "
        "exceed.",
        latex=r"\#\{r:z_r\ge z_j\}\le k\Rightarrow j\in S\Rightarrow\#\{r:z_r>z_j\}<k",
        source=Source("004", "3.7 DSA", "The best K tokens by score are selected."),
        verdict="holds",
        form="symbolic",
        derivation=_definition,
    ),
    Claim(
        id="select_top_k.all_of_k_ge_keys",
        number="",
        statement="With k at least the number of allowed keys, all of them are chosen.",
        latex=r"k\ge n\Rightarrow|S|=n",
        source=Source("004", "3.7 DSA", "The best K tokens by score are selected."),
        verdict="holds",
        form="symbolic",
        derivation=_all_kept,
    ),
    Claim(
        id="select_top_k.largest_sum_of_scores",
        number="C144",
        statement="For each query the most relevant tokens are picked, wherever they are.",
        latex=r"\sum_{j\in S}I_j=\max_{|T|=k}\sum_{j\in T}I_j",
        source=Source(
            "004", "3.7 DSA", "Every query gets the tokens that matter most to it, at any place."
        ),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition(
                "D1", "relevance is the indexer's score, not the weight that attention gives"
            ),
        ),
        truth="Nothing ties the indexer's scores to attention's; how much weight is left out "
        "decides what the selection costs.",
        counterexample=_other_order,
        derivation=_best_by_score,
    ),
)
