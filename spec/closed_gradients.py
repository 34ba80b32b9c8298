"""The gradients of softmax, attention and RoPE as closed formulas, each written once.

Source: our own derivation; the claims in `softmax_gradients`, `attention_gradients` and
`rope_gradients` say that each is the derivative of sum(upstream * result). Beside the adjoint of a
tape, which is what automatic differentiation computes, they are the second way to every gradient.

Arrays: those of the call, `upstream` with the shape of the result, and for attention always `bias`
(0 without one) and `m[b, h, i, j]`, 1 where query i sees key j and 0 elsewhere. A row of softmax is
shifted by its largest score, hidden ones included. Rows that see no key are not defined here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition, Maximum, either
from attnspec.spec.rope_definition import DIRECTIONS, LAYOUTS, rope, rope_apply

_a, _b, _h, _i, _j, _l, _c, _g, _t, _m, _p, _w = sp.symbols(
    "a b h i j l c g t m p w", integer=True, nonnegative=True
)
_rows, _n, _batch, _groups, _members, _queries, _keys, _d, _e, _heads, _length, _tables = (
    sp.symbols(
        "rows n batch groups members queries keys d e heads length tables",
        integer=True,
        positive=True,
    )
)
_scale, _cap = sp.symbols("scale cap", positive=True)
_x, _q, _k, _v, _bias, _seen, _upstream = (
    sp.IndexedBase(name, real=True) for name in ("x", "q", "k", "v", "bias", "m", "upstream")
)


def softmax() -> Definition:
    """x[a, j] -> p_j (u_j - sum of p u): softmax, a row at a time."""
    logits = (_j, 0, _n - 1)
    numerator = sp.exp(_x[_a, _j] - Maximum(_x[_a, _j], logits))
    weight = numerator / sp.Sum(numerator, logits)
    upstream = _upstream[_a, _j]
    return Definition(
        "softmax.x",
        weight * (upstream - sp.Sum(weight * upstream, logits)),
        ((_a, _rows), (_j, _n)),
        (_x, _upstream),
        (_rows, _n),
    )


@dataclass(frozen=True)
class Head:
    """Query head `query` of attention, which reads key head `key`. Everything is an expression in
    b, the query i, the key j, the channel l of q and k and the channel c of v."""

    query: sp.Expr
    key: sp.Expr
    softcap: bool = False

    @property
    def product(self) -> sp.Expr:
        """The scaled product of query i and key j."""
        terms = _q[_b, self.query, _i, _l] * _k[_b, self.key, _j, _l]
        return _scale * sp.Sum(terms, (_l, 0, _d - 1))

    @property
    def slope(self) -> sp.Expr:
        """The derivative of the capped product with respect to the product."""
        return 1 - sp.tanh(self.product / _cap) ** 2 if self.softcap else sp.S.One

    @property
    def score(self) -> sp.Expr:
        """S_ij: what softmax is taken of."""
        product = _cap * sp.tanh(self.product / _cap) if self.softcap else self.product
        return product + _bias[_b, self.query, _i, _j]

    @property
    def largest(self) -> sp.Expr:
        """The largest score of a row."""
        return Maximum(self.score, (_j, 0, _keys - 1))

    @property
    def numerator(self) -> sp.Expr:
        """The exponential of a shifted score, where the key is seen."""
        return _seen[_b, self.query, _i, _j] * sp.exp(self.score - self.largest)

    @property
    def total(self) -> sp.Expr:
        return sp.Sum(self.numerator, (_j, 0, _keys - 1))

    @property
    def weight(self) -> sp.Expr:
        """P_ij: softmax over the keys that are seen."""
        return self.numerator / self.total

    @property
    def log_sum_exp(self) -> sp.Expr:
        """The logarithm of the sum of the exponentials of a row."""
        return self.largest + sp.log(self.total)

    @property
    def upstream(self) -> sp.Expr:
        return _upstream[_b, self.query, _i, _c]

    @property
    def value(self) -> sp.Expr:
        return _v[_b, self.key, _j, _c]

    @property
    def output(self) -> sp.Expr:
        """O_ic: the values, weighted."""
        return sp.Sum(self.weight * self.value, (_j, 0, _keys - 1))

    @property
    def loss(self) -> sp.Expr:
        """What the head adds to sum(upstream * O), for one batch entry."""
        return sp.Sum(self.upstream * self.output, (_c, 0, _e - 1), (_i, 0, _queries - 1))

    @property
    def of_weight(self) -> sp.Expr:
        """dP_ij, the gradient of a weight."""
        return sp.Sum(self.upstream * self.value, (_c, 0, _e - 1))

    @property
    def deltas(self) -> tuple[sp.Expr, sp.Expr]:
        """delta_i in its two forms: from weights and their gradients, and from the output."""
        from_weights = sp.Sum(self.weight * self.of_weight, (_j, 0, _keys - 1))
        return from_weights, sp.Sum(self.upstream * self.output, (_c, 0, _e - 1))

    @property
    def of_score(self) -> sp.Expr:
        """dS_ij = P_ij (dP_ij - delta_i), the gradient of a score and thus of the bias."""
        return self.weight * (self.of_weight - either(*self.deltas))

    @property
    def of_query(self) -> sp.Expr:
        """dq_il = scale * sum over keys of dS_ij k_jl."""
        terms = self.of_score * self.slope * _k[_b, self.key, _j, _l]
        return _scale * sp.Sum(terms, (_j, 0, _keys - 1))

    @property
    def of_key(self) -> sp.Expr:
        """What the head adds to dk_jl: scale * sum over queries of dS_ij q_il."""
        terms = self.of_score * self.slope * _q[_b, self.query, _i, _l]
        return _scale * sp.Sum(terms, (_i, 0, _queries - 1))

    @property
    def of_value(self) -> sp.Expr:
        """What the head adds to dv_jc: the sum over queries of P_ij times upstream."""
        return sp.Sum(self.weight * self.upstream, (_i, 0, _queries - 1))


def by_heads(order: str = "grouped", *, softcap: bool = False) -> Head:
    """Head h, and the key head that it reads: h / members, or h modulo groups."""
    key = sp.floor(_h / _members) if order == "grouped" else sp.Mod(_h, _groups)
    return Head(_h, key, softcap)


def by_groups(order: str = "grouped", *, softcap: bool = False) -> Head:
    """The same heads counted as t-th member of key head g."""
    query = _g * _members + _t if order == "grouped" else _t * _groups + _g
    return Head(query, _g, softcap)


def over_heads(summand: sp.Expr) -> sp.Expr:
    """A sum over heads and batch entries."""
    return sp.Sum(summand, (_h, 0, _groups * _members - 1), (_b, 0, _batch - 1))


def over_groups(summand: sp.Expr) -> sp.Expr:
    """The same sum, heads counted by groups."""
    return sp.Sum(summand, (_t, 0, _members - 1), (_g, 0, _groups - 1), (_b, 0, _batch - 1))


def attention(of: str, order: str = "grouped", *, softcap: bool = False) -> Definition:
    """The gradient of q, k, v or bias. Key heads sum over their `members` query heads."""
    single, member = by_heads(order, softcap=softcap), by_groups(order, softcap=softcap)
    by_query = ((_b, _batch), (_h, _groups * _members), (_i, _queries))
    by_key = ((_b, _batch), (_g, _groups), (_j, _keys))
    group = (_t, 0, _members - 1)
    expression, axes = {
        "q": lambda: (single.of_query, (*by_query, (_l, _d))),
        "k": lambda: (sp.Sum(member.of_key, group), (*by_key, (_l, _d))),
        "v": lambda: (sp.Sum(member.of_value, group), (*by_key, (_c, _e))),
        "bias": lambda: (single.of_score, (*by_query, (_j, _keys))),
    }[of]()
    sizes = (_batch, _groups, _members, _queries, _keys, _d, _e, _scale)
    return Definition(
        f"attention.{'softcap.' if softcap else ''}{of}",
        expression,
        axes,
        (_q, _k, _v, _bias, _seen, _upstream),
        (*sizes, *((_cap,) if softcap else ())),
    )


def _turned_back(definition: Definition, opposite: Definition) -> Definition:
    """The gradient of x: upstream, turned in the opposite direction."""
    x, *rest = opposite.arrays
    return Definition(
        f"{definition.name}.x",
        opposite.expression.xreplace({x: _upstream}),
        opposite.axes,
        (_upstream, *rest),
        opposite.parameters,
    )


def channel(layout: str, i: sp.Expr, p: sp.Expr, d: sp.Expr) -> sp.Expr:
    """The first (p = 0) or second (p = 1) channel of pair i."""
    return 2 * i + p if layout == "interleaved" else i + p * sp.floor(d / 2)


def table(of: str, layout: str, direction: str) -> Definition:
    """The gradient of rope_apply's cos or sin: sums of u_0 x_0 + u_1 x_1, and of u_1 x_0 - u_0 x_1,
    over the heads and over the batch entries w tables + a, which share table a."""
    sign = -1 if direction == "backward" else 1
    mine, other = (channel(layout, _i, p, _d) for p in (_p, 1 - _p))
    row = (_w * _tables + _a, _h, _m)
    terms = {
        "cos": _upstream[(*row, mine)] * _x[(*row, mine)],
        "sin": sign * (1 - 2 * _p) * _upstream[(*row, other)] * _x[(*row, mine)],
    }
    limits = (_p, 0, 1), (_h, 0, _heads - 1), (_w, 0, sp.floor(_batch / _tables) - 1)
    return Definition(
        f"rope_apply.{layout}.{direction}.{of}",
        sp.Sum(terms[of], *limits),
        ((_a, _tables), (_m, _length), (_i, sp.floor(_d / 2))),
        (_x, _upstream),
        (_batch, _heads, _length, _d, _tables),
    )


@cache
def gradients() -> Mapping[str, Definition]:
    """By component, option and input: softmax.x, attention.q, attention.softcap.q,
    rope.half.forward.x, rope_apply.half.forward.cos, and so on."""
    found = [softmax()]
    found += [
        attention(of, softcap=softcap)
        for softcap in (False, True)
        for of in ("q", "k", "v", "bias")
    ]
    for layout in LAYOUTS:
        for direction, opposite in zip(DIRECTIONS, reversed(DIRECTIONS), strict=True):
            for make in (rope, rope_apply):
                found.append(_turned_back(make(layout, direction), make(layout, opposite)))
            found += [table(of, layout, direction) for of in ("cos", "sin")]
    return {definition.name: definition for definition in found}
