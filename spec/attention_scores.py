"""Attention: projections of tokens, and the scores of queries and keys.

Sources: document 004 (3.1: core idea, why divide, the score matrix).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention_sums import entry_difference, head
from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.shapes import shapes_fit
from attnspec.spec.symbols import c, i, j, k

_tokens, _width, _values, _rows = sp.symbols("n d d_v n_q", integer=True, positive=True)
_x = sp.MatrixSymbol("X", _tokens, _width)
_w_q = sp.MatrixSymbol("W_Q", _width, head)
_w_v = sp.MatrixSymbol("W_V", _width, _values)
_q, _k = (sp.MatrixSymbol(name, _tokens, head) for name in ("Q", "K"))


def _shapes() -> tuple[Step, ...]:
    return (
        Step("the shapes of X W_Q fit, as those of X W_K", shapes_fit(_x, _w_q)),
        Step("Q and K have n rows and d_k columns", (_x * _w_q).shape == (_tokens, head)),
        Step("the shapes of X W_V fit", shapes_fit(_x, _w_v)),
        Step("V has n rows and d_v columns", (_x * _w_v).shape == (_tokens, _values)),
    )


def _matching_sizes() -> tuple[Step, ...]:
    other = sp.MatrixSymbol("K", _tokens, _values)
    weights = sp.MatrixSymbol("P", _tokens, _tokens)
    valued = sp.MatrixSymbol("V", _tokens, _values)
    return (
        Step("the shapes of Q K^T fit where both have d_k columns", shapes_fit(_q, _k.T)),
        Step("and don't where K has others", not shapes_fit(_q, other.T)),
        Step("the shapes of P V fit for every d_v", shapes_fit(weights, valued)),
        Step("and the output has d_v columns", (weights * valued).shape == (_tokens, _values)),
    )


def _projected_rows() -> tuple[Step, ...]:
    unit = sp.MatrixSymbol("E_i", 1, _tokens)
    entry = (_x * _w_q)[i, c]
    return (
        Step(
            "entry (i, c) of X W is row i of X times column c of W",
            entry_difference(entry, sp.Sum(_x[i, k] * _w_q[k, c], (k, 0, _width - 1))),
        ),
        Step(
            "and with E_i the unit row that picks token i, E_i (X W) = (E_i X) W",
            (unit * (_x * _w_q) - (unit * _x) * _w_q).doit(),
        ),
    )


def _dot_products() -> tuple[Step, ...]:
    return (
        Step("the shapes fit", shapes_fit(_q, _k.T)),
        Step(
            "entry (i, j) of Q K^T is the sum of q_ic k_jc",
            entry_difference((_q * _k.T)[i, j], sp.Sum(_q[i, c] * _k[j, c], (c, 0, head - 1))),
        ),
    )


def _multiplications() -> tuple[Step, ...]:
    return (
        *_dot_products(),
        Step("it has d_k products", sp.Sum(sp.S.One, (c, 0, head - 1)).doit() - head),
        Step(
            "and one addition for each but the first",
            sp.Sum(sp.S.One, (c, 1, head - 1)).doit() - (head - 1),
        ),
    )


def _square() -> tuple[Step, ...]:
    others = sp.MatrixSymbol("Q", _rows, head)
    return (
        Step("the shapes fit", shapes_fit(_q, _k.T)),
        Step("Q K^T is n by n", (_q * _k.T).shape == (_tokens, _tokens)),
        Step(
            "with n_q queries of other tokens it is n_q by n",
            (others * _k.T).shape == (_rows, _tokens),
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="attention.projection_shapes",
        number="C003",
        statement="W_Q and W_K are d by d_k, W_V is d by d_v; Q and K are n by d_k, V is n by d_v.",
        latex=r"Q,K\in\mathbb R^{n\times d_k},\ V\in\mathbb R^{n\times d_v}",
        source=Source("004", "3.1 Core Idea", "Gives the shapes of the three projections."),
        verdict="holds",
        form="symbolic",
        derivation=_shapes,
    ),
    Claim(
        id="attention.query_and_key_sizes_match",
        number="C004",
        statement="Queries and keys have one size; values may have another.",
        latex=r"q_i\cdot k_j\text{ needs }q_i,k_j\in\mathbb R^{d_k};\ v_j\in\mathbb R^{d_v}",
        source=Source(
            "004", "3.1 Core Idea", "d_k must be that of both, for their product; d_v is free."
        ),
        verdict="holds",
        form="symbolic",
        derivation=_matching_sizes,
    ),
    Claim(
        id="attention.projection_of_rows",
        number="C005",
        statement="Projecting token by token or the stacked matrix gives the same rows.",
        latex=r"(XW)_i=x_iW",
        source=Source("004", "3.1 Core Idea", "Stacks the tokens and projects them at once."),
        verdict="holds",
        form="symbolic",
        derivation=_projected_rows,
    ),
    Claim(
        id="attention.scores_are_dot_products",
        number="C007",
        statement="Q K^T holds the product of every query with every key.",
        latex=r"(QK^T)_{ij}=\sum_cQ_{ic}K_{jc}",
        source=Source("004", "3.1 Core Idea", "Every query dotted with every key."),
        verdict="holds",
        form="symbolic",
        derivation=_dot_products,
    ),
    Claim(
        id="attention.products_of_score",
        number="C010",
        statement="A score is a sum of d_k products.",
        latex=r"q\cdot k=\sum_{c<d_k}q_ck_c",
        source=Source("004", "3.1 Why Divide", "The product adds d_k multiplications."),
        verdict="holds",
        form="symbolic",
        derivation=_multiplications,
    ),
    Claim(
        id="attention.score_matrix_is_square",
        number="C016",
        statement="Q K^T is n by n.",
        latex=r"QK^T\in\mathbb R^{n\times n}",
        source=Source("004", "3.1 QK^T", "One row and one column a token."),
        verdict="holds",
        form="symbolic",
        truth="Where queries and keys are the same tokens; else it is n_q by n.",
        derivation=_square,
    ),
)
