"""Claims about rows of signed bytes, against plain fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import sympy as sp

from attnspec.spec.quantize_int8 import right_integers
from tests.registered import shown

EXAMPLE = [Fraction(1000), Fraction(1, 100), Fraction(1, 1000), Fraction(500)]
SLACK = Fraction(1, 2) + Fraction(1, 2**15)


def quantized(x: list[Fraction]) -> tuple[list[int], Fraction]:
    scale = max(map(abs, x)) / 127
    return [round(v / scale) for v in x], scale


def butterflies(x: list[Fraction]) -> list[Fraction]:
    """n = 4, orthonormal: sums and differences twice, then halves."""
    a, b, c, d = x
    e, f, g, h = a + b, a - b, c + d, c - d
    return [(e + g) / 2, (f + h) / 2, (e - g) / 2, (f - h) / 2]


def energy(x: list[Fraction]) -> Fraction:
    return sum((v * v for v in x), Fraction(0))


def test_bits() -> None:
    """C149: numpy's item sizes."""
    example = shown("quantize_int8.half_of_float16")
    sizes = {name: np.dtype(name).itemsize for name in ("int8", "float16", "float32")}
    assert sizes["float16"] / sizes["int8"] == int(example.actual) == 2
    assert sizes["float32"] / sizes["int8"] == int(example.stated) == 4
    rows = np.zeros((64, 128), np.int8)
    with_scales = rows.nbytes + np.zeros(64, np.float32).nbytes
    assert Fraction(rows.astype(np.float16).nbytes, with_scales) == Fraction(64, 33)


def test_small_entries_are_crushed() -> None:
    """C150: only 0 is right for them; for 500, a tie, two integers are."""
    scale = EXAMPLE[0] / 127
    for x, wanted in zip(EXAMPLE, ([127], [0], [0], [63, 64]), strict=True):
        right = [q for q in range(-127, 128) if abs(x - q * scale) <= scale * SLACK]
        assert right == wanted
    assert float(64 * scale) == 503.93700787401576


def test_small_entries_are_lost_after_the_transform_too() -> None:
    """C151: exact fractions, from the transform to the error."""
    example = shown("quantize_int8.error_le_sum_of_sizes_of_turned")
    turned = butterflies(EXAMPLE)
    q, scale = quantized(turned)
    assert q == [127, 42, 42, 127]
    back = butterflies([v * scale for v in q])
    assert back[1] == back[2] == 0 == int(example.actual)
    assert example.stated == sp.Rational(EXAMPLE[1].numerator, EXAMPLE[1].denominator)
    plain, step = quantized(EXAMPLE)
    errors = [
        float(energy([b - x for b, x in zip(found, EXAMPLE, strict=True)])) ** 0.5
        for found in (back, [v * step for v in plain])
    ]
    assert [round(e, 4) for e in errors] == [2.7813, 3.937]


def test_turned_rows_come_back_within_the_bound() -> None:
    """C151: the error's square is at most that of (1/2 + 2^-15)/127 of the sum of sizes."""
    g = np.random.default_rng(0)
    for _ in range(200):
        x = [Fraction(float(v)) for v in g.standard_normal(4) * 2.0 ** g.integers(-8, 8, 4)]
        q, scale = quantized(butterflies(x))
        back = butterflies([v * scale for v in q])
        off = energy([b - v for b, v in zip(back, x, strict=True)])
        assert off <= (SLACK / 127 * sum(map(abs, x))) ** 2


def test_right_integers_are_all_there_are() -> None:
    """The few that the derivations look at, against all of them."""
    g = np.random.default_rng(1)
    for _ in range(40):
        x, s = Fraction(int(g.integers(-2000, 2000)), 16), Fraction(int(g.integers(1, 64)), 32)
        wanted = [q for q in range(-127, 128) if abs(x - q * s) <= s * SLACK and (x or not q)]
        found = right_integers(
            sp.Rational(x.numerator, x.denominator), sp.Rational(s.numerator, s.denominator)
        )
        assert list(found) == wanted


def test_rounded_quotients_in_float32_meet_the_bound() -> None:
    """`quantize_int8.definition`: by division and by the inverse, at ties and near them."""
    g = np.random.default_rng(2)
    for _ in range(50):
        x = (g.standard_normal(64) * 2.0 ** g.integers(-6, 6)).astype(np.float32)
        scale = np.abs(x).max() / np.float32(127)
        near = (np.rint(x / scale) + np.float32(0.5)) * scale
        x = np.concatenate([x, np.clip(near, -np.abs(x).max(), np.abs(x).max())])
        for quotient in (x / scale, x * (np.float32(1) / scale)):
            for entry, q in zip(x.tolist(), np.rint(quotient).tolist(), strict=True):
                step = Fraction(float(scale))
                assert abs(q) <= 127
                assert abs(Fraction(entry) - int(q) * step) <= step * SLACK
