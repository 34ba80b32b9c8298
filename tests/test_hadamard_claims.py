"""Claims about the Hadamard transform, against plain numbers."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import mpmath
import numpy as np
import pytest
import sympy as sp

from tests.registered import shown, still_open

Matrix = list[list[Fraction]]


def sylvester(n: int) -> Matrix:
    """Doubled until it has n rows, without a factor."""
    rows = [[Fraction(1)]]
    while len(rows) < n:
        rows = [row + row for row in rows] + [row + [-x for x in row] for row in rows]
    return rows


def times(matrix: Matrix, x: list[Fraction]) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, x, strict=True)), Fraction(0)) for row in matrix]


def determinant(matrix: Matrix) -> Fraction:
    """By its definition, a sum over permutations."""
    total = Fraction(0)
    for order in permutations(range(len(matrix))):
        sign = 1
        for a in range(len(order)):
            for b in range(a):
                sign *= 1 if order[b] < order[a] else -1
        term = Fraction(sign)
        for row, column in enumerate(order):
            term *= matrix[row][column]
        total += term
    return total


def whole(*values: int) -> list[Fraction]:
    return [Fraction(x) for x in values]


def test_entries_of_the_printed_matrices() -> None:
    """C152: the printed H_4 is half of the matrix of 1 and -1."""
    example = shown("hadamard.entries_of_unscaled")
    four = [[x / 2 for x in row] for row in sylvester(4)]
    assert (example.stated, example.actual) == (1, sp.Rational(1, 2))
    assert {abs(x) for row in four for x in row} == {Fraction(1, 2)}
    assert {abs(x) for n in (1, 2, 8, 32) for row in sylvester(n) for x in row} == {1}


def test_printed_matrix_of_two_is_not_orthonormal() -> None:
    """C153: [[1, 1], [1, -1]] times itself is 2I; half of H_4 times itself is I."""
    example = shown("hadamard.orthonormal_of_scaling")
    first = times([whole(1, 1), whole(1, -1)], whole(1, 1))
    assert int(example.stated) == 1
    assert int(example.actual) == first[0]
    for n in (1, 2, 4, 16, 64):
        matrix = sylvester(n)
        for at, row in enumerate(matrix):
            assert times(matrix, row) == [Fraction(n * (at == c)) for c in range(n)]


def test_determinants() -> None:
    """C154: over n^(n/2) they are -1 at n = 2 and 1 at n = 4; larger ones in floating point."""
    example = shown("hadamard.rotation_of_four_divides_size")
    assert determinant(sylvester(2)) / 2 == int(example.actual) == -1
    assert int(example.stated) == 1
    assert determinant(sylvester(4)) / 16 == 1
    for n in (8, 16, 64):
        sign, _ = np.linalg.slogdet(np.array(sylvester(n), np.float64))
        assert sign == 1.0


def test_what_is_flat_becomes_a_spike() -> None:
    """C157: (4, 4, 4, 4) becomes (8, 0, 0, 0); no entry exceeds ||x||_1 / sqrt(n)."""
    example = shown("hadamard.largest_le_sum_over_root")
    turned = [x / 2 for x in times(sylvester(4), whole(4, 4, 4, 4))]
    assert max(turned) == int(example.actual) == 8
    assert turned[1:] == whole(0, 0, 0)
    assert int(example.stated) ** 2 * 4 == 64
    g = np.random.default_rng(0)
    for n in (2, 8, 64):
        for _ in range(20):
            x = [Fraction(float(v)) for v in g.standard_normal(n) * (g.random(n) < 0.3)]
            assert max(map(abs, times(sylvester(n), x))) <= sum(map(abs, x))
            one = [Fraction(0)] * n
            one[int(g.integers(n))] = x[0]
            assert {abs(y) for y in times(sylvester(n), one)} == {abs(x[0])}


def test_energy_and_scores_are_kept() -> None:
    """C155, C158: exactly n times, so unchanged with the factor."""
    example = shown("hadamard.joint_turn_keeps_scores")
    turned = times(sylvester(2), whole(1, 0))
    assert sum(x * x for x in turned) == int(example.actual) == 2
    assert int(example.stated) == 1
    g = np.random.default_rng(1)
    for n in (1, 4, 32):
        q, k = ([Fraction(float(v)) for v in g.standard_normal(n)] for _ in range(2))
        a, b = times(sylvester(n), q), times(sylvester(n), k)
        for left, right, first, second in ((a, a, q, q), (a, b, q, k)):
            turned_product = sum(x * y for x, y in zip(left, right, strict=True))
            assert turned_product == n * sum(x * y for x, y in zip(first, second, strict=True))


def test_rotary_turn_after_the_transform_goes_the_other_way() -> None:
    """C158: H R(theta) H = R(-theta), and before the transform both turns are kept."""
    angle = mpmath.mpf("0.7")
    half = mpmath.sqrt(mpmath.mpf(1) / 2)
    h = mpmath.matrix([[half, half], [half, -half]])
    c, s = mpmath.cos(angle), mpmath.sin(angle)
    turn, back = mpmath.matrix([[c, -s], [s, c]]), mpmath.matrix([[c, s], [-s, c]])
    assert mpmath.norm(h * turn * h - back) < mpmath.mpf(10) ** -14
    assert mpmath.norm(h * turn - turn * h) > 1


def test_scores_move_where_turned_vectors_are_quantized() -> None:
    """C159: (2, 1, 0, 0) turned is (3, 1, 3, 1)/2, of which 1/2 becomes 42 of 127 steps."""
    example = shown("hadamard.no_effect_of_exact")
    turned = [x / 2 for x in times(sylvester(4), whole(2, 1, 0, 0))]
    step = max(map(abs, turned)) / 127
    back = [round(x / step) * step for x in turned]
    score = sum((x * x for x in back), Fraction(0))
    assert example.actual == sp.Rational(score.numerator, score.denominator)
    assert int(example.stated) == sum(x * x for x in whole(2, 1, 0, 0)) == 5


def test_scores_of_quantized_vectors_are_within_the_bound() -> None:
    """C159: g ||q||_1 + h ||k||_1 + n h g, exactly."""
    g = np.random.default_rng(2)
    for n in (1, 4, 64):
        for _ in range(20):
            pair = [[Fraction(float(v)) for v in g.standard_normal(n)] for _ in range(2)]
            steps = [max(map(abs, x)) / 127 for x in pair]
            back = [[round(v / s) * s for v in x] for x, s in zip(pair, steps, strict=True)]
            h, e = steps[0] / 2, steps[1] / 2
            off = sum(a * b for a, b in zip(*back, strict=True)) - sum(
                a * b for a, b in zip(*pair, strict=True)
            )
            assert abs(off) <= e * sum(map(abs, pair[0])) + h * sum(map(abs, pair[1])) + n * h * e


def test_float32_loses_a_small_entry() -> None:
    """C159: the step of 1 + 2^-26 and 1 - 2^-26 in float32."""
    tiny = np.float32(2.0**-26)
    assert np.float32(1.0) + tiny == np.float32(1.0) == np.float32(1.0) - tiny


@pytest.mark.parametrize("name", ["sign", "bit"])
def test_derivation_depends_on_the_definition(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """With digits counted from the wrong place, or the sign of the count's parity swapped, the
    recursion stays open."""
    from attnspec.spec import hadamard_definition, hadamard_forms, hadamard_matrices

    right = getattr(hadamard_definition, name)

    def wrong(*at: sp.Expr) -> sp.Expr:
        return -right(*at) if name == "sign" else right(at[0], at[1] + 1)

    for module in (hadamard_forms, hadamard_matrices):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, wrong)
    hadamard_matrices.matrix.cache_clear()
    assert still_open("hadamard.definition")
    hadamard_matrices.matrix.cache_clear()
