"""Multi-head attention: heads are blocks of columns, their outputs meet in the output matrix.

Sources: document 003 (3), document 004 (3.1, MHA). What the listing of document 003 computes is in
`multi_head_attention_listing`, blocks and shapes in `multi_head_attention_blocks`, counts and what
heads have in common in `multi_head_attention_heads`.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.attention_definition import HEAD_ORDERS, Options, attention
from attnspec.spec.attention_sums import entry_difference
from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.definition import unmarked
from attnspec.spec.multi_head_attention_definition import (
    MultiHead,
    entries,
    heads,
    multi_head_attention,
)
from attnspec.spec.reading import any_shift
from attnspec.spec.rope import relative
from attnspec.spec.rope_definition import DIRECTIONS, LAYOUTS, frequency
from attnspec.spec.rope_layouts import places
from attnspec.spec.rotation import block
from attnspec.spec.shapes import shapes_fit

beyond = sp.Symbol("u", integer=True, nonnegative=True)
tokens, width, count, size = sp.symbols("n width heads d", integer=True, positive=True)
value_size = sp.Symbol("e", integer=True, positive=True)
column = sp.Symbol("r", integer=True, nonnegative=True)
h, c, o, i, j, l, b, w = sp.symbols("h c o i j l b w", integer=True, nonnegative=True)  # noqa: E741
projections = {name: sp.IndexedBase(f"X{name}", real=True) for name in ("w_q", "w_k", "w_v")}
"""The products X W, by the name of W: batch entry, token, column."""


def _is_projection(node: sp.Basic) -> bool:
    return isinstance(node, sp.Sum) and any(limit[0] == w for limit in node.limits)


def by_projections(expression: sp.Expr) -> sp.Expr:
    """The expression without marks and row maxima, with entries of X W under their own names.

    Raises ValueError where a projection is not one row of x times one column.
    """

    def named(node: sp.Sum) -> sp.Indexed:
        (index, low, high), *rest = node.limits
        x, weight = sorted(node.function.args, key=lambda part: str(part.base) != "x")
        batch, token, inner = x.indices
        if rest or low != 0 or high != width - 1 or not (inner == weight.indices[0] == index):
            raise ValueError(f"not a row times a column: {node}")
        return projections[str(weight.base.label)][batch, token, weight.indices[1]]

    return any_shift(expression).replace(_is_projection, named)


@cache
def output(call: MultiHead) -> sp.Expr:
    """Entry b, i, o of multi-head attention, by entries of X W_q, X W_k, X W_v and W_o."""
    return by_projections(multi_head_attention(call).expression)


def output_matrix() -> sp.IndexedBase:
    """W_o, as the definition reads it."""
    return multi_head_attention(MultiHead()).arrays[-1]


def _projection_steps() -> tuple[Step, ...]:
    """That the projections inside are entries of matrix products."""
    x, weight = sp.MatrixSymbol("X", tokens, width), sp.MatrixSymbol("W", width, column + 1)
    steps = [Step("the shapes of X W fit", shapes_fit(x, weight))]
    whole = unmarked(heads(MultiHead()).expression)
    for node in sorted((node for node in whole.atoms(sp.Sum) if _is_projection(node)), key=str):
        row, entry = sorted(node.function.args, key=lambda part: str(part.base) != "x")
        given = {row: x[row.indices[1], w], entry: weight[w, column]}
        steps.append(
            Step(
                f"an entry that is projected with {entry.base} is that of X W at its token and "
                "column",
                entry_difference(
                    (x * weight)[row.indices[1], column],
                    sp.Sum(node.function.xreplace(given), *node.limits),
                ),
            )
        )
    return tuple(steps)


def blocks_of_heads() -> tuple[Step, ...]:
    """Attention of the heads' projections, times their rows of W_o."""
    names = {"q": ("w_q", size), "k": ("w_k", size), "v": ("w_v", value_size)}
    steps = []
    for causal in (False, True):
        whole = attention(Options(ranges=causal))
        sizes = {str(p): p for p in whole.parameters}
        plain = any_shift(whole.expression)
        given = {sizes["t"]: tokens, sizes["s"]: tokens, sizes["scale"]: 1 / sp.sqrt(size)}
        if causal:
            given |= {sizes["offset"]: sp.S.Zero, sizes["right"]: sp.S.Zero, sizes["left"]: sp.oo}
        for node in plain.atoms(sp.Indexed):
            weight, per_head = names[str(node.base.label)]
            batch, head, token, channel = node.indices
            given[node] = projections[weight][batch, token, head * per_head + channel]
        blocks = sp.Sum(
            plain.xreplace(given) * output_matrix()[h * value_size + c, o],
            (h, 0, count - 1),
            (c, 0, value_size - 1),
        )
        kind = "causal" if causal else "full"
        steps.append(
            Step(
                f"the output is the sum over heads h of {kind} attention of columns h d + l of "
                "X W_q, X W_k and X W_v, times rows h e + c of W_o",
                output(MultiHead(causal)) - blocks,
            )
        )
    return tuple(steps)


