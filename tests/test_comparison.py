"""The one place where numbers are compared: each rule is shown holding and failing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnspec.oracle.comparison import Comparison, errors, verdict
from attnspec.oracle.expected import Expected, expected
from attnspec.oracle.precision import EVALUATION, FORMATS, contract
from attnspec.spec.softmax_definition import DEFINITION

U = FORMATS["float32"].roundoff


def compared(actual: Any, right: Any, allowance: Any, dtype: str = "float32") -> Any:
    actual, right = np.asarray(actual, np.float64), np.asarray(right, np.float64)
    room = None if allowance is None else np.broadcast_to(np.float64(allowance), right.shape)
    return verdict(Comparison("output", actual, right, room, dtype))


def test_within_and_beyond_the_allowance() -> None:
    assert compared([1.0, 2.0], [1.0, 2.0 + U], 2 * U).ratio == pytest.approx(0.5, rel=1e-5)
    beyond = compared([1.0, 2.0], [1.0, 2.0 + 3 * U], 2 * U)
    assert not beyond.holds
    assert beyond.index == (1,)
    assert beyond.ratio == pytest.approx(1.5, rel=1e-5)


def test_the_allowance_is_widened_by_its_own_evaluation_and_by_nothing_else() -> None:
    assert compared([1.0], [1.0 + U * (1 + EVALUATION / 2)], U).holds
    assert not compared([1.0], [1.0 + U * (1 + 2 * EVALUATION)], U).holds


def test_to_the_bit() -> None:
    assert compared([0.0, np.nan, np.inf, 1.0], [-0.0, np.nan, np.inf, 1.0], None).holds
    assert not compared([1.0], [np.nextafter(1.0, 2.0)], None).holds
    assert not compared([np.nan], [1.0], None).holds
    assert not compared([1.0], [np.nan], None).holds
    assert not compared([np.inf], [-np.inf], None).holds


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_where_a_number_is_due(wrong: float) -> None:
    assert compared([wrong, 1.0], [1.0, 1.0], U).ratio == np.inf


def test_infinity_where_infinity_is_due() -> None:
    assert compared([-np.inf, 1.0], [-np.inf, 1.0], U).holds
    assert not compared([np.inf, 1.0], [-np.inf, 1.0], U).holds
    assert not compared([0.0, 1.0], [-np.inf, 1.0], U).holds
    assert not compared([0.0, 1.0], [np.nan, 1.0], U).holds


def test_a_zero_allowance_is_always_judged() -> None:
    exact = compared([0.0, 1.0, 1e-300], [0.0, 1.0, 1e-300], [0.0, U, 0.0])
    assert (exact.judged, exact.holds) == (3, True)
    assert compared([1e-300, 1.0], [0.0, 1.0], [0.0, U]).ratio == np.inf


def test_what_is_exact_may_be_flushed_to_zero_below_the_normal_range() -> None:
    tiny = FORMATS["float32"].normal / 4.0
    assert compared([0.0, 1.0], [tiny, 1.0], [0.0, U]).holds
    assert not compared([3.0 * tiny, 1.0], [tiny, 1.0], [0.0, U]).holds
    assert not compared([0.0, 1.0], [tiny, 1.0], None).holds
    assert not compared([0.0, 1.0], [8.0 * tiny, 1.0], [0.0, U]).holds


def test_what_is_not_judged() -> None:
    # an allowance beyond a quarter of the root mean square, here 1
    blunt = compared([5.0, 1.0], [1.0, 1.0], [0.3, 0.2])
    assert (blunt.judged, blunt.elements, blunt.holds) == (1, 2, True)
    # at the overflow threshold
    huge = compared([0.0, 1.0], [60000.0, 1.0], [6000.0, U], "float16")
    assert huge.judged == 1
    # below the normal range
    tiny = compared([0.0, 1.0], [2.0**-15, 1.0], [2.0**-20, U], "float16")
    assert tiny.judged == 1
    assert not compared([0.0, 1.0], [2.0**-13, 1.0], [2.0**-20, U], "float16").holds
    # an infinite allowance promises nothing
    assert compared([5.0, 1.0], [1.0, 1.0], [np.inf, U]).judged == 1


def test_squares_of_large_numbers_do_not_overflow_the_judgement() -> None:
    big = compared([1e200, 1e200], [1e200, 1e200], 1e180, "float64")
    assert big.judged == 2


def test_a_residual_is_counted() -> None:
    low = np.array([2.0**-60, 0.0])
    pair = Comparison(
        "output", np.array([1.0, -np.inf]), np.array([1.0, -np.inf]), np.array([2.0**-61, 1.0]),
        "float64", low,
    )  # fmt: skip
    assert errors(pair)[0] == 2.0**-60
    assert not verdict(pair).holds


def test_sides_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sides of shapes \(2,\) and \(3,\)"):
        compared(np.zeros(2), np.zeros(3), None)


def test_nothing_to_compare_is_no_failure_and_no_judgement() -> None:
    empty = compared(np.zeros(0), np.zeros(0), 0.0)
    assert (empty.ratio, empty.judged, empty.elements) == (0.0, 0, 0)


def test_double_precision_is_judged_against_enclosures() -> None:
    """The expected value's low part is there where float64 is too coarse, and only there."""
    x = np.random.default_rng(0).standard_normal((3, 5))
    sizes = {"rows": 3, "n": 5}
    right = expected(DEFINITION, sizes, {"x": x}, contract("float64"))
    assert isinstance(right, Expected)
    assert right.residual is not None
    assert 0.0 < np.abs(right.residual).max() < 2.0**-53
    assert expected(DEFINITION, sizes, {"x": x}, contract("float32")).residual is None


def test_parts_of_an_expected_result_stay_together() -> None:
    x = np.random.default_rng(0).standard_normal((3, 5))
    right = expected(DEFINITION, {"rows": 3, "n": 5}, {"x": x}, contract("float64"))
    moved = right.moved(-1, 0)
    assert moved.value.shape == moved.allowance.shape == (5, 3)
    assert moved.residual is not None
    assert moved.residual.shape == (5, 3)
    row = right[1]
    assert row.residual is not None
    assert (row.value == right.value[1]).all()
    assert right.reshaped((15,)).allowance.shape == (15,)
    assert right.moved(-1, 1) is right
