"""What the Hadamard transform keeps, and what it spreads or gathers.

Source: document 004 (3.7, DSA). Lengths stay; whether entries become alike depends on the vector.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.hadamard_definition import sign
from attnspec.spec.hadamard_matrices import H, induction, matrix, size, with_gram
from attnspec.spec.shapes import shapes_fit
from attnspec.spec.symbols import i, j

_bits = sp.Symbol("bits", integer=True, nonnegative=True)
_x = sp.MatrixSymbol("x", size, 1)


def product_kept(first: sp.MatrixSymbol, second: sp.MatrixSymbol) -> tuple[Step, ...]:
    """(H a)^T (H b) is a^T H^T H b, so a^T b with the factor 1/sqrt(n) on either side."""
    turned = (H * first / sp.sqrt(size)).T * (H * second / sp.sqrt(size))
    return (
        *induction(),
        Step(f"the shapes of {first}^T H^T H {second} fit", shapes_fit(first.T, H.T, H, second)),
        Step(
            f"(H {first})^T (H {second}) = {first}^T H^T H {second}",
            (((H * first).T * (H * second)).doit() - first.T * H.T * H * second).doit(),
        ),
        Step(
            f"which, scaled, is {first}^T {second}",
            (with_gram(turned) - first.T * second).doit(),
        ),
    )


def energy_kept() -> tuple[Step, ...]:
    """Parseval: the squares of the entries of Hx / sqrt(n) add up to those of x."""
    return product_kept(_x, _x)


def _spike() -> tuple[Step, ...]:
    four = matrix(2, "orthonormal")
    spike, flat = sp.ImmutableMatrix([8, 0, 0, 0]), sp.ImmutableMatrix([4, 4, 4, 4])
    return (
        Step("H_4 (8, 0, 0, 0) = (4, 4, 4, 4)", four * spike - flat),
        Step("64 on one side", spike.dot(spike) - 64),
        Step("and 4 times 16 on the other", flat.dot(flat) - 64),
    )


def _gathered() -> tuple[Step, ...]:
    four = matrix(2, "orthonormal")
    above, below = sp.symbols("p m", nonnegative=True)
    ones = sp.Sum(sign(sp.S.Zero, i, _bits).doit() / sp.sqrt(size), (i, 0, size - 1)).doit()
    signed = [(entry, s) for entry in (above, -below) for s in (1, -1)]
    term = sp.IndexedBase("r", nonnegative=True)
    return (
        *induction(),
        Step(
            "entries are symmetric in row and column",
            sign(i, j, _bits) - sign(j, i, _bits),
        ),
        Step(
            "so H / sqrt(n) is its own inverse: H (H x) / n = x",
            with_gram((H.T * (H * _x)) / size) - _x,
        ),
        Step(
            "what a spike is spread to is gathered again: H_4 (4, 4, 4, 4) = (8, 0, 0, 0)",
            four * sp.ImmutableMatrix([4, 4, 4, 4]) - sp.ImmutableMatrix([8, 0, 0, 0]),
        ),
        Step("no digit of 0 is 1: row 0 is all 1", sign(sp.S.Zero, i, _bits).doit() - 1),
        Step("ones of any length n have sqrt(n) as first entry", sp.simplify(ones - sp.sqrt(size))),
        Step(
            "which is all of their energy n",
            sp.Sum(sp.S.One, (i, 0, size - 1)).doit() - ones**2,
        ),
        Step(
            "each |x_l| - s_l x_l, s_l = 1 or -1, is not negative, whatever the sign of x_l",
            all((sp.Abs(entry) - s * entry).is_nonnegative for entry, s in signed),
        ),
        Step(
            "nor is their sum, ||x||_1 - sqrt(n) (H x)_c: no entry is larger than ||x||_1 / sqrt n",
            sp.Sum(term[i], (i, 0, size - 1)).is_nonnegative,
        ),
        Step(
            "which a spike attains everywhere: each size is |x| / sqrt(n)",
            sp.simplify(sp.Abs(-above / sp.sqrt(size)) - above / sp.sqrt(size)),
        ),
    )


def _flat_to_spike() -> Counterexample:
    found = matrix(2, "orthonormal") * sp.ImmutableMatrix([4, 4, 4, 4])
    return Counterexample(
        "largest entry of H_4 (4, 4, 4, 4), stated to be that of its energy 64 spread evenly",
        stated=sp.sqrt(sp.Integer(64) / 4),
        actual=sp.Max(*found),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="hadamard.keeps_energy",
        number="C155",
        statement="The transform stretches no vector.",
        latex=r"\|Hx\|^2/n=\|x\|^2",
        source=Source("004", "3.7 DSA", "Vectors are neither stretched nor shrunk."),
        verdict="holds",
        form="symbolic",
        truth="With the factor 1/sqrt(n); without it all lengths grow by sqrt(n).",
        derivation=energy_kept,
    ),
    Claim(
        id="hadamard.flattens_spike",
        number="C156",
        statement="(8, 0, 0, 0) becomes (4, 4, 4, 4), with the same energy.",
        latex=r"H_4(8,0,0,0)^T=(4,4,4,4)^T,\quad 64=4\cdot16",
        source=Source("004", "3.7 DSA", "A spike of 8 among four becomes four entries of 4."),
        verdict="holds",
        form="exact",
        derivation=_spike,
    ),
    Claim(
        id="hadamard.largest_le_sum_over_root",
        number="C157",
        statement="Energy is spread evenly, so that no entry dominates.",
        latex=r"\|Hx\|_\infty/\sqrt n\le\|x\|_1/\sqrt n",
        source=Source(
            "004", "3.7 DSA", "After the transform all entries carry alike, and none stands out."
        ),
        verdict="corrected",
        form="symbolic",
        truth="Vectors with one nonzero entry are spread evenly. The transform is its own inverse, "
        "so others are gathered: n ones become one entry sqrt(n). What holds of all is that no "
        "entry exceeds the sum of sizes over sqrt(n).",
        counterexample=_flat_to_spike,
        derivation=_gathered,
    ),
)
