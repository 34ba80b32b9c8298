"""Scores of the lightning indexer: weighted sums over heads, and what cutting off at zero does.

Source: document 004 (3.7, DSA).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.definition import unmarked
from attnspec.spec.indexer_scores_definition import indexer_scores, rectified
from attnspec.spec.select_top_k import at_every_key
from attnspec.spec.select_top_k_definition import may_be_selected, must_be_selected

_x = sp.Symbol("x", real=True)
_PRODUCTS = tuple(sp.Integer(x) for x in (3, -1, -2, -5))
"""Products of one query with four keys."""
_MIXED = tuple(sp.Integer(x) for x in (3, 1, -2, 2))
"""The same, three of them positive."""


def _one_channel(queries: tuple[int, ...], key: sp.Expr) -> sp.Expr:
    """The definition's score of heads of one channel, all of weight 1."""
    definition = indexer_scores(weighted=False)
    sizes = {str(p): p for p in definition.parameters}
    sized = unmarked(definition.expression).xreplace(
        {sizes["heads"]: sp.Integer(len(queries)), sizes["d"]: sp.S.One}
    )

    def value(entry: sp.Indexed) -> sp.Expr:
        return key if str(entry.base.label) == "k" else sp.Integer(queries[entry.indices[1]])

    return sized.doit().replace(lambda node: isinstance(node, sp.Indexed), value)


def _sum_of_definition() -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """The sum over heads as written down, its head's product, and that of unit weights."""
    definition = indexer_scores(weighted=True)
    q, k, w = definition.arrays
    (b, _), (i, _), (j, _) = definition.axes
    heads, d = definition.parameters[1], definition.parameters[-1]
    h, c = sp.symbols("h l", integer=True, nonnegative=True)
    product = sp.Sum(q[b, h, i, c] * k[b, j, c], (c, 0, d - 1))
    over = (h, 0, heads - 1)
    weighed = sp.Sum(w[b, h, i] * rectified(product), over)
    return weighed, product, sp.Sum(rectified(product), over)


def _definition() -> tuple[Step, ...]:
    weighed, _, plain = _sum_of_definition()
    unit = weighed.replace(
        lambda node: isinstance(node, sp.Indexed) and str(node.base.label) == "w",
        lambda _: sp.S.One,
    )
    return (
        Step(
            "without marks it is the sum of w_h max(q_h k, 0) over heads",
            unmarked(indexer_scores(weighted=True).expression) - weighed,
        ),
        Step(
            "left out, the weights are 1",
            unmarked(indexer_scores(weighted=False).expression) - unit,
        ),
        Step("which leaves the sum of max(q_h k, 0)", unit - plain),
    )


def _weighted_sum() -> tuple[Step, ...]:
    heads = indexer_scores(weighted=False).parameters[1]
    _, product, _ = _sum_of_definition()
    alone = unmarked(indexer_scores(weighted=False).expression).xreplace({heads: sp.S.One})
    (h,) = (node.indices[1] for node in product.atoms(sp.Indexed) if len(node.indices) == 4)
    single = sp.Symbol("q", real=True)
    both = rectified(single) * rectified(-single)
    return (
        *_definition(),
        Step(
            "one head of weight 1 is the printed form",
            alone.doit() - rectified(product.xreplace({h: sp.S.Zero, heads: sp.S.One})),
        ),
        Step(
            "two heads of one channel, q = 1 and q = -1, have the score |k|",
            sp.simplify((_one_channel((1, -1), _x) - sp.Abs(_x)).rewrite(sp.Abs)),
        ),
        Step("1 at k = 1", _one_channel((1, -1), sp.S.One) - 1),
        Step("and at k = -1", _one_channel((1, -1), sp.S.NegativeOne) - 1),
        Step(
            "a single query gives max(q, 0) and max(-q, 0) there, whose product is 0 for every q: "
            "none has the sum's scores",
            sp.expand(both.rewrite(sp.Abs)),
        ),
    )


def _two_heads() -> Counterexample:
    return Counterexample(
        "two heads of one channel, q = 1 and q = -1, weights 1, k = 1: score, stated to be that of "
        "one query, their sum",
        stated=rectified(sp.Integer(1 - 1)),
        actual=_one_channel((1, -1), sp.S.One),
    )


def _shared_key() -> tuple[Step, ...]:
    definition = indexer_scores(weighted=True)
    queries, keys, _ = definition.arrays
    heads, s, d = (definition.parameters[at] for at in (1, 3, 4))
    places = sp.symbols("h j l", integer=True, nonnegative=True)
    shared = sp.Sum(1, (places[2], 0, d - 1), (places[1], 0, s - 1)).doit()
    apart = sp.Sum(1, (places[2], 0, d - 1), (places[1], 0, s - 1), (places[0], 0, heads - 1))
    read = {
        str(node.base.label): node.free_symbols & {places[0]}
        for node in definition.expression.atoms(sp.Indexed)
    }
    return (
        Step("the key has no head's index", sp.Integer(len(read[str(keys.label)]))),
        Step("the query has one", sp.Integer(len(read[str(queries.label)]) - 1)),
        Step("one key a token: s d numbers", shared - s * d),
        Step("a key for each head would be h times as many", apart.doit() / shared - heads),
    )


