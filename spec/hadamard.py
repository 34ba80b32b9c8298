"""The Hadamard transform: the entries, the scale and the determinant of Sylvester's matrices.

Source: document 004 (3.7, DSA). The text prints H_2 without its factor and H_4 with it, and calls
both rotations; what the transform keeps and spreads is in `hadamard_energy`, what it does to scores
in `hadamard_scores`.
"""

from __future__ import annotations

from itertools import product

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.hadamard_definition import sign
from attnspec.spec.hadamard_matrices import (
    H,
    doubled,
    induction,
    matrix,
    printed_four,
    printed_two,
    size,
    with_gram,
)
from attnspec.spec.shapes import shapes_fit
from attnspec.spec.symbols import i, j

_bits = sp.Symbol("bits", integer=True, nonnegative=True)


def _entries() -> tuple[Step, ...]:
    common, half = sp.symbols("p h", integer=True)
    entry = 1 - 2 * sp.Mod(common, 2)
    more = sp.Symbol("u", integer=True, nonnegative=True)
    return (
        Step("an even count of common digits gives 1", entry.subs(common, 2 * half) - 1),
        Step("an odd one -1", entry.subs(common, 2 * half + 1) + 1),
        Step(
            "the definition's entry is that of its count",
            sign(i, j, _bits).replace(sp.Sum, lambda *_: common) - entry,
        ),
        Step(
            "orthonormal, an entry's square is 1/n, which for n = 2 + u is below 1",
            sp.factor(1 - ((1 - 2 * half) / sp.sqrt(2 + more)).subs(half, 0) ** 2).is_positive,
        ),
        Step("the printed H_4 has squares of 1/4", printed_four()[3, 1] ** 2 - sp.Rational(1, 4)),
    )


def _displayed_entry() -> Counterexample:
    return Counterexample(
        "size of the first entry of the printed H_4",
        stated=sp.S.One,
        actual=abs(printed_four()[0, 0]),
    )


def _orthonormal() -> tuple[Step, ...]:
    two, four = printed_two(), printed_four()
    return (
        Step("the printed H_2 is the unscaled matrix", matrix(1, "none") - two),
        Step("its H^T H is 2I", two.T * two - 2 * sp.eye(2)),
        Step(
            "divided by the root of 2 it is orthonormal",
            (two / sp.sqrt(2)).T * (two / sp.sqrt(2)) - sp.eye(2),
        ),
        Step("the printed H_4 is the orthonormal matrix", matrix(2, "orthonormal") - four),
        Step("its H^T H is I", four.T * four - sp.eye(4)),
        *induction(),
        Step(
            "with the factor 1/sqrt(n): H^T H / n = I",
            with_gram(H.T * H / size) - sp.Identity(size),
        ),
    )


def _two_by_two() -> Counterexample:
    return Counterexample(
        "first diagonal entry of H^T H for the printed H_2",
        stated=sp.S.One,
        actual=(printed_two().T * printed_two())[0, 0],
    )


def _determinants() -> tuple[Step, ...]:
    identity, nothing = sp.Identity(size), sp.ZeroMatrix(size, size)
    lower = sp.BlockMatrix([[identity, nothing], [identity, identity]])
    middle = sp.BlockDiagMatrix(H, -2 * H)
    upper = sp.BlockMatrix([[identity, identity], [nothing, identity]])
    whole = sp.block_collapse(lower * middle * upper)
    det = sp.Symbol("D", real=True, nonzero=True)
    half = sp.Symbol("h", integer=True, positive=True)
    unit = det / size ** (size / 2)
    return (
        *induction(),
        Step("the shapes of three factors fit", shapes_fit(lower, middle, upper)),
        Step(
            "H_2n = [[I, 0], [I, I]] [[H, 0], [0, -2H]] [[I, I], [0, I]], block by block",
            all(whole.blocks[at] == doubled().blocks[at] for at in product((0, 1), (0, 1))),
        ),
        Step("the outer ones have determinant 1", lower.det() * upper.det() - 1),
        Step(
            "the middle one (-2)^n (det H)^2",
            sp.expand(middle.det().doit() - (-2) ** size * sp.det(H) ** 2),
        ),
        Step(
            "scaled by (2n)^(-1/2) the product is (-1)^n times the square of det(H / sqrt(n))",
            sp.simplify((-2) ** size * det**2 / (2 * size) ** size - (-1) ** size * unit**2),
        ),
        Step(
            "which is 1, as det(H / sqrt(n))^2 = det(H^T H / n) = det I",
            sp.det(with_gram(H.T * H / size)).doit() - 1,
        ),
        Step("n even, that is 4 | 2n: (-1)^n = 1, a rotation", (-1) ** (2 * half) - 1),
        Step("n = 1: a reflection", matrix(1, "orthonormal").det() + 1),
        Step("H_4", matrix(2, "orthonormal").det() - 1),
        Step("H_8", matrix(3, "none").det() / sp.sqrt(8) ** 8 - 1),
    )


def _reflection() -> Counterexample:
    return Counterexample(
        "determinant of H_2 / sqrt(2), which of a rotation is 1",
        stated=sp.S.One,
        actual=matrix(1, "orthonormal").det(),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="hadamard.entries_of_unscaled",
        number="C152",
        statement="A Hadamard matrix has no entries but 1 and -1.",
        latex=r"s_{lc}=(-1)^{|l\wedge c|}",
        source=Source("004", "3.7 DSA", "All entries of the matrix are plus or minus one."),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "the matrix carries no factor 1/sqrt(n)"),),
        truth="The printed H_4 is scaled, and its entries are 1/2 and -1/2.",
        counterexample=_displayed_entry,
        derivation=_entries,
    ),
    Claim(
        id="hadamard.orthonormal_of_scaling",
        number="C153",
        statement="H^T H = I for the H_2 and the H_4 that are printed.",
        latex=r"H_n^TH_n=nI",
        source=Source("004", "3.7 DSA", "Calls the displayed matrices orthogonal."),
        verdict="corrected",
        form="symbolic",
        truth="For H_4 it holds. The printed H_2 lacks its factor 1/sqrt(2): H^T H = 2I, and every "
        "score of vectors turned by it doubles.",
        counterexample=_two_by_two,
        derivation=_orthonormal,
    ),
    Claim(
        id="hadamard.rotation_of_four_divides_size",
        number="C154",
        statement="A Hadamard matrix acts as a rotation.",
        latex=r"\det(H_{n}/\sqrt n)=(-1)^{n/2},\ n\ge2",
        source=Source("004", "3.7 DSA", "An orthogonal matrix turns vectors and does no more."),
        verdict="corrected",
        form="symbolic",
        truth="Scaled, it is a rotation if 4 divides its size; H_2 / sqrt(2) is a reflection.",
        counterexample=_reflection,
        derivation=_determinants,
    ),
)
