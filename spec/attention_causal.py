"""Attention's causal mask: who sees whom, and that position t is a function of what came before.

Sources: document 003 (title, 2, 3). A query sees its own key and the earlier ones: what is hidden
lies strictly above the diagonal.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention_masks import hidden, visible
from attnspec.spec.attention_sums import gathering, u, v, w
from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.symbols import c, i, j, z

_queries, _keys, _last, _head = sp.symbols("t s t_1 d_k", integer=True, positive=True)


def _weight(row: sp.Expr, key: sp.Expr, *, strict: bool = True) -> sp.Expr:
    """1 where the mask leaves a key to a row, else 0: above the diagonal it hides; not strictly,
    also on it."""
    hides = sp.Gt(key, row) if strict else sp.Ge(key, row)
    return sp.Piecewise((sp.S.Zero, hides), (sp.S.One, True))


def _seen(values: sp.IndexedBase | None = None) -> sp.Sum:
    """The sum of the exponentials that row i sees, each times a value."""
    return sp.Sum(sp.exp(z[j]) * (values[j] if values else 1), (j, 0, i))


def prefix() -> tuple[Step, ...]:
    """Row i is attention over its prefix, and does not move with what comes later."""
    later = i + 1 + u
    query, keyed = sp.IndexedBase("q", real=True), sp.IndexedBase("k", real=True)
    score = sp.Sum(query[c] * keyed[j, c], (c, 0, _head - 1))
    return (
        *hidden(),
        *gathering(),
        Step("a key at i + 1 + u is hidden from row i", _weight(i, later)),
        Step("one at i - u isn't, nor its own", _weight(w + u, w) - 1),
        Step(
            "so row i has the sums over j <= i, whose slope in a later logit is 0",
            sp.diff(_seen(), z[later]).doit(),
        ),
        Step("with values too", sp.diff(_seen(v), z[later]).doit()),
        Step("and in a later value", sp.diff(_seen(v), v[later]).doit()),
        Step(
            "key l moves score l alone",
            sp.diff(score.subs(j, i), keyed[later, c]).doit(),
        ),
        Step(
            "row 0 returns v_0",
            sp.cancel((_seen(v) / _seen()).subs(i, 0).doit() - v[0]),
        ),
    )


def _masked(slopes: sp.Function, row: sp.Expr, key: sp.Expr) -> sp.Expr:
    """A layer's slope of a row in a token, which is 0 above the diagonal."""
    return slopes(row, key) * _weight(row, key)


def _lower(name: str) -> sp.ImmutableMatrix:
    """Four tokens' slopes in four tokens, 0 above the diagonal."""
    slopes = sp.MatrixSymbol(name, 4, 4)
    return sp.ImmutableMatrix(4, 4, lambda row, key: slopes[row, key] * _weight(row, key))


def autoregressive() -> tuple[Step, ...]:
    """Through any number of causal layers row i does not move with a later token."""
    first, second = (sp.Function(name) for name in ("A", "B"))
    late = i + 1 + w
    through = _lower("A") * _lower("B") * _lower("C")
    return (
        *prefix(),
        Step(
            "two layers: the slope of row i in token k = i + 1 + u is the sum over j of A_ij B_jk. "
            "Where i = j + w, k - j = 1 + u + w > 0: B_jk = 0",
            _masked(second, j, j + w + 1 + u),
        ),
        Step(
            "and where j = i + 1 + w, A_ij = 0. So all terms vanish, and by induction for any "
            "number of layers",
            _masked(first, i, late) * second(late, i + 1 + u),
        ),
        Step(
            "what a token makes of itself stays, as it is on the diagonal",
            _masked(first, i, i) - first(i, i),
        ),
        Step("three layers of four tokens, with any slopes", bool(through.is_lower)),
    )


