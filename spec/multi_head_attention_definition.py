"""Multi-head attention as an expression: projections, heads, attention, and the output matrix.

Sources: document 003 (3, 4), document 004 (3.1, MHA, MQA and GQA). The steps between are the
definitions of RoPE and of attention, read at projected entries: no formula stands here twice.

Rows are tokens: q = x W_q. Heads are the outer factor of the packed axis, so that channel l of head
h is column h d + l. Queries and keys turn by the positions 0 to n - 1, where RoPE is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import sympy as sp

from attnspec.spec.attention_definition import HEAD_ORDERS, Options, attention
from attnspec.spec.definition import Definition, choice, rnd
from attnspec.spec.rope_definition import DIRECTIONS, LAYOUTS, rope
from attnspec.spec.substitution import substituted

_w, _o = sp.symbols("w o", integer=True, nonnegative=True)
_n, _width = sp.symbols("n width", integer=True, positive=True)
_batch, _heads, _groups, _d, _e = sp.symbols("batch heads groups d e", integer=True, positive=True)
_base = sp.Symbol("base", positive=True)
_x = sp.IndexedBase("x", shape=(_batch, _n, _width), real=True)
_w_q = sp.IndexedBase("w_q", shape=(_width, _heads * _d), real=True)
_w_k = sp.IndexedBase("w_k", shape=(_width, _groups * _d), real=True)
_w_v = sp.IndexedBase("w_v", shape=(_width, _groups * _e), real=True)
_w_o = sp.IndexedBase("w_o", shape=(_heads * _e, _width), real=True)


@dataclass(frozen=True)
class MultiHead:
    """What a call of multi-head attention has, beside its sizes."""

    causal: bool = False
    layout: str | None = None
    """Which channels RoPE pairs; None without RoPE."""
    direction: str = "forward"
    head_order: str = "grouped"
    scaling: str = "any"


def without_piecewise(expression: sp.Expr) -> sp.Expr:
    """Every Piecewise of two branches as a `choice`, which sympy leaves inside of sums."""

    def chosen(node: sp.Piecewise) -> sp.Expr:
        (value, condition), (otherwise, always) = node.args
        if always is not sp.true:
            raise ValueError(f"not two branches, the last for the rest: {node}")
        return choice(value, condition, otherwise)

    return expression.replace(lambda node: isinstance(node, sp.Piecewise), chosen)


def inside(expression: sp.Expr) -> sp.Expr:
    """The result of a component as a value inside of another: an activation, no output."""
    value = expression.args[0]
    if isinstance(value, rnd) and str(value.args[1]) == "activations":
        return value
    return rnd(value, "activations")


def projected(weight: sp.IndexedBase, batch: sp.Expr, token: sp.Expr, column: sp.Expr) -> sp.Expr:
    """Entry `column` of x W at a token."""
    product = _x[batch, token, _w] * weight[_w, column]
    return rnd(sp.Sum(product, (_w, 0, _width - 1)), "activations")


def turned(
    entry: Callable[[sp.Expr], sp.Expr], token: sp.Expr, channel: sp.Expr, call: MultiHead
) -> sp.Expr:
    """A channel of the vector with these entries, turned by RoPE by its token's position."""
    if call.layout is None:
        return entry(channel)
    whole = rope(call.layout, call.direction)
    x, positions = whole.arrays
    *_, position, own = (axis for axis, _ in whole.axes)
    turning = whole.parameters[-2]
    first, _ = whole.expression.xreplace({turning: _d, own: channel, position: token}).args
    given = {
        node: entry(node.indices[-1]) if node.base == x else token
        for node in first[0].atoms(sp.Indexed)
        if node.base in (x, positions)
    }
    return without_piecewise(inside(first[0].xreplace(given)))


def entries(call: MultiHead) -> Callable[[sp.Indexed], sp.Expr]:
    """What stands for an entry q[b, h, i, l], k[b, g, j, l] or v[b, g, j, c] of attention."""
    weights = {"q": (_w_q, _d), "k": (_w_k, _d), "v": (_w_v, _e)}

    def made(node: sp.Indexed) -> sp.Expr:
        weight, size = weights[str(node.base.label)]
        batch, head, token, channel = node.indices

        def entry(at: sp.Expr) -> sp.Expr:
            return projected(weight, batch, token, head * size + at)

        return entry(channel) if weight is _w_v else turned(entry, token, channel, call)

    return made


@cache
def heads(call: MultiHead) -> Definition:
    """x[b, i, w] and the projections -> o[b, h, i, c]: what the heads give, side by side."""
    options = Options(ranges=call.causal, head_order=call.head_order, scaling=call.scaling)
    whole = attention(options)
    names = {str(symbol): symbol for symbol in whole.parameters}
    made = entries(call)
    given: dict[sp.Basic, sp.Basic] = {
        names["t"]: _n, names["s"]: _n, names["scale"]: 1 / sp.sqrt(_d)
    }  # fmt: skip
    if call.causal:
        given |= {names["offset"]: sp.S.Zero, names["left"]: sp.oo, names["right"]: sp.S.Zero}
    given |= {node: made(node) for node in whole.expression.atoms(sp.Indexed)}
    return Definition(
        "multi_head_attention.heads",
        substituted(inside(whole.expression), given),
        tuple((axis, size.xreplace(given)) for axis, size in whole.axes),
        (_x, _w_q, _w_k, _w_v),
        _parameters(call),
    )


def _parameters(call: MultiHead) -> tuple[sp.Symbol, ...]:
    found = (_batch, _heads, _groups, _n, _width, _d, _e)
    return found if call.layout is None else (*found, _base)


def _variant(call: MultiHead) -> str:
    seen = "causal" if call.causal else "every token seen"
    return f"{seen}, {'no positions' if call.layout is None else f'RoPE {call.layout}'}"


@cache
def multi_head_attention(call: MultiHead) -> Definition:
    """x[b, i, w], w_q, w_k, w_v, w_o -> y[b, i, o]: the heads' outputs, packed, times w_o."""
    whole = heads(call)
    (b, _), (h, _), (i, _), (c, _) = whole.axes
    total = sp.Sum(whole.expression * _w_o[h * _e + c, _o], (h, 0, _heads - 1), (c, 0, _e - 1))
    return Definition(
        "multi_head_attention",
        rnd(total, "output"),
        ((b, _batch), (i, _n), (_o, _width)),
        (*whole.arrays, _w_o),
        whole.parameters,
        _variant(call),
    )


def projection_parameters() -> Definition:
    """How many weights the four projections have, of which none has a bias."""
    return Definition(
        "multi_head_attention.parameters",
        sum((sp.Mul(*weight.shape) for weight in (_w_q, _w_k, _w_v, _w_o)), sp.S.Zero),
        (),
        (),
        (_heads, _groups, _width, _d, _e),
    )


CALLS = tuple(
    MultiHead(causal, layout, direction, order)
    for causal in (False, True)
    for layout, direction in (
        (None, "forward"), *((layout, way) for layout in LAYOUTS for way in DIRECTIONS)
    )
    for order in HEAD_ORDERS
)  # fmt: skip
"""Every convention."""


@cache
def definitions() -> tuple[Definition, ...]:
    """Those that are worth reading: the others differ from them as attention and RoPE do."""
    return (
        multi_head_attention(MultiHead()),
        multi_head_attention(MultiHead(causal=True, layout="interleaved")),
        projection_parameters(),
    )
