"""Sparse attention: which keys it averages over, what leaving out others costs and saves.

Source: document 004 (3.7, DSA). Numbers of DeepSeek-V3.2 are from its report and inference code:
64 heads of 128 channels in the indexer, 128 heads over a latent of 512 and 64 rotary channels in
attention, index keys of 128 bytes with a scale of 4.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec import attention_definition
from attnspec.spec.attention_definition import HEAD_ORDERS, Options
from attnspec.spec.attention_sums import any_function, gathering, relabelling
from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.select_top_k import at_every_key
from attnspec.spec.select_top_k_definition import EMPTY, may_be_selected
from attnspec.spec.sparse_attention_definition import selected, sparse_attention, times_selected
from attnspec.spec.sums import distributed
from attnspec.spec.symbols import N, i, j, k

_kept, _left = sp.symbols("E_S E_C", positive=True)
_kept_values, _left_values = sp.symbols("U_S U_C", real=True)

INDEX_HEADS, INDEX_CHANNELS = 64, 128
HEADS, LATENT, ROTARY = 128, 512, 64


def _definition() -> tuple[Step, ...]:
    dense = [attention_definition.attention(Options(mask=True, head_order=o)) for o in HEAD_ORDERS]
    sparse = [sparse_attention(order) for order in HEAD_ORDERS]
    masks = [
        next(node for node in one.expression.atoms(sp.Indexed) if str(node.base.label) == "mask")
        for one in dense
    ]
    hit = times_selected().function
    (index,) = hit.atoms(sp.Indexed)
    key = sp.Symbol("j", integer=True, nonnegative=True)
    other = sp.Symbol("u", integer=True, positive=True)
    return (
        *(
            Step(
                f"with {order} heads it is masked attention, with the indices in the mask's place",
                sparse[at].expression.xreplace({times_selected(): masks[at]})
                - dense[at].expression,
            )
            for at, order in enumerate(HEAD_ORDERS)
        ),
        Step("a place counts for its key", hit.xreplace({index: key}) - 1),
        Step("and for no other", hit.xreplace({index: key + other})),
        Step(
            "all places count: of a row that names one key at each, as many as it has",
            times_selected(key).xreplace({index: key}).doit() - index.base.shape[-1],
        ),
        Step("-1 for none", hit.xreplace({index: sp.Integer(EMPTY)})),
        Step(
            "a key that is there once is seen: its count is 1",
            selected().expression.xreplace({times_selected(): hit.xreplace({index: key})}) - 1,
        ),
        *gathering(),
    )


def _cost() -> tuple[Step, ...]:
    index, full = sp.symbols("c_i c_a", positive=True)
    n, chosen, more = sp.symbols("n K u", integer=True, positive=True)
    scored = sp.Sum(k, (k, 1, n)).doit()
    attended = sp.Sum(k, (k, 1, chosen)).doit() + sp.Sum(chosen, (k, chosen + 1, n)).doit()
    cost = index * scored + full * attended
    pair = sp.Integer(INDEX_HEADS * INDEX_CHANNELS)
    latent = sp.Integer(HEADS * (LATENT + ROTARY + LATENT))
    return (
        Step(
            "query t of n scores t keys: n (n + 1) / 2 in all", sp.expand(scored - n * (n + 1) / 2)
        ),
        Step(
            "and attends to min(t, K): n K - K (K - 1) / 2",
            sp.expand(attended - n * chosen + chosen * (chosen - 1) / 2),
        ),
        Step(
            "K of n are fewer than all, by (n - K)(n - K + 1) / 2 for n = K + u",
            sp.expand((scored - attended).subs(n, chosen + more) - more * (more + 1) / 2),
        ),
        Step("over n^2 the cost goes to c_i / 2", sp.limit(cost / n**2, n, sp.oo) - index / 2),
        Step("which is not 0: it stays quadratic", (index / 2).is_positive),
        Step(
            "attention to all costs c_a n (n + 1) / 2: in the limit c_a / c_i times as much",
            sp.limit(full * scored / cost, n, sp.oo) - full / index,
        ),
        Step(
            "and never more, as the K keys come on top of c_i n (n + 1) / 2",
            sp.expand(attended.subs(n, chosen + more)).is_positive,
        ),
        Step("64 heads of 128: 8192 products a pair", pair - 8192),
        Step("128 heads of 576 and 512: 139264", latent - 139264),
        Step("17 times as many", latent / pair - 17),
    )


def _cache() -> tuple[Step, ...]:
    tokens = sp.Symbol("n", integer=True, positive=True)
    latent, key = sp.symbols("b_c b_k", positive=True)
    row = tuple(sp.Integer(x) for x in (4, 3, 2, 1))
    held = sp.Sum(latent + key, (k, 1, tokens)).doit() - sp.Sum(latent, (k, 1, tokens)).doit()
    firsts = [row[at:] + row[:at] for at in range(4)]
    places = sp.Matrix([at_every_key(may_be_selected, scores, 1) for scores in firsts])
    exact = sp.Rational(INDEX_CHANNELS + 4, 2 * (LATENT + ROTARY))
    return (
        Step(
            "of four keys each is the one chosen for some scores: all must be kept",
            sp.Matrix([sum(places[:, at]) for at in range(4)]) - sp.ones(4, 1),
        ),
        Step("index keys come on top: n b_k bytes", sp.expand(held - tokens * key)),
        Step("more than none", held.simplify().is_positive),
        Step("132 bytes on 576 numbers of 2: 11/96", exact - sp.Rational(11, 96)),
        Step(
            "between 11.4 and 11.5 percent",
            sp.And(exact > sp.Rational(114, 1000), exact < sp.Rational(115, 1000)),
        ),
    )


def average(values: sp.Expr, total: sp.Expr) -> sp.Expr:
    """The output of keys whose exponentials sum to `total`, and with their values to `values`."""
    return values / total


def _left_out() -> tuple[Step, ...]:
    whole = average(_kept_values + _left_values, _kept + _left)
    mine, others = average(_kept_values, _kept), average(_left_values, _left)
    share = _left / (_kept + _left)
    member = sp.IndexedBase("m", real=True)
    p, q, v = (sp.IndexedBase(name, real=True) for name in "pqv")
    every = (0, N - 1)
    chosen = sp.Sum(member[j] * any_function(j), (j, *every))
    parts = chosen + distributed(sp.Sum((1 - member[j]) * any_function(j), (j, *every)))
    inner = distributed(sp.Sum(p[i] * q[j] * (v[i] - v[j]), (i, *every)))
    inner = inner.subs(sp.Sum(p[i], (i, *every)), 1)
    spread = distributed(sp.Sum(inner, (j, *every))).subs(sp.Sum(q[j], (j, *every)), 1)
    averages = (sp.Sum(p[i] * v[i], (i, *every)), sp.Sum(q[j] * v[j], (j, *every)))
    size, short = sp.IndexedBase("w", nonnegative=True), sp.IndexedBase("r", nonnegative=True)
    diameter = sp.Symbol("D", nonnegative=True)
    return (
        *gathering(),
        Step(
            "a sum over all keys is one over those of m_j = 1 and one over those of 1 - m_j = 1",
            parts - sp.Sum(any_function(j), (j, *every)),
        ),
        Step(
            "with epsilon the weight of the left-out keys, o - o_S = epsilon (o_C - o_S)",
            sp.simplify(whole - mine - share * (others - mine)),
        ),
        Step(
            "epsilon is that weight: what the exponentials of C are of all",
            sp.simplify(share - (1 - _kept / (_kept + _left))),
        ),
        Step("and positive if any key with a finite logit is left out", share.is_positive),
        Step(
            "weights p of C and q of S sum to 1 each: o_C - o_S is the sum of p_i q_j (v_i - v_j)",
            sp.expand(spread - averages[0] + averages[1]),
        ),
        Step(
            "sizes of v_i - v_j are D - r: weighed by w, which sum to 1, they are at most D",
            sp.expand(
                diameter
                - distributed(sp.Sum(size[j] * (diameter - short[j]), (j, *every))).subs(
                    sp.Sum(size[j], (j, *every)), 1
                )
                - sp.Sum(size[j] * short[j], (j, *every))
            ),
        ),
        Step(
            "as what is missing is not negative: |o - o_S| is at most epsilon D",
            sp.Sum(size[j] * short[j], (j, *every)).is_nonnegative,
        ),
    )


def _half_left_out() -> Counterexample:
    ones = {_kept: sp.S.One, _left: sp.S.One, _kept_values: sp.S.Zero, _left_values: sp.S.One}
    return Counterexample(
        "two keys of equal logits, values 0 and 1, the first selected: output, stated to be that "
        "of attention to both",
        stated=average(_kept_values + _left_values, _kept + _left).subs(ones),
        actual=average(_kept_values, _kept).subs(ones),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="sparse_attention.definition",
        number="",
        statement="The suite's expression is attention whose mask is 1 at the indices, which is "
        "attention over the selected keys in any order.",
        latex=r"m_j=\sum_p\delta_{j,\iota_p},\quad\sum_jm_jf(j)=\sum_pf(\iota_p)",
        source=Source("004", "3.7 DSA", "Attention proper runs over the chosen tokens."),
        verdict="holds",
        form="symbolic",
        derivation=_definition,
    ),
    Claim(
        id="sparse_attention.eq_dense_of_all_selected",
        number="",
        statement="With every key selected, in any order, it is attention to all keys.",
        latex=r"\{\iota_p\}=\{0,\dots,s-1\}\Rightarrow o_S=o",
        source=Source("004", "3.7 DSA", "Attention proper runs over the chosen tokens."),
        verdict="holds",
        form="symbolic",
        derivation=relabelling,
    ),
    Claim(
        id="sparse_attention.cost_quadratic_in_length",
        number="C160",
        statement="Queries and keys are turned, quantized and scored; attention runs over the K "
        "tokens that score highest.",
        latex=r"c_i\tfrac{n(n+1)}2+c_a\bigl(nK-\tfrac{K(K-1)}2\bigr)",
        source=Source("004", "3.7 DSA", "A pipeline from all tokens to the output of a few."),
        verdict="holds",
        form="symbolic",
        truth="Every pair is still scored, so the cost stays quadratic, with the indexer's small "
        "factor: in DeepSeek-V3.2 8192 products a pair for 139264, which caps the gain at 17.",
        derivation=_cost,
    ),
    Claim(
        id="sparse_attention.cache_grows",
        number="C161",
        statement="It is two to three times as fast and takes 30 to 40 percent less memory, at "
        "hardly any loss.",
        latex=r"n(b_c+b_k)>nb_c",
        source=Source("004", "3.7 DSA", "Gains in speed and memory, with next to no loss."),
        verdict="empirical",
        form="symbolic",
        truth="Speed and quality are measured, not derived. The cache grows: any token may be "
        "selected later, so all latents stay, and an index key is added to each, in "
        "DeepSeek-V3.2 132 bytes to 1152.",
        derivation=_cache,
    ),
    Claim(
        id="sparse_attention.error_eq_weight_left_out",
        number="C162",
        statement="Attention to the selected tokens is as good as attention to all.",
        latex=r"o-o_S=\varepsilon(o_C-o_S),\quad\|o-o_S\|\le\varepsilon\,\mathrm{diam}(V)",
        source=Source("004", "3.7 DSA", "The selected tokens get attention of full quality."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition(
                "D1",
                "the keys left out have no softmax weight, or the same average value as the others",
            ),
        ),
        truth="The output is off by the weight left out, times the difference of both averages.",
        counterexample=_half_left_out,
        derivation=_left_out,
    ),
)
