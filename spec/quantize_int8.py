"""Rows kept as signed bytes: what is saved, what rounding loses, and what turning rows first helps.

Source: document 004 (3.7, DSA). Integers are those of the definition's set of right results; where
it leaves a choice, steps say so.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.exact_values import entry_value
from attnspec.spec.hadamard_energy import energy_kept
from attnspec.spec.hadamard_matrices import matrix, size
from attnspec.spec.quantize_int8_definition import (
    ENTRY_ACCEPTED,
    LEVELS,
    QUOTIENT,
    RESTORED,
    SCALE,
    SLACK,
    entry_is_right,
    largest,
    scale_is_right,
)
from attnspec.spec.symbols import i

EXAMPLE = (sp.Integer(1000), sp.Rational(1, 100), sp.Rational(1, 1000), sp.Integer(500))
"""The row of the document: entries of very different sizes."""

_HALF = sp.Rational(1, 2)


def exact_scale(row: Sequence[sp.Expr]) -> sp.Expr:
    """The scale of a row of numbers."""
    return entry_value(SCALE, {"rows": 1, "n": len(row)}, {"x": [row]}, (0,))


def right_integers(x: sp.Expr, scale: sp.Expr) -> tuple[int, ...]:
    """All integers that may stand for a number at a scale."""
    nearest = int(sp.floor(x / scale + _HALF))
    near = range(nearest - 2, nearest + 3)
    return tuple(q for q in near if entry_is_right(x, sp.Integer(q), scale) == sp.true)


def the_integers(row: Sequence[sp.Expr]) -> sp.ImmutableMatrix:
    """The integers of a row in which every entry leaves one choice. Raises ValueError for
    another."""
    scale = exact_scale(row)
    found = [right_integers(x, scale) for x in row]
    if any(len(choices) != 1 for choices in found):
        raise ValueError(f"more than one result is right: {found}")
    return sp.ImmutableMatrix([choices[0] for choices in found])


def _definition() -> tuple[Step, ...]:
    s, size = sp.symbols("s m", positive=True)
    above, below = sp.Rational(1) + QUOTIENT, sp.Rational(1) - QUOTIENT
    part, off, room = sp.symbols("y e r", nonnegative=True)
    n = SCALE.parameters[1]
    (x,) = SCALE.arrays
    entries = sp.Symbol("m", integer=True, nonnegative=True)
    return (
        Step(
            "the scale is the largest size over 127, so that this one becomes 127",
            SCALE.expression * LEVELS - largest(x, SCALE.axes[0][0], n),
        ),
        Step(
            "q the nearest integer to a quotient y (1 + e) of y = x / s: |q - y| is at most 1/2 + "
            "|e y|, here with both errors of one sign",
            sp.Abs(sp.expand(part * (1 + off) + _HALF - part)) - (_HALF + off * part),
        ),
        Step("for |y| <= 127 and |e| <= 2^-22 that is within the slack", LEVELS * QUOTIENT < SLACK),
        Step(
            "and for a scale off by 2^-22 of itself too",
            LEVELS / below * QUOTIENT < SLACK,
        ),
        Step(
            "where the largest quotient is still rounded to 127: nothing is cut off",
            LEVELS * above / below < LEVELS + _HALF,
        ),
        Step(
            "-128 is right for nothing",
            entry_is_right(-128 * s, sp.Integer(-128), s) == sp.false,
        ),
        Step(
            "nor is another integer than 0 for an entry of 0, at any scale",
            all(
                entry_is_right(sp.S.Zero, sp.Integer(q), scale) == sp.false
                for q in (-1, 1, 127)
                for scale in (s, sp.S.Zero)
            ),
        ),
        Step("a largest size over 127 is a right scale", scale_is_right(size / LEVELS, size)),
        Step(
            "one off by 2^-21 of itself is not",
            sp.Not(scale_is_right(size / LEVELS * (1 + 2 * QUOTIENT), size)),
        ),
        Step("and any is, where all entries are 0", scale_is_right(s, sp.S.Zero)),
        Step(
            "what an integer stands for, q s, is what its entry is compared with",
            sp.Abs(RESTORED.expression - x[RESTORED.axes[0][0], RESTORED.axes[1][0]])
            in ENTRY_ACCEPTED.expression.atoms(sp.Abs),
        ),
        Step(
            "two neighbors are both right only near a half: q + 1/2 + r, r > 2^-15 steps, is too "
            "far from q",
            (sp.Abs((entries + _HALF + SLACK + room) - entries) - _HALF - SLACK).is_nonnegative,
        ),
    )


def _bits() -> tuple[Step, ...]:
    tokens, width = sp.symbols("n d", integer=True, positive=True)

    def bits(each: int, a_row: int = 0) -> sp.Expr:
        row = sp.Sum(sp.Integer(each), (i, 0, width - 1)).doit() + a_row
        return sp.Sum(row, (i, 0, tokens - 1)).doit()

    with_scale = sp.simplify(bits(16) / bits(8, 32))
    return (
        Step("n rows of d entries: 16 bits each are twice 8", sp.simplify(bits(16) / bits(8)) - 2),
        Step("with a scale of 32 bits a row: 2d / (d + 4)", with_scale - 2 * width / (width + 4)),
        Step("which is below 2", sp.factor(2 - with_scale).is_positive),
        Step("and 64/33 at d = 128", with_scale.subs(width, 128) - sp.Rational(64, 33)),
        Step("the factor 4 is that of float32", sp.simplify(bits(32) / bits(8)) - 4),
    )


def _four_times() -> Counterexample:
    return Counterexample(
        "bits of an entry in float16 over those in INT8",
        stated=sp.Integer(4),
        actual=sp.Rational(16, 8),
    )


def _crushed() -> tuple[Step, ...]:
    scale = exact_scale(EXAMPLE)
    s, room = sp.symbols("s r", positive=True)
    more = sp.Symbol("u", integer=True, nonnegative=True)
    entry = s * (_HALF - SLACK) - room
    gap = sp.expand((1 + more) * s - entry - s * (_HALF + SLACK))
    wanted = ((127,), (0,), (0,), (63, 64))
    return (
        Step(
            "an entry of size below s (1/2 - 2^-15): any q = 1 + u is too far from it, by u s + r",
            gap - more * s - room,
        ),
        Step("which is positive: only 0 is right", gap.is_positive),
        Step("the scale of (1000, 0.01, 0.001, 500) is 1000/127", scale - sp.Rational(1000, 127)),
        Step("0.01 is that small", EXAMPLE[1] < scale * (_HALF - SLACK)),
        Step("0.001 too", EXAMPLE[2] < scale * (_HALF - SLACK)),
        *(
            Step(
                f"{x} becomes {' or '.join(map(str, q))}",
                right_integers(x, scale) == q,
            )
            for x, q in zip(EXAMPLE, wanted, strict=True)
        ),
        Step("500 is a tie, 63.5 steps", EXAMPLE[3] / scale - sp.Rational(127, 2)),
        Step("and comes back off by half a step", 64 * scale - EXAMPLE[3] - scale / 2),
    )


def _turned_example() -> tuple[sp.ImmutableMatrix, sp.ImmutableMatrix]:
    """The example turned by H_4 and quantized, and what it is turned back to."""
    four = matrix(2, "orthonormal")
    turned = four * sp.ImmutableMatrix(EXAMPLE)
    integers = the_integers(tuple(turned))
    return integers, four * integers * exact_scale(tuple(turned))


def _turned_first() -> tuple[Step, ...]:
    integers, back = _turned_example()
    row = sp.ImmutableMatrix(EXAMPLE)
    scale = exact_scale(EXAMPLE)
    plain = sp.ImmutableMatrix([127, 0, 0, 64]) * scale
    off, off_plain = back - row, plain - row
    lost = off_plain.dot(off_plain)
    step, total = sp.symbols("h t", positive=True)
    squares = sp.Sum(step**2, (i, 0, size - 1)).doit()
    largest_turned = total / sp.sqrt(size)
    return (
        Step("H_4 x, quantized, is (127, 42, 42, 127)", integers - sp.Matrix([127, 42, 42, 127])),
        Step(
            "turned back, the small entries are 0 again",
            sp.Matrix([back[1], back[2]]),
        ),
        Step("1000 is off, by more than 1.9", sp.Abs(off[0]) > sp.Rational(19, 10)),
        Step("which was exact before", off_plain[0]),
        Step("500 by less than 2", sp.Abs(off[3]) < 2),
        Step(
            "the length of the error falls, but not by half",
            sp.And(off.dot(off) < lost, 4 * off.dot(off) > lost),
        ),
        *energy_kept(),
        Step(
            "so turning back leaves the length of an error: n entries within h have at most "
            "sqrt(n) h",
            sp.sqrt(squares) - sp.sqrt(size) * step,
        ),
        Step(
            "h is 1/2 + 2^-15 steps of a 127th of the largest, which is at most ||x||_1 / sqrt(n): "
            "the error's length is at most (1/2 + 2^-15) / 127 of ||x||_1, whatever n is",
            sp.simplify(
                sp.sqrt(squares).subs(step, largest_turned / LEVELS * (_HALF + SLACK))
                - total / LEVELS * (_HALF + SLACK)
            ),
        ),
        Step(
            "as for the example",
            off.dot(off) < (sum(EXAMPLE) / LEVELS * (_HALF + SLACK)) ** 2,
        ),
    )  # fmt: skip


def _small_entry() -> Counterexample:
    return Counterexample(
        "second entry of (1000, 0.01, 0.001, 500) after H_4, INT8 and H_4 again",
        stated=EXAMPLE[1],
        actual=_turned_example()[1][1],
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="quantize_int8.definition",
        number="",
        statement="Rounding quotients that are off by three roundings of float32 meets the bound "
        "on every entry, and what meets it is such a rounding.",
        latex=r"|x-qs|\le s(\tfrac12+2^{-15}),\quad|q|\le127,\quad s=\max|x|/127",
        source=Source("004", "3.7 DSA", "Vectors of the indexer are stored as 8-bit integers."),
        verdict="holds",
        form="symbolic",
        derivation=_definition,
    ),
    Claim(
        id="quantize_int8.half_of_float16",
        number="C149",
        statement="INT8 in place of FP16 reduces compute about fourfold.",
        latex=r"16/8=2",
        source=Source(
            "004", "3.7 DSA", "Storing 8-bit integers for FP16 saves a factor of about four."
        ),
        verdict="corrected",
        form="symbolic",
        truth="It halves the bits, a little less with a scale a row; the factor 4 is that of "
        "float32. Published peak rates of matrix units are in the ratio 2 as well (A100, H100), "
        "which is a fact about hardware.",
        counterexample=_four_times,
        derivation=_bits,
    ),
    Claim(
        id="quantize_int8.crushes_small_entries",
        number="C150",
        statement="Of (1000, 0.01, 0.001, 500) only the large entries are left.",
        latex=r"|x|<s(\tfrac12-2^{-15})\Rightarrow q=0",
        source=Source(
            "004", "3.7 DSA", "One range for all entries leaves nothing of the tiny ones."
        ),
        verdict="holds",
        form="symbolic",
        truth="(127, 0, 0, 63 or 64) is right: 500 is a tie, and comes back off by half a step.",
        derivation=_crushed,
    ),
    Claim(
        id="quantize_int8.error_le_sum_of_sizes_of_turned",
        number="C151",
        statement="After a Hadamard transform, quantization preserves everything accurately.",
        latex=r"\|x-H^T\hat y\|_2\le\tfrac{1/2+2^{-15}}{127}\|x\|_1,\quad y=Hx",
        source=Source(
            "004", "3.7 DSA", "Transforming first is said to make quantization lose nothing."
        ),
        verdict="corrected",
        form="symbolic",
        truth="The small entries of the example are lost as before, 1000 gets worse, and the "
        "error's length falls from 3.94 to 2.78. What holds: turned rows come back off by at most "
        "(1/2 + 2^-15)/127 of their sum of sizes, in Euclidean length.",
        counterexample=_small_entry,
        derivation=_turned_first,
    ),
)
