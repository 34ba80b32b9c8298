"""The counterexamples on T5's bias and the repaired statements, in integers and exact fractions
that know nothing of the register."""

from __future__ import annotations

import random
from fractions import Fraction
from math import isqrt
from typing import Any

import pytest
import sympy as sp

from attnspec.spec.claim import is_closed
from attnspec.spec.t5_bucket import value
from attnspec.spec.t5_bucket_definition import Side
from tests.registered import shown, still_open
from tests.relative_positions import bucket, side_bucket


def test_the_last_bucket_at_the_defaults() -> None:
    found = shown("t5_bucket.last_bucket")
    assert found.stated == 32 // 2 - 1
    assert found.actual == bucket(-64, 32, 128, True) == 14
    assert bucket(-64, 32, 128, False) == 26
    for both, start, last in ((True, 91, 15), (False, 113, 31)):
        inside = [a for a in range(400) if bucket(-a, 32, 128, both) == last]
        assert inside == list(range(start, 400))
        for a in (0, 7, 8, 64, start - 1, start, 399, 10**7):
            assert value(-a, bidirectional=both) == bucket(-a, 32, 128, both)


def test_where_the_last_bucket_starts_at_any_size() -> None:
    draw = random.Random(1)
    for _ in range(60):
        buckets = draw.randrange(2, 24)
        m, longest = buckets // 2, draw.randrange(buckets, 600)
        wide = buckets - m
        start = next(a for a in range(m, longest + 1) if a**wide >= longest ** (wide - 1) * m)
        assert side_bucket(start, buckets, longest) == buckets - 1
        assert side_bucket(start - 1, buckets, longest) < buckets - 1 or start == m
        for a in (longest, longest + 1, 10**9):
            assert side_bucket(a, buckets, longest) == buckets - 1


def test_buckets_never_fall_with_distance_and_stay_in_range() -> None:
    draw = random.Random(2)
    for _ in range(60):
        buckets, longest = draw.randrange(2, 40), draw.randrange(40, 3000)
        found = [side_bucket(a, buckets, longest) for a in range(0, 300, 3)]
        assert found == sorted(found)
        assert 0 <= found[0] <= found[-1] < buckets


@pytest.mark.parametrize("both", [True, False])
def test_which_entries_are_read(both: bool) -> None:
    read = {bucket(x, 32, 128, both) for x in range(-300, 301)}
    assert read == set(range(32)) - ({16} if both else set())


def test_a_score_that_t5_does_not_divide() -> None:
    found = shown("t5_bias.added_to_unscaled_scores")
    product = sum(x * y for x, y in zip([1] * 4, [1] * 4, strict=True))
    assert found.actual == product
    assert found.stated == Fraction(product, isqrt(4))
    draw = random.Random(3)
    for head in (4, 16, 25):
        root = isqrt(head)
        q, k = ([draw.randrange(-9, 10) for _ in range(head)] for _ in range(2))
        b = Fraction(draw.randrange(-99, 99), 7)
        plain = sum(x * y for x, y in zip(q, k, strict=True)) + b
        weighted = Fraction(sum(root * x * y for x, y in zip(q, k, strict=True)), root) + b
        assert weighted == plain


def test_a_threshold_that_is_one_off_leaves_the_derivations_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = Side.threshold

    def shifted(side: Side, t: Any) -> Any:
        return right(side, t + 1)

    monkeypatch.setattr(Side, "threshold", shifted)
    for claim_id in (
        "t5_bucket.definition",
        "t5_bucket.last_bucket",
        "t5_bucket.rises_with_distance",
        "t5_bucket.defined_at_every_distance",
        "t5_bias.parameters",
    ):
        assert still_open(claim_id), claim_id


def test_a_bias_of_the_opposite_displacement_leaves_the_derivation_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def opposite(i: sp.Expr, j: sp.Expr, t: sp.Expr, s: sp.Expr) -> sp.Expr:
        return i + s - t - j

    monkeypatch.setattr("attnspec.spec.t5_bias_definition.displacement", opposite)
    from attnspec.spec import t5_bias

    steps = t5_bias.relative.__wrapped__()
    assert {step.says.split(": ")[1][:6] for step in steps if not is_closed(step)} == {"a key "}
