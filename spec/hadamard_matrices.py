"""Sylvester's matrices as matrices: from the definition, as printed, and by blocks."""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.claim import Step
from attnspec.spec.hadamard_definition import bit, sign
from attnspec.spec.shapes import shapes_fit

size = sp.Symbol("n", integer=True, positive=True)
"""The size of a matrix, a power of 2."""
H = sp.MatrixSymbol("H", size, size)
"""An unscaled matrix of that size."""


@cache
def matrix(bits: int, scaling: str) -> sp.ImmutableMatrix:
    """The definition's matrix of size 2^bits, entry by entry."""
    n = 2**bits
    whole = sp.ImmutableMatrix(
        n, n, lambda row, column: sign(sp.Integer(row), sp.Integer(column), sp.Integer(bits)).doit()
    )
    return whole / sp.sqrt(n) if scaling == "orthonormal" else whole


def printed_two() -> sp.ImmutableMatrix:
    """H_2 as document 004 prints it."""
    return sp.ImmutableMatrix([[1, 1], [1, -1]])


def printed_four() -> sp.ImmutableMatrix:
    """H_4 as document 004 prints it."""
    rows = [[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]
    return sp.ImmutableMatrix(rows) / 2


def doubled() -> sp.BlockMatrix:
    """The matrix of twice the size."""
    return sp.BlockMatrix([[H, H], [H, -H]])


def with_gram(product: sp.MatrixExpr) -> sp.MatrixExpr:
    """A product with n I for H^T H, which is shown by `induction`."""
    return product.doit().subs(H.T * H, size * sp.Identity(size)).doit()


def induction() -> tuple[Step, ...]:
    """H^T H = n I for every n = 2^k, from one size to twice that size."""
    whole = sp.block_collapse(doubled().T * doubled())
    identity = size * sp.Identity(size)
    return (
        Step("the blocks of H_2n have one size", shapes_fit(H.T, H, H)),
        Step("H_1^T H_1 = 1", matrix(0, "none").T * matrix(0, "none") - sp.eye(1)),
        Step(
            "if H^T H = n I, the diagonal blocks of H_2n^T H_2n are 2n I",
            (whole.blocks[0, 0].subs(H.T * H, identity) - 2 * identity).doit(),
        ),
        Step(
            "the lower one too",
            (whole.blocks[1, 1].subs(H.T * H, identity) - 2 * identity).doit(),
        ),
        Step("and the others are 0", whole.blocks[0, 1]),
    )


def corner() -> tuple[sp.Expr, sp.Expr]:
    """What is left of the digits of l + a 2^k beside those of l, below place k, and at place k
    beside the last digit of a, where l / 2^k is rounded down to 0."""
    row, a, place, more = sp.symbols("l a b e", integer=True, nonnegative=True)
    top = place + 1 + more

    def rounded(digit: sp.Expr) -> sp.Expr:
        return digit.replace(sp.floor, lambda quotient: sp.floor(sp.expand(quotient)))

    low = rounded(bit(row + a * 2**top, place)) - bit(row, place)
    high = rounded(bit(row + a * 2**place, place)).subs(sp.floor(row / 2**place), 0)
    return low, high - sp.Mod(a, 2)
