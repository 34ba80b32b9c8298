"""Errors carried through sums and products, against exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from attnspec.oracle.carried import Carried, carried
from attnspec.oracle.expected import Expected
from attnspec.oracle.precision import EVALUATION

Array = np.ndarray[Any, Any]

RNG = np.random.default_rng(5)
FORMULAS: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda a, b, c: a + b,
    "difference": lambda a, b, c: a - b,
    "product": lambda a, b, c: a * b,
    "square": lambda a, b, c: a * a,
    "sum of products": lambda a, b, c: a * b + c * c,
    "product of three": lambda a, b, c: (a - b) * c * a,
}


def exact(values: Array) -> Array:
    found: Array = np.array([Fraction(float(x)) for x in values], object)
    return found


@pytest.mark.parametrize("relative", [0.0, 1e-15, 1e-6, 0.3])
@pytest.mark.parametrize("name", FORMULAS)
def test_what_is_formed_from_wrong_values_lies_within(name: str, relative: float) -> None:
    formula = FORMULAS[name]
    values = RNG.standard_normal((3, 400)) * 2.0 ** RNG.integers(-30, 30, (3, 400))
    rooms = relative * np.abs(values)
    # as far off as is allowed, to either side
    off = values + rooms * RNG.choice([-1.0, 1.0], values.shape)
    rooms = np.maximum(rooms, np.abs(off - values))
    found = formula(*off)
    right = formula(*(exact(row) for row in values))
    room = formula(*(Carried(v, e) for v, e in zip(values, rooms, strict=True)))
    wrong = np.array([abs(Fraction(float(x)) - y) for x, y in zip(found, right, strict=True)])
    assert (wrong <= [Fraction(float(x) * (1.0 + EVALUATION)) for x in room.error]).all()


def test_the_bound_is_no_larger_than_it_need_be() -> None:
    one = np.ones(1)
    product = Carried(3.0 * one, 0.5 * one) * Carried(5.0 * one, 0.25 * one)
    worst = 3.5 * 5.25 - 15.0
    assert worst <= product.error[0] <= worst * (1.0 + 2.0**-40)


def test_a_sum_along_an_axis() -> None:
    values = RNG.standard_normal((7, 1000))
    rooms = 1e-9 * np.abs(values)
    total = carried(Expected(values, rooms)).sum(1)
    for row, room, found, bound in zip(values, rooms, total.value, total.error, strict=True):
        right = sum(exact(row))
        assert abs(Fraction(float((row + room).sum())) - right) <= Fraction(float(bound))
        assert abs(Fraction(float(found)) - right) <= Fraction(float(bound))
    assert (total.error <= rooms.sum(1) * (1.0 + 2.0**-10)).all()


def test_rows_are_taken_with_their_errors() -> None:
    both = Carried(np.arange(6.0).reshape(3, 2), np.arange(6.0).reshape(3, 2) / 8.0)[1:]
    assert both.value.tolist() == [[2.0, 3.0], [4.0, 5.0]]
    assert both.error.tolist() == [[0.25, 0.375], [0.5, 0.625]]