def _zeroed() -> tuple[Step, ...]:
    below, above = sp.Symbol("m", negative=True), sp.Symbol("p", nonnegative=True)
    return (
        Step("max(x, 0) = (x + |x|) / 2", rectified(_x).rewrite(sp.Abs) - (_x + sp.Abs(_x)) / 2),
        Step("which is 0 below zero", ((_x + sp.Abs(_x)) / 2).subs(_x, below)),
        Step("and x from there on", ((_x + sp.Abs(_x)) / 2).subs(_x, above) - above),
    )


def _chosen_below_zero() -> sp.Expr:
    """How many of three chosen keys have a negative product, where only one has a positive."""
    cut = tuple(rectified(x) for x in _PRODUCTS)
    must = at_every_key(must_be_selected, cut, 3)
    return 3 - sp.Add(*must)


def _not_dropped() -> tuple[Step, ...]:
    cut = tuple(rectified(x) for x in _PRODUCTS)
    positive, other = sp.symbols("p o", positive=True)
    below = sp.Symbol("m", nonnegative=True)
    weighed = tuple(-rectified(x) for x in _PRODUCTS[:2])
    return (
        Step(
            "products (3, -1, -2, -5), cut off: any of the zeros may be among 3 chosen",
            sp.Matrix(at_every_key(may_be_selected, cut, 3)) - sp.ones(4, 1),
        ),
        Step("as only the first must be", _chosen_below_zero() - 2),
        Step(
            "not cut off, -5 is left out",
            sp.Matrix(at_every_key(may_be_selected, _PRODUCTS, 3)) - sp.Matrix([1, 1, 1, 0]),
        ),
        Step(
            "of weight -1 the products 3 and -1 score -3 and 0: the zero is chosen first",
            sp.Matrix(at_every_key(may_be_selected, weighed, 1)) - sp.Matrix([0, 1]),
        ),
        Step("cutting off keeps positive scores", rectified(positive) - positive),
        Step(
            "and their differences, so who is higher",
            rectified(positive) - rectified(other) - (positive - other),
        ),
        Step(
            "others are lower than any positive one, before",
            (positive - (-below)).is_positive,
        ),
        Step("and after", (rectified(positive) - rectified(-below)).is_positive),
        Step(
            "with k positive scores, then, no other key is chosen, before or after: (3, 1, -2, 2), "
            "k = 3",
            sp.Matrix(at_every_key(may_be_selected, _MIXED, 3))
            - sp.Matrix(at_every_key(may_be_selected, tuple(map(rectified, _MIXED)), 3)),
        ),
    )


def _negative_chosen() -> Counterexample:
    return Counterexample(
        "products (3, -1, -2, -5), cut off at zero, k = 3: chosen keys with a negative product, "
        "all of which are stated to be dropped",
        stated=sp.S.Zero,
        actual=_chosen_below_zero(),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="indexer_scores.definition",
        number="",
        statement="The expression that the suite evaluates is the weighted sum over heads.",
        latex=r"I_{t,s}=\sum_hw_{t,h}\max(q_{t,h}\cdot k_s,0)",
        source=Source("004", "3.7 DSA", "A formula for the score, of one product through a ReLU."),
        verdict="holds",
        form="symbolic",
        derivation=_definition,
    ),
    Claim(
        id="indexer_scores.weighted_sum_over_heads",
        number="C145",
        statement="The index score is the product of one query and one key, cut off at zero.",
        latex=r"I_{t,s}=\sum_hw_{t,h}\,\mathrm{ReLU}(q_{t,h}\cdot k_s)",
        source=Source("004", "3.7 DSA", "A formula for the score, of one product through a ReLU."),
        verdict="corrected",
        form="symbolic",
        truth="It is a weighted sum of such products over the indexer's heads, which no single "
        "query can replace.",
        counterexample=_two_heads,
        derivation=_weighted_sum,
    ),
    Claim(
        id="indexer_scores.one_key_for_all_heads",
        number="C146",
        statement="One key a token, shared by all heads, makes the pass cheap.",
        latex=r"hsd/(sd)=h",
        source=Source("004", "3.7 DSA", "Heads of the indexer share a single key."),
        verdict="holds",
        form="symbolic",
        truth="Keys take a share 1/h of the storage; products are as many as with a key a head.",
        derivation=_shared_key,
    ),
    Claim(
        id="indexer_scores.negative_products_zeroed",
        number="C147",
        statement="ReLU turns every negative score into zero.",
        latex=r"\max(x,0)=(x+|x|)/2",
        source=Source("004", "3.7 DSA", "Negative scores are zeroed."),
        verdict="holds",
        form="symbolic",
        derivation=_zeroed,
    ),
    Claim(
        id="indexer_scores.same_selection_of_k_positive",
        number="C148",
        statement="Tokens with a score of zero are dropped, not just weighed less.",
        latex=r"\#\{j:x_j>0\}\ge k\Rightarrow\mathrm{top}_k(\max(x,0))=\mathrm{top}_k(x)",
        source=Source("004", "3.7 DSA", "What the ReLU zeroes is out of consideration."),
        verdict="corrected",
        form="symbolic",
        truth="The selection decides, not the ReLU: with fewer than k positive scores keys that "
        "score zero are chosen, and a zero beats a product of negative weight. With at least k "
        "positive scores the ReLU of one head changes nothing.",
        counterexample=_negative_chosen,
        derivation=_not_dropped,
    ),
)
