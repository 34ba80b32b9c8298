"""Multi-head attention in blocks: heads are columns of projections and rows of the output matrix.

Sources: document 003 (3), document 004 (3.1, MHA).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention_sums import entry_difference
from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.multi_head_attention import (
    b,
    beyond,
    blocks_of_heads,
    c,
    column,
    columns,
    count,
    h,
    l,
    output,
    output_matrix,
    same_block,
    size,
    tokens,
    value_size,
    width,
)
from attnspec.spec.multi_head_attention_definition import MultiHead
from attnspec.spec.shapes import shapes_fit

_summand = sp.Function("f")


def views() -> tuple[Step, ...]:
    """What reading one memory in another shape does: row-major places of entries."""
    t, length = sp.Symbol("t", integer=True, nonnegative=True), tokens
    place = (b * length + t) * (count * size) + h * size + l
    split = ((b * length + t) * count + h) * size + l
    direct = ((b * count + h) * length + t) * size + l
    return (
        *columns(),
        Step(
            "entry (b, t, h, l) of the (B, T, h, d) view lies where (b, t, h d + l) does",
            sp.expand(split - place),
        ),
        Step(
            "entry (b, h, t, l) of a (B, h, T, d) view lies d (h (T - 1) - t (heads - 1)) further",
            sp.expand(direct - place - size * (h * (length - 1) - t * (count - 1))),
        ),
        Step(
            "so that a second head would begin with another token, for T > 1: at t = 0, h = 1",
            sp.expand((direct - place).subs({t: 0, h: 1, length: beyond + 2})).is_positive,
        ),
        *same_block(),
        Step(
            "heads of floor(D / h) channels leave D mod h of a token's entries out",
            sp.expand(
                width - count * sp.floor(width / count) - sp.Mod(width, count).rewrite(sp.floor)
            ),
        ),
    )


def _undivided() -> Counterexample:
    whole, parts = sp.Integer(6), sp.Integer(4)
    return Counterexample(
        "D = 6, h = 4: how many of a token's entries the heads hold, stated to be all",
        stated=whole,
        actual=parts * sp.floor(whole / parts),
    )


def concatenation() -> tuple[Step, ...]:
    """That packing the heads and multiplying is summing products of blocks, by induction."""
    packed = (column, 0, count * value_size - 1)
    of_head = sp.Sum(_summand(h * value_size + c), (c, 0, value_size - 1))
    whole = sp.Sum(_summand(column), packed)
    more = whole.subs(count, count + 1)
    added = sp.Sum(
        _summand(column), (column, count * value_size, count * value_size + value_size - 1)
    )
    before, widths = sp.symbols("p e", integer=True, positive=True)
    first, second = (
        sp.MatrixSymbol(name, tokens, cols) for name, cols in (("C", before), ("H", widths))
    )
    above, below = (
        sp.MatrixSymbol(name, rows, width) for name, rows in (("U", before), ("W", widths))
    )
    packed_rows = sp.BlockMatrix([[first, second]])
    stacked = sp.BlockMatrix([[above], [below]])
    return (
        Step("the shapes fit", shapes_fit(packed_rows, stacked) and shapes_fit(second, below)),
        Step(
            "in blocks: [C H] times U over W is C U + H W",
            (sp.block_collapse(packed_rows * stacked) - first * above - second * below).doit(),
        ),
        Step(
            "entry by entry: one head's sum over packed columns is its block",
            entry_difference(whole.subs(count, 1), of_head.subs(h, 0)),
        ),
        Step(
            "with one head more the sum over the packed axis has e terms more",
            sp.simplify(whole + added) - more.expand(),
        ),
        Step(
            "which are the block of that head, h e + c: so the sum is one of blocks",
            entry_difference(
                added.change_index(column, column - count * value_size, c), of_head.subs(h, count)
            ),
        ),
        Step(
            "the definition sums o[h, c] W_o[h e + c] over c and h",
            _rows_of_output(),
        ),
    )


def _rows_of_output() -> sp.Expr:
    """Where the definition reads W_o, less h e + c."""
    (read,) = (
        node for node in output(MultiHead()).atoms(sp.Indexed) if node.base == output_matrix()
    )
    return read.indices[0] - (h * value_size + c)


def _shapes() -> tuple[Step, ...]:
    x = sp.MatrixSymbol("X", tokens, width)
    once, again = (sp.MatrixSymbol(name, width, size) for name in ("W_Q", "W_Q^i"))
    query = x * once
    square = {size: width}
    return (
        Step("with Q = X, of n rows and d columns, Q W fits", shapes_fit(x, again)),
        Step(
            "with Q = X W_Q, of n rows and d_k columns, it doesn't",
            not shapes_fit(query, again),
        ),
        Step("it lacks d - d_k columns", sp.expand(again.rows - query.cols - (width - size))),
        Step(
            "and fits where d_k = d",
            shapes_fit(query.subs(square), again.subs(square)),
        ),
        *blocks_of_heads(),
    )


def _projected_twice() -> Counterexample:
    sizes = {width: 512, size: 64}
    x, weight = sp.MatrixSymbol("X", tokens, width), sp.MatrixSymbol("W", width, size)
    return Counterexample(
        "d = 512, d_k = 64, Q = X W_Q: columns of Q, stated to be as many as W_Q of a head has "
        "rows",
        stated=weight.rows.subs(sizes),
        actual=(x * weight).cols.subs(sizes),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="multi_head_attention.heads_are_columns",
        number="B07",
        statement="X W, of D columns, is reshaped into h heads: head a is columns a d_k to "
        "(a + 1) d_k - 1.",
        latex=r"q^{(a)}=XW_{[:,\,ad_k:(a+1)d_k]},\quad d_k=D/h",
        source=Source("003", "3 Mechanism", "Projects X and reshapes Q, K and V into h heads."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "h divides D"),
            Condition(
                "D2",
                "each token's entries are split, (B, T, h, d_k), and heads and tokens swapped "
                "afterwards; a view of the shape (B, h, T, d_k) mixes tokens",
            ),
        ),
        counterexample=_undivided,
        derivation=views,
    ),
    Claim(
        id="multi_head_attention.concat_eq_sum_of_blocks",
        number="B10",
        statement="Concatenated heads times the output matrix are the sum over heads of each times "
        "its own rows of that matrix.",
        latex=r"\mathrm{Concat}(H_1,\dots,H_h)W_O=\sum_aH_aW_O^{(a)}",
        source=Source("003", "3 Mechanism", "Projects the concatenated heads back to D."),
        verdict="holds",
        form="symbolic",
        derivation=concatenation,
    ),
    Claim(
        id="multi_head_attention.head_of_embeddings",
        number="C023",
        statement="Head i is attention of Q W_Q, K W_K and V W_V, with matrices of d rows.",
        latex=r"\mathrm{head}_i=\mathrm{Attn}(XW_Q^{(i)},XW_K^{(i)},XW_V^{(i)})",
        source=Source("004", "3.1 MHA", "Defines a head by projections of Q, K and V."),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "Q, K and V stand for the embeddings X here, of d columns"),),
        truth="The Q = X W_Q that the document defines before has d_k columns: it doesn't fit.",
        counterexample=_projected_twice,
        derivation=_shapes,
    ),
    Claim(
        id="multi_head_attention.concat_then_output",
        number="C024",
        statement="MHA is the concatenated heads times W_O, of h d_v rows and d columns.",
        latex=r"\mathrm{MHA}=\mathrm{Concat}(\mathrm{head}_1,\dots,\mathrm{head}_h)W_O",
        source=Source("004", "3.1 MHA", "Glues the heads together and mixes them by W_O."),
        verdict="holds",
        form="symbolic",
        same_as="multi_head_attention.concat_eq_sum_of_blocks",
    ),
)
