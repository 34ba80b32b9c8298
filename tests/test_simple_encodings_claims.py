"""The counterexamples on simpler encodings and on sinusoidal positions, computed without the
register: integers, exact fractions, Taylor sums with their remainder, and balls."""

from __future__ import annotations

import random
from fractions import Fraction

import flint
import pytest
import sympy as sp

from attnspec.oracle.balls import precision
from attnspec.spec.simple_encodings import digit
from tests.registered import shown, still_open

Ends = tuple[Fraction, Fraction]


def taylor(x: Fraction, first: int) -> Ends:
    """A lower and an upper end of sin x (first = 1) or cos x (first = 0): the sum of its series up
    to a term of less than 10^-30 past the largest, which bounds what is left."""
    term, total, n = Fraction(x**first), Fraction(0), first
    while n <= abs(x) or abs(term) > Fraction(1, 10**30):
        total += term
        term = -term * x * x / ((n + 1) * (n + 2))
        n += 2
    return total - abs(term), total + abs(term)


def within(value: sp.Expr, ends: Ends) -> bool:
    low, high = (sp.Rational(end.numerator, end.denominator) for end in ends)
    return bool(low <= value) and bool(value <= high)


def added(*ends: Ends) -> Ends:
    return sum((a for a, _ in ends), Fraction(0)), sum((b for _, b in ends), Fraction(0))


def score(m: int, n: int, matrix: tuple[tuple[int, int], tuple[int, int]]) -> int:
    """[m, 1] M [n, 1]^T by loops."""
    query, key = (m, 1), (n, 1)
    return sum(query[a] * matrix[a][b] * key[b] for a in range(2) for b in range(2))


def test_two_channels_have_the_distance() -> None:
    found = shown("integer_positions.difference_is_bilinear")
    assert found.stated == 5 * 3
    assert found.actual == score(5, 3, ((0, 1), (-1, 0))) == 5 - 3
    draw = random.Random(0)
    for _ in range(200):
        m, n, s = (draw.randrange(-(10**6), 10**6) for _ in range(3))
        assert score(m, n, ((0, 1), (-1, 0))) == m - n
        w = draw.randrange(1, 100)
        moved = w * (m + s) * (n + s) - w * m * n
        assert moved == w * s * (m + n + s)


def test_no_other_score_of_two_channels_knows_the_distance() -> None:
    """Of all small M, those whose score is the same one position on have M_11 = 0, M_12 = -M_21."""
    small = range(-2, 3)
    for a in small:
        for b in small:
            for c in small:
                matrix = ((a, b), (c, 1))
                same = all(
                    score(m + 1, n + 1, matrix) == score(m, n, matrix)
                    for m in range(3)
                    for n in range(3)
                )
                assert same == (a == 0 and b == -c)


def test_six_positions_are_no_period() -> None:
    found = shown("sinusoidal.no_integer_period")
    assert found.stated == 0
    assert within(found.actual, taylor(Fraction(6), 1))


@pytest.mark.parametrize("pairs", [1, 2, 8])
def test_no_shift_up_to_3000_returns(pairs: int) -> None:
    with precision():
        squares = [flint.arb(2) - 2 * flint.arb(t).cos() for t in range(1, 3001)]
        assert all(square > 0 for square in squares)
        # other pairs add to it
        angle = flint.arb(10000) ** flint.arb(flint.fmpq(-(pairs - 1), pairs))
        assert all(2 - 2 * (t * angle).cos() >= 0 for t in (1, 7, 44, 710))


def test_six_apart_is_more_similar_than_one_apart() -> None:
    found = shown("sinusoidal.similarity_is_not_monotone")
    near = added(taylor(Fraction(1), 0), taylor(Fraction(1, 100), 0))
    far = added(taylor(Fraction(6), 0), taylor(Fraction(6, 100), 0))
    assert within(found.stated, near)
    assert within(found.actual, far)
    assert far[0] > near[1]


def products(pairs: int, length: int) -> list[flint.arb]:
    """K(t) for t up to `length`, enclosed."""
    angles = [flint.arb(10000) ** flint.arb(flint.fmpq(-p, pairs)) for p in range(pairs)]
    return [sum(((t * a).cos() for a in angles), flint.arb(0)) for t in range(length + 1)]


@pytest.mark.parametrize(
    ("pairs", "first"), [(2, 3), (4, 3), (8, 3), (32, 5), (64, 11), (256, 43), (1, 3), (7, 3)]
)
def test_where_the_product_first_rises(pairs: int, first: int) -> None:
    with precision():
        k = products(pairs, first + 1)
        assert all(k[t + 1] < k[t] for t in range(first))
        assert k[first + 1] > k[first]


def test_the_same_product_far_away() -> None:
    with precision():
        angles = [flint.arb(10000) ** flint.arb(flint.fmpq(-p, 8)) for p in range(8)]
        near, far = (sum((t * a).cos() for a in angles) for t in (1, 596274))
        assert far > near


def test_a_period_of_whole_positions_would_leave_the_derivation_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With pair 0 turning once in 4 positions the argument must fail."""
    monkeypatch.setattr(
        "attnspec.spec.sinusoidal_smoothness.frequency", lambda pair, size: sp.pi / 2
    )
    assert still_open("sinusoidal.no_integer_period")


def test_binary_digits_are_pythons() -> None:
    for position in range(200):
        digits = [int(digit(sp.Integer(b), sp.Integer(position))) for b in range(9)]
        assert digits == [position >> b & 1 for b in range(9)]