def _definition() -> tuple[Step, ...]:
    return (*_projection_steps(), *blocks_of_heads(), *columns(), *same_block())


def columns() -> tuple[Step, ...]:
    """That h d + l runs through the columns, each once."""
    head, channel = sp.floor(column / size), sp.Mod(column, size)
    inside = {count: h + 1 + beyond, size: l + 1 + c}
    return (
        Step(
            "column r is channel r mod d of head floor(r / d): h d + l = r",
            sp.expand(head * size + channel.rewrite(sp.floor) - column),
        ),
        Step(
            "and column h d + l is channel l, as l < d",
            sp.Mod(h * size + l, size).subs(inside) - l,
        ),
        Step(
            "the last, of h < heads and l < d, is below heads d",
            sp.expand((count * size - 1 - h * size - l).subs(inside)).is_nonnegative,
        ),
    )


def same_block() -> tuple[Step, ...]:
    """That a head reads its own columns, and no others."""
    groups = sp.Symbol("groups", integer=True, positive=True)

    def read(name: str, order: str = HEAD_ORDERS[0]) -> set[sp.Expr]:
        entries_read = output(MultiHead(head_order=order)).atoms(sp.Indexed)
        return {node.indices[2] for node in entries_read if node.base == projections[name]}

    return (
        Step("queries of head h are read at columns h d + l alone", read("w_q") == {h * size + l}),
        Step(
            "keys at columns g d + l and values at g e + c alone, g = floor(h groups / heads)",
            read("w_k") == {sp.floor(h * groups / count) * size + l}
            and read("w_v") == {sp.floor(h * groups / count) * value_size + c},
        ),
        Step(
            "or, in tiled order, g = h mod groups",
            read("w_k", "tiled") == {sp.Mod(h, groups) * size + l}
            and read("w_v", "tiled") == {sp.Mod(h, groups) * value_size + c},
        ),
    )


def _turned_positions() -> tuple[Step, ...]:
    base = sp.Symbol("base", positive=True)
    steps: list[Step] = []
    for layout in LAYOUTS:
        first, second, channels = places(layout, c, size)
        for direction, sign in zip(DIRECTIONS, (1, -1), strict=True):
            made = entries(MultiHead(layout=layout, direction=direction))
            for name, token in (("q", i), ("k", j)):
                node = sp.IndexedBase(name)[b, h, token, l]
                entry = by_projections(made(node)).subs(size, channels)
                at = {part: entry.subs(l, part) for part in (first, second)}
                x = projections[f"w_{name}"]
                pair = sp.Matrix([x[b, token, h * channels + part] for part in (first, second)])
                angle = sign * token * frequency(c, channels, base)
                steps.append(
                    Step(
                        f"{layout}, {direction}: pair c of {name} at token {token} is that of "
                        f"X W_{name}, turned by {token} base^(-2c/d)",
                        (sp.Matrix([at[first], at[second]]) - block(angle) * pair).applyfunc(
                            sp.expand
                        ),
                    )
                )
    return (
        *steps,
        *relative(),
        Step(
            "values don't turn: they are read as without RoPE",
            by_projections(entries(MultiHead(layout="half"))(sp.IndexedBase("v")[b, h, j, c]))
            - projections["w_v"][b, j, h * value_size + c],
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="multi_head_attention.definition",
        number="",
        statement="The expression that the suite evaluates, without its marks, is the sum over "
        "heads of attention of the head's columns of X W, times the head's rows of W_o.",
        latex=r"Y=\sum_h\mathrm{Attn}\bigl(XW_Q^{(h)},XW_K^{(h)},XW_V^{(h)}\bigr)W_O^{(h)}",
        source=Source("004", "3.1 MHA", "Heads with projections of their own, and one W_O."),
        verdict="holds",
        form="symbolic",
        truth="Of key and value heads there may be fewer: query head h reads key head "
        "floor(h groups / heads), or h mod groups.",
        derivation=_definition,
    ),
    Claim(
        id="multi_head_attention.rope_at_own_positions",
        number="",
        statement="With RoPE the queries and keys of every head turn by their token's position, 0 "
        "to n - 1; values don't.",
        latex=r"q_i=R_i\,(XW_Q^{(h)})_i,\quad k_j=R_j\,(XW_K^{(h)})_j",
        source=Source("003", "3 Mechanism", "Turns query and key vectors of the heads."),
        verdict="holds",
        form="symbolic",
        derivation=_turned_positions,
    ),
)
