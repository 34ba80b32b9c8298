"""The claims on RMSNorm, without their derivations: counterexamples by plain loops, what holds on
random rows in mpmath's numbers, and operations counted by doing them."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import sympy as sp

from attnspec.spec import norm_forms, rms_norm
from attnspec.spec.moments import inverse_root
from attnspec.spec.rms_norm_definition import rms_norm as defined
from tests.registered import shown, still_open

Row = list[Any]
DIGITS = 50


def normalised(row: Row, eps: Any) -> Row:
    square = mpmath.fsum(entry * entry for entry in row) / len(row)
    return [entry / mpmath.sqrt(square + eps) for entry in row]


def centred(row: Row) -> Row:
    middle = mpmath.fsum(row) / len(row)
    return [entry - middle for entry in row]


def random_rows(seed: int) -> list[Row]:
    g = np.random.default_rng(seed)
    sizes = g.choice([1, 2, 3, 8, 31], 20)
    return [[mpmath.mpf(v) for v in (g.standard_normal(n) + g.normal()).tolist()] for n in sizes]


def near(one: Any, other: Any) -> bool:
    return bool(abs(one - other) <= mpmath.mpf(10) ** (10 - DIGITS) * max(1, abs(other)))


def test_the_sides_of_zero_differ() -> None:
    both = shown("rms_norm.formula")
    with mpmath.workdps(DIGITS):
        for sign, number in ((1, both.stated), (-1, both.actual)):
            assert normalised([mpmath.mpf(sign) / 1000], 0) == [int(number)]
        assert normalised([mpmath.mpf(0)] * 3, mpmath.mpf(10) ** -6) == [0, 0, 0]


def test_mean_square_with_and_without_eps() -> None:
    with mpmath.workdps(DIGITS):
        for row in random_rows(1):
            square = mpmath.fsum(v * v for v in row) / len(row)
            for eps in (mpmath.mpf(0), mpmath.mpf(10) ** -6, mpmath.mpf(2)):
                found = mpmath.fsum(v * v for v in normalised(row, eps)) / len(row)
                assert near(found, square / (square + eps))


def test_mean_square_is_variance_and_squared_mean() -> None:
    with mpmath.workdps(DIGITS):
        for row in random_rows(2):
            middle = mpmath.fsum(row) / len(row)
            variance = mpmath.fsum(v * v for v in centred(row)) / len(row)
            square = mpmath.fsum(v * v for v in row) / len(row)
            assert near(square, variance + middle**2)


def test_layer_norm_is_rms_norm_of_what_is_centred() -> None:
    with mpmath.workdps(DIGITS):
        for row in random_rows(3):
            eps = mpmath.mpf(10) ** -3
            middle = mpmath.fsum(row) / len(row)
            variance = mpmath.fsum((v - middle) ** 2 for v in row) / len(row)
            layer = [(v - middle) / mpmath.sqrt(variance + eps) for v in row]
            pairs = list(zip(layer, normalised(centred(row), eps), strict=True))
            assert all(near(a, b) for a, b in pairs)
            plain = normalised(row, eps)
            assert near(mpmath.fsum(plain), mpmath.mpf(0)) == near(middle, mpmath.mpf(0))


class Counted:
    """A number that counts what is done with it."""

    done = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def _made(self, value: float) -> Counted:
        Counted.done += 1
        return Counted(value)

    def __add__(self, other: Counted) -> Counted:
        return self._made(self.value + other.value)

    def __sub__(self, other: Counted) -> Counted:
        return self._made(self.value - other.value)

    def __mul__(self, other: Counted) -> Counted:
        return self._made(self.value * other.value)

    def __truediv__(self, other: Counted) -> Counted:
        return self._made(self.value / other.value)

    def root(self) -> Counted:
        return self._made(self.value**0.5)


def total(terms: list[Counted]) -> Counted:
    first, *rest = terms
    for term in rest:
        first = first + term
    return first


def operations(size: int, *, layer: bool) -> int:
    """How many operations a row takes, written down as code does it."""
    Counted.done = 0
    x, gain, bias = ([Counted(float(i + k)) for i in range(size)] for k in range(3))
    count, eps, one = Counted(float(size)), Counted(1e-6), Counted(1.0)
    if layer:
        middle = total(x) / count
        x = [v - middle for v in x]
    inverse = one / (total([v * v for v in x]) / count + eps).root()
    x = [v * inverse * w for v, w in zip(x, gain, strict=True)]
    if layer:
        x = [v + b for v, b in zip(x, bias, strict=True)]
    return Counted.done


@pytest.mark.parametrize("size", [2, 3, 17, 64])
def test_operations_are_those_of_code(size: int) -> None:
    layer, rms = operations(size, layer=True), operations(size, layer=False)
    assert layer - operations(size - 1, layer=True) == 7
    assert rms - operations(size - 1, layer=False) == 4
    assert layer - rms == 3 * size


def uncounted(square: sp.Expr, placement: str) -> sp.Expr:
    """The root alone, in place of its inverse."""
    return 1 / inverse_root(square, placement)


def doubled(square: sp.Expr, placement: str) -> sp.Expr:
    return 2 * inverse_root(square, placement)


@pytest.mark.parametrize("wrong", [uncounted, doubled])
@pytest.mark.parametrize("conclusion", ["formula", "definition", "of_centred_eq_layer_norm"])
def test_a_wrong_definition_opens_the_derivations(
    wrong: Any, conclusion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnspec.spec.rms_norm_definition.inverse_root", wrong)
    for module in (norm_forms, rms_norm):
        monkeypatch.setattr(module, "rms_norm", defined.__wrapped__)
    assert still_open(f"rms_norm.{conclusion}")


def test_every_counterexample_of_this_component_is_tested_here() -> None:
    found = {entry.id for entry in rms_norm.CLAIMS if entry.counterexample}
    assert found == {"rms_norm.formula"}
