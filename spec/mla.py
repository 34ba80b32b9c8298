"""Multi-head latent attention: projections, and products in the latent's space.

Sources: document 000 (2), document 004 (3.1 on latents). What is cached and multiplied is in
`mla_sizes` and `mla_costs`, what a latent can hold in `mla_rank`, positions in `mla_streams`.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec import mla_definition
from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.definition import rnd
from attnspec.spec.mla_formula import PLAIN, content, projections, tokens, two_streams
from attnspec.spec.mla_orders import absorbed_content
from attnspec.spec.mla_rank import rank_at_most
from attnspec.spec.mla_sizes import V2, c, d, e, h, numbers, r
from attnspec.spec.normal import normal
from attnspec.spec.reading import named
from attnspec.spec.shapes import shapes_fit

_n, _m, _t = sp.symbols("n m t", integer=True, positive=True)
_queries, _latents = sp.MatrixSymbol("Q", _t, r), sp.MatrixSymbol("C", _n, c)
"""Query latents and latents, a row a token."""
_up_q, _up_k = sp.MatrixSymbol("W_UQ", r, d), sp.MatrixSymbol("W_UK", c, d)
_up_v, _out = sp.MatrixSymbol("W_UV", c, e), sp.MatrixSymbol("W_O", e, _m)
"""Of one head."""


def _shape(made: sp.MatrixExpr, rows: sp.Expr, columns: sp.Expr) -> sp.Matrix:
    return sp.ImmutableMatrix([sp.expand(made.rows - rows), sp.expand(made.cols - columns)])


def _in_columns() -> tuple[Step, ...]:
    token, down = sp.MatrixSymbol("x", _m, 1), sp.MatrixSymbol("W_DKV", c, _m)
    keys, values = sp.MatrixSymbol("W_UK", h * d, c), sp.MatrixSymbol("W_UV", h * e, c)
    return (
        Step("the shapes of W_UK W_DKV x fit", shapes_fit(keys, down, token)),
        Step("and those of W_UV W_DKV x", shapes_fit(values, down, token)),
        Step("the latent has d_c entries", _shape(down * token, c, sp.S.One)),
        Step("the keys n_h d_h", _shape(keys * down * token, h * d, sp.S.One)),
        Step(
            "its transpose is the row x^T W_DKV^T of the other documents",
            ((down * token).T - token.T * down.T).doit(),
        ),
        Step(
            "in DeepSeek-V2 d_c is 512 and n_h d_h 32 times as large",
            (numbers(h, d) / numbers(c)).subs(V2) - 32,
        ),
        *rank_at_most(c, "keys and values together"),
    )


def _in_rows() -> tuple[Step, ...]:
    token, down = sp.MatrixSymbol("x", 1, _m), sp.MatrixSymbol("W_DKV", _m, c)
    return (
        Step("the shapes of x W fit", shapes_fit(token, down)),
        Step("the latent is a row of d_c", _shape(token * down, sp.S.One, c)),
        Step("which is (W^T x^T)^T", (token * down - (down.T * token.T).T).doit()),
        projections()[1],
    )


def _heads() -> tuple[Step, ...]:
    keys = sp.BlockMatrix([[_up_k, sp.MatrixSymbol("W_2", c, d)]])
    return (
        Step("the shapes of C W_UK fit", shapes_fit(_latents, _up_k)),
        Step("keys have a row of d_k a token", _shape(_latents * _up_k, _n, d)),
        Step("values one of d_v", _shape(_latents * _up_v, _n, e)),
        Step(
            "up-projections side by side give the heads side by side",
            sp.block_collapse(_latents * keys)
            - sp.BlockMatrix([[_latents * block for block in keys.blocks]]),
        ),
        *projections()[3:5],
    )


def _absorption() -> tuple[Step, ...]:
    built = ((_queries * _up_q) * (_latents * _up_k).T).doit()
    product = _up_q * _up_k.T
    return (
        Step(
            "the shapes of C_Q W_UQ W_UK^T C^T fit",
            shapes_fit(_queries, _up_q, _up_k.T, _latents.T),
        ),
        Step(
            "(C W_UK)^T is W_UK^T C^T",
            ((_latents * _up_k).T - _up_k.T * _latents.T).doit(),
        ),
        Step(
            "and by associativity (C_Q W_UQ)(C W_UK)^T = C_Q A C^T with A = W_UQ W_UK^T",
            (built - _queries * product * _latents.T).doit(),
        ),
        Step("A has a row for each query latent and a column for each latent",
             _shape(product, r, c)),
        Step(
            "entry by entry, on the expression that the suite evaluates",
            normal(content() - absorbed_content(1), {}),
        ),
        *rank_at_most(d, "A"),
    )  # fmt: skip


def _row_latents() -> tuple[Step, ...]:
    query, latent = sp.MatrixSymbol("q", 1, r), sp.MatrixSymbol("c", 1, c)
    product = sp.MatrixSymbol("A", r, c)
    return (
        Step("q A c doesn't fit, as c is a row", not shapes_fit(query, product, latent)),
        Step("q A c^T does", shapes_fit(query, product, latent.T)),
        Step("and is one number", _shape(query * product * latent.T, sp.S.One, sp.S.One)),
        Step(
            "the query latent has no head, on the expression that the suite evaluates",
            "h" not in named(tokens().query_latent) and "i" in named(tokens().query_latent),
        ),
        *_absorption()[:3],
    )


def _a_row() -> Counterexample:
    latent, product = sp.ImmutableMatrix([[1, 2]]), sp.ImmutableMatrix([[1, 0], [0, 1]])
    return Counterexample(
        "c = r = 2 and a row (1, 2) for the latent: rows of the last factor of q A c, stated to be "
        "as many as A has columns",
        stated=sp.Integer(product.cols),
        actual=sp.Integer(latent.rows),
    )


def _scored() -> tuple[Step, ...]:
    made, wanted = two_streams()
    at = named(made)
    k = sp.symbols("k", integer=True, nonnegative=True)
    unit = dict.fromkeys(made.atoms(sp.Indexed), sp.S.One)
    products = sp.Sum(sp.S.One, (k, 0, at["d"] + at["rotary"] - 1)).doit()
    return (
        *projections()[2:4],
        Step(
            "the scores that softmax is taken of are these products and those of the position "
            "stream, over sqrt(d + p)",
            normal(sp.expand(made - wanted), {}),
        ),
        Step(
            "which for vectors of ones is the sum of d + p ones over its root",
            sp.simplify(made.xreplace(unit).doit() - products / sp.sqrt(products)),
        ),
    )


def _unscaled() -> Counterexample:
    ones = numbers(d).subs(d, 4)
    return Counterexample(
        "one head of 4 channels without a position stream, q = k = (1, 1, 1, 1): the score, stated "
        "as the product itself",
        stated=ones,
        actual=ones / sp.sqrt(ones),
    )


def _values() -> tuple[Step, ...]:
    weights = sp.MatrixSymbol("P", _t, _n)
    built = (weights * (_latents * _up_v)) * _out
    kept = (weights * _latents) * (_up_v * _out)
    other_v, other_o = sp.MatrixSymbol("W_UV2", c, e), sp.MatrixSymbol("W_O2", e, _m)
    heads = sp.BlockMatrix([[_up_v, other_v]])
    rows = sp.BlockMatrix([[_out], [other_o]])
    return (
        Step("the shapes of P C W_UV W_O fit", shapes_fit(weights, _latents, _up_v, _out)),
        Step("(P (C W_UV)) W_O = (P C) (W_UV W_O)", (built - kept).doit()),
        Step(
            "heads side by side times the rows of W_O add up head by head",
            sp.block_collapse(heads * rows) - (_up_v * _out + other_v * other_o),
        ),
        Step(
            "on the expression that the suite evaluates, nothing that is stored in the absorbed "
            "order is a channel of some token's key or value",
            sp.Integer(_built_channels(absorbed=True)),
        ),
        Step(
            "in the other order keys and values are",
            sp.Integer(_built_channels(absorbed=False)) - 2,
        ),
    )


def _built_channels(*, absorbed: bool) -> int:
    """How many stored numbers are of a token j and of a channel l or c of a head."""
    made = mla_definition.mla_absorbed if absorbed else mla_definition.mla
    known: dict[sp.Basic, frozenset[str]] = {}

    def free(node: sp.Basic) -> frozenset[str]:
        """The names of a node's free symbols, found once for equal nodes."""
        if node not in known:
            bound = {limit[0].name for limit in getattr(node, "limits", ())}
            within = frozenset().union(*map(free, node.args))
            known[node] = frozenset({node.name}) if node.is_Symbol else within - bound
        return known[node]

    free(made(PLAIN).expression)
    channels = {"l", "c"}
    return sum(
        isinstance(node, rnd) and "j" in names and bool(names & channels)
        for node, names in known.items()
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="mla.keys_from_one_latent",
        number="A10",
        statement="A latent of d_c entries is projected from the token, keys and values from it.",
        latex=r"c_t=W_{DKV}x_t\in\mathbb R^{d_c},\ k_t=W_{UK}c_t,\ v_t=W_{UV}c_t",
        source=Source("000", "2 Formulations", "Projects down to d_c, and up to keys and values."),
        verdict="holds",
        form="symbolic",
        truth="So the rank of all keys and values together is at most d_c.",
        derivation=_in_columns,
    ),
    Claim(
        id="mla.latent_is_projection",
        number="C045",
        statement="The latent is x W with W of d x d_c.",
        latex=r"c_{KV}=xW_\downarrow^{KV}\in\mathbb R^{1\times d_c}",
        source=Source("004", "3.1 MLA", "The latent is the token times a down-projection."),
        verdict="holds",
        form="symbolic",
        truth="Tokens are rows here, and columns in document 000.",
        derivation=_in_rows,
    ),
    Claim(
        id="mla.heads_from_latent",
        number="C047",
        statement="Each head's key and value is the latent times an up-projection of its own.",
        latex=r"K^{(i)}=c_{KV}W_\uparrow^{K,(i)},\quad V^{(i)}=c_{KV}W_\uparrow^{V,(i)}",
        source=Source("004", "3.1 MLA", "A head rebuilds its key and value from the latent."),
        verdict="holds",
        form="symbolic",
        derivation=_heads,
    ),
    Claim(
        id="mla.score_of_projections",
        number="C051",
        statement="A head's score is the product of the query and the key that are projected up "
        "from their latents.",
        latex=r"z=\frac{(xW_\downarrow^QW_\uparrow^{Q,(i)})\cdot(c_{KV}W_\uparrow^{K,(i)})}"
        r"{\sqrt{d_k}}",
        source=Source("004", "3.1 MLA", "A head's score from both latents, without a scale."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition(
                "D1", "the product is divided by sqrt(d_k), with a position stream sqrt(d_k + d_r)"
            ),
            Condition("D2", "i is the head, and not the place of a token"),
        ),
        counterexample=_unscaled,
        derivation=_scored,
    ),
    Claim(
        id="mla.absorbed_matrix",
        number="C052",
        statement="Both up-projections of a head merge into one matrix A.",
        latex=r"(c^QW_{UQ})(c\,W_{UK})^T=c^Q\,(W_{UQ}W_{UK}^T)\,c^T",
        source=Source("004", "3.1 MLA", "Associativity lets the up-projections be multiplied."),
        verdict="holds",
        form="symbolic",
        truth="By associativity and (C W)^T = W^T C^T. A is r x d_c, of rank at most d_k.",
        derivation=_absorption,
    ),
    Claim(
        id="mla.score_in_latents",
        number="C053",
        statement="The score becomes the product of query latent, A and latent.",
        latex=r"q_\downarrow\,A^{(i)}\,c_{KV}^T",
        source=Source("004", "3.1 MLA", "The score as q A c."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "the latent is transposed, as tokens are rows"),
            Condition("D2", "the query latent is one for all heads, though printed with an index"),
        ),
        counterexample=_a_row,
        derivation=_row_latents,
    ),
    Claim(
        id="mla.values_absorbed",
        number="C054",
        statement="Keys are never rebuilt, and value up-projections merge with W_O.",
        latex=r"(P\,cW_{UV})W_O=(P\,c)(W_{UV}W_O)",
        source=Source("004", "3.1 MLA", "A acts on the cached latent; values merge with W_O."),
        verdict="holds",
        form="symbolic",
        derivation=_values,
    ),
)
