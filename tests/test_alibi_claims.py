"""The counterexamples on ALiBi and the repaired statements, in exact fractions and in balls,
without the register."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise
from typing import Any

import flint
import pytest
import sympy as sp

from attnspec.oracle.balls import precision
from attnspec.spec import alibi_bias, claim
from attnspec.spec.alibi_slopes import slopes
from attnspec.spec.claim import is_closed
from tests.registered import shown
from tests.relative_positions import papers_exponents

HALF = Fraction(1, 2)


def printed(mu: Fraction, m: int, n: int) -> Fraction:
    """As the document has it."""
    return mu * (n - m)


def penalty(mu: Fraction, m: int, n: int) -> Fraction:
    """As it must be."""
    return -abs(mu) * abs(m - n)


@pytest.mark.parametrize(
    ("claim_id", "mu", "m", "n"),
    [
        ("alibi_bias.falls_with_distance", -HALF, 2, 0),
        ("alibi_bias.quick_reference", Fraction(-1, 4), 8, 0),
    ],
)
def test_the_printed_sign_is_a_bonus(claim_id: str, mu: Fraction, m: int, n: int) -> None:
    found = shown(claim_id)
    assert found.stated == penalty(mu, m, n) < 0
    assert found.actual == printed(mu, m, n) > 0


def test_the_printed_sign_is_never_a_penalty() -> None:
    draw = random.Random(0)
    for _ in range(300):
        mu = -Fraction(draw.randrange(1, 99), draw.randrange(1, 99))
        m = draw.randrange(0, 1000)
        n = draw.randrange(0, m + 1)
        assert printed(mu, m, n) >= 0 >= penalty(mu, m, n)
        assert printed(mu, m, n) == -penalty(mu, m, n)
        # the repaired one falls with distance, by the slope a step
        assert penalty(mu, m, n) - penalty(mu, m, n - 1) == abs(mu)


def test_the_bias_of_the_own_key_is_zero() -> None:
    found = shown("alibi_bias.zero_on_diagonal")
    value = printed(-HALF, 0, 0)
    assert found.actual == (value > 0) - (value < 0) == 0
    assert found.stated == -1
    assert penalty(-HALF, 0, 0) == 0


def test_the_first_step_back() -> None:
    found = shown("alibi_bias.step_costs_slope")
    assert found.actual == printed(-HALF, 2, 1) - printed(-HALF, 2, 2)
    assert found.stated == penalty(-HALF, 2, 1) - penalty(-HALF, 2, 2)


def test_a_lead_of_content_outweighs_distance() -> None:
    found = shown("alibi_bias.favors_near_keys")
    far = 5 + penalty(-HALF, 10, 2)
    near = 0 + penalty(-HALF, 10, 10)
    assert found.actual == far - near == 1
    assert found.stated == penalty(-HALF, 10, 2) - near


def test_past_the_diagonal_the_line_rises() -> None:
    found = shown("alibi_bias.linear_in_distance")
    assert found.stated == -HALF * (0 - 1)
    assert found.actual == penalty(-HALF, 0, 1)


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 8, 12, 16, 24, 33])
def test_slopes_have_the_papers_exponents(heads: int) -> None:
    found = [-sp.log(x) / sp.log(2) for x in slopes(heads)]
    assert [sp.simplify(x) for x in found] == [
        sp.Rational(x.numerator, x.denominator) for x in papers_exponents(heads)
    ]


def test_the_first_slope_of_eight_heads() -> None:
    found = shown("alibi_slopes.geometric_of_power_of_two")
    assert found.stated == 1
    assert papers_exponents(8)[0] == 1
    assert found.actual == HALF
    exponents = {h: papers_exponents(h) for h in range(1, 65)}
    assert min(min(of) for of in exponents.values()) > 0  # no slope reaches 1
    halving = [h for h, of in exponents.items() if {b - a for a, b in pairwise(of)} == {1}]
    assert halving == [8]


def softmax(logits: list[Any]) -> list[Any]:
    weights = [flint.arb(x).exp() for x in logits]
    total = sum(weights, flint.arb(0))
    return [w / total for w in weights]


def test_softmax_does_not_see_where_the_query_is() -> None:
    draw = random.Random(1)
    with precision():
        for _ in range(20):
            count, mu = draw.randrange(1, 12), flint.fmpq(draw.randrange(1, 50), 7)
            z = [flint.fmpq(draw.randrange(-99, 99), 13) for _ in range(count)]
            m = draw.randrange(count, 60)
            by_distance = softmax([x - mu * (m - n) for n, x in enumerate(z)])
            by_key = softmax([x + mu * n for n, x in enumerate(z)])
            assert all(a.overlaps(b) for a, b in zip(by_distance, by_key, strict=True))
            other = softmax([x - mu * n for n, x in enumerate(z)])
            assert count == 1 or not all(
                a.overlaps(b) for a, b in zip(by_distance, other, strict=True)
            )


def test_weights_fall_by_the_slope_a_step() -> None:
    with precision():
        weights = softmax([flint.fmpq(-abs(9 - n), 4) for n in range(10)])
        ratio = flint.arb(flint.fmpq(-1, 4)).exp()
        assert all((a / b).overlaps(ratio) for a, b in pairwise(weights))
        bonus = softmax([flint.fmpq(abs(9 - n), 4) for n in range(10)])
        assert all(bonus[0] > w for w in bonus[1:])  # the farthest


@pytest.mark.parametrize(
    ("wrong", "claims"),
    [
        (lambda i, j, t, s: i + s - t - j, {"definition"}),
        (lambda i, j, t, s: sp.Abs(i - j), {"definition", "translation"}),
        (lambda i, j, t, s: (i + s - t - j) ** 2, {"definition", "falls_with_distance"}),
        (lambda i, j, t, s: sp.Abs(j - s + 1), {"definition", "translation"}),
    ],
    ids=["signed", "top-left", "square", "from the last key"],
)
def test_another_distance_leaves_the_derivations_open(
    wrong: Any, claims: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnspec.spec.alibi_definition.distance", wrong)
    monkeypatch.setattr(alibi_bias, "linear", alibi_bias.linear.__wrapped__)
    open_ones = set()
    for name in ("definition", "falls_with_distance", "translation"):
        derivation = claim(f"alibi_bias.{name}").derivation
        assert derivation is not None
        steps = alibi_bias.linear() if name == "definition" else derivation()
        if not all(is_closed(step) for step in steps):
            open_ones.add(name)
    assert claims <= open_ones