def _strictly() -> tuple[Step, ...]:
    first_row = sp.Sum(sp.exp(z[j] + -sp.oo), (j, 0, _keys - 1))
    return (
        *prefix(),
        Step("with the diagonal hidden, row i doesn't see key i", _weight(i, i, strict=False)),
        Step(
            "row 0 then sees none: key u is hidden for every u, and the sum of its exponentials "
            "is 0, through which nothing may be divided",
            _weight(sp.S.Zero, u, strict=False),
        ),
        Step("for any number of keys", first_row.doit()),
    )


def _empty_row() -> Counterexample:
    return Counterexample(
        "equal scores 0, the diagonal hidden as well: number of keys that row 0 sees, which must "
        "be one at least",
        stated=_weight(sp.S.Zero, sp.S.Zero),
        actual=_weight(sp.S.Zero, sp.S.Zero, strict=False),
    )


def _suffix() -> tuple[Step, ...]:
    row, cut = sp.symbols("i p", integer=True, nonnegative=True)
    # the last t_1 of t = t_1 + p queries: query i of them is query i + p of all
    whole = (row + cut) + _keys - (_last + cut)
    ahead = row + cut + 1
    alone = {sp.Symbol(side, integer=True): 0 for side in ("left", "right")}
    return (
        Step(
            "query i of the last t_1 = t - p is query i + p of all, at the same position: "
            "(i + p) + s - t = i + s - t_1",
            sp.expand(whole - (row + _keys - _last)),
        ),
        Step(
            "so causality and windows, which ask for positions, hide the same keys",
            sp.Eq(visible(j, whole), visible(j, row + _keys - _last)),
        ),
        Step(
            "the last query sees the last key", sp.expand((_last - 1) + _keys - _last - (_keys - 1))
        ),
        Step(
            "with the first query at the first key, the same query stands at i + p + 1 among all "
            "and at i alone: there a window of one key shows it key i + p + 1",
            visible(ahead, ahead).subs(alone),
        ),
        Step("and here it does not", sp.Not(visible(ahead, row).subs(alone))),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="attention.causal_prefix",
        number="B04",
        statement="M is minus infinity above the diagonal: a row sees its own key and the "
        "earlier ones.",
        latex=r"M_{ij}=-\infty\ (j>i)\Rightarrow o_i=o_i(k_{\le i},v_{\le i}),\ o_0=v_0",
        source=Source("003", "2 Formulations", "M is triangular, minus infinity above."),
        verdict="holds",
        form="symbolic",
        truth="And 0 elsewhere.",
        derivation=prefix,
    ),
    Claim(
        id="attention.causal_of_strict_triangle",
        number="B09",
        statement="The mask is the upper triangle at minus infinity, added to the scaled scores.",
        latex=r"M_{ij}=-\infty\iff j>i",
        source=Source("003", "3 Mechanism", "Applies an upper triangle of minus infinities."),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "the triangle is strict: the diagonal stays"),),
        truth="With the diagonal in it row 0 is all minus infinity, and softmax divides 0 by 0.",
        counterexample=_empty_row,
        derivation=_strictly,
    ),
    Claim(
        id="attention.autoregressive",
        number="B15",
        statement="The causal mask makes a model autoregressive: position t is a function of the "
        "tokens up to t, through any number of layers.",
        latex=r"\partial o^{(L)}_i/\partial x_k=0\quad(k>i)",
        source=Source("003", "title", "Speaks of causal, autoregressive masks."),
        verdict="holds",
        form="symbolic",
        derivation=autoregressive,
    ),
    Claim(
        id="attention.suffix_of_queries",
        number="",
        statement="The last queries alone see the same keys as among all.",
        latex=r"(i+p)+s-t=i+s-t_1,\quad t=t_1+p",
        source=Source("003", "2 Formulations", "M is triangular, for as many queries as keys."),
        verdict="holds",
        form="symbolic",
        truth="Where the last query is aligned with the last key; not where the first is with the "
        "first.",
        derivation=_suffix,
    ),
)
