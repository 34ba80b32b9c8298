"""The claims on LayerNorm, without their derivations: counterexamples by plain loops, and what is
true instead on random rows, in mpmath's numbers."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import sympy as sp

from attnspec.spec import layer_norm, layer_norm_tokens, norm_forms, norm_invariances
from attnspec.spec.layer_norm_definition import layer_norm as defined
from attnspec.spec.moments import mean
from tests.registered import shown, still_open

Row = list[Any]
CLAIMS = layer_norm.CLAIMS + layer_norm_tokens.CLAIMS + norm_invariances.CLAIMS
DIGITS = 50


def normalised(row: Row, eps: Any, divisor: int | None = None) -> Row:
    """One row, entry by entry."""
    middle = mpmath.fsum(row) / len(row)
    squares = mpmath.fsum((entry - middle) ** 2 for entry in row)
    below = mpmath.sqrt(squares / (divisor or len(row)) + eps)
    return [(entry - middle) / below for entry in row]


def moments(row: Row) -> tuple[Any, Any]:
    """Mean and variance over the size."""
    middle = mpmath.fsum(row) / len(row)
    return middle, mpmath.fsum((entry - middle) ** 2 for entry in row) / len(row)


def random_rows(seed: int, count: int = 20) -> list[Row]:
    """Rows of all sizes from 2, with means and scales of all kinds."""
    g = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        size, scale = int(g.choice([2, 3, 5, 8, 31])), 2.0 ** int(g.integers(-10, 6))
        found.append(
            [mpmath.mpf(v) for v in (g.standard_normal(size) * scale + g.normal()).tolist()]
        )
    return found


def registered(claim_id: str) -> tuple[Any, Any]:
    """Both numbers of a counterexample, to DIGITS digits."""
    both = shown(claim_id)
    return tuple(mpmath.mpf(str(sp.N(n, DIGITS))) for n in (both.stated, both.actual))


def near(one: Any, other: Any) -> bool:
    """Whether two numbers agree to all but the last ten digits."""
    return bool(abs(one - other) <= mpmath.mpf(10) ** (10 - DIGITS) * max(1, abs(other)))


def test_variance_of_the_counterexample_and_of_random_rows() -> None:
    with mpmath.workdps(DIGITS):
        stated, actual = registered("layer_norm.variance_below_one")
        assert stated == 1
        assert near(moments(normalised([mpmath.mpf(1), mpmath.mpf(-1)], 1))[1], actual)
        for row in random_rows(1):
            for eps in (mpmath.mpf(10) ** -5, mpmath.mpf(1)):
                _, variance = moments(row)
                middle, found = moments(normalised(row, eps))
                assert near(middle, mpmath.mpf(0))
                assert near(found, variance / (variance + eps))
                assert found < 1


def test_affine_of_one_token_gives_another_back_wrongly() -> None:
    with mpmath.workdps(DIGITS):
        stated, actual = registered("layer_norm.affine_restores")
        one, two = [mpmath.mpf(1), mpmath.mpf(-1)], [mpmath.mpf(2), mpmath.mpf(-2)]
        middle, variance = moments(one)
        gain, bias = mpmath.sqrt(variance), middle
        assert [gain * value + bias for value in normalised(one, 0)] == one
        assert stated == two[0]
        assert near(gain * normalised(two, 0)[0] + bias, actual)
        for row in random_rows(2):
            middle, variance = moments(row)
            for eps in (mpmath.mpf(10) ** -6, mpmath.mpf(2)):
                back = [mpmath.sqrt(variance + eps) * v + middle for v in normalised(row, eps)]
                assert all(near(b, v) for b, v in zip(back, row, strict=True))


def test_eps_shrinks_rows() -> None:
    with mpmath.workdps(DIGITS):
        stated, actual = registered("layer_norm.eps_only_guards")
        small = [mpmath.mpf(1) / 1000, -mpmath.mpf(1) / 1000]
        assert near(normalised(small, 0)[0], stated)
        assert near(normalised(small, mpmath.mpf(10) ** -6)[0], actual)
        for row in random_rows(3):
            _, variance = moments(row)
            for eps in (mpmath.mpf(10) ** -5, mpmath.mpf(3)):
                ratio = normalised(row, 0)[0] / normalised(row, eps)[0]
                assert near(ratio, mpmath.sqrt(1 + eps / variance))
                assert 1 < ratio <= 1 + eps / (2 * variance)


def test_batch_statistics_depend_on_the_batch_in_training_only() -> None:
    with mpmath.workdps(DIGITS):
        stated, actual = registered("layer_norm.token_local")
        first = [normalised([mpmath.mpf(0), mpmath.mpf(other)], 0)[0] for other in (2, -2)]
        assert near(first[1] - first[0], stated)
        running_mean, running_variance = mpmath.mpf(0), mpmath.mpf(1)
        alone = [(batch[0] - running_mean) / mpmath.sqrt(running_variance)
                 for batch in ((0, 2), (0, -2))]  # fmt: skip
        assert alone[1] - alone[0] == actual


def test_bounds_are_kept_and_attained() -> None:
    with mpmath.workdps(DIGITS):
        for row in random_rows(4, 60):
            size = len(row)
            assert max(abs(v) for v in normalised(row, 0)) <= mpmath.sqrt(size - 1) * (
                1 + mpmath.eps
            )
            rms = mpmath.sqrt(mpmath.fsum(v * v for v in row) / size)
            assert max(abs(v) / rms for v in row) <= mpmath.sqrt(size) * (1 + mpmath.eps)
        for size in (2, 3, 9):
            unit = [mpmath.mpf(1)] + [mpmath.mpf(0)] * (size - 1)
            assert near(normalised(unit, 0)[0], mpmath.sqrt(size - 1))
            assert near(1 / mpmath.sqrt(mpmath.mpf(1) / size), mpmath.sqrt(size))


def test_invariances_on_random_rows() -> None:
    with mpmath.workdps(DIGITS):
        for row in random_rows(5):
            eps, shift, factor = mpmath.mpf(10) ** -5, mpmath.mpf(7) / 3, mpmath.mpf(5) / 7
            pairs = (
                (normalised([v + shift for v in row], eps), normalised(row, eps)),
                (normalised([factor * v for v in row], 0), normalised(row, 0)),
                (normalised([factor * v for v in row], factor**2 * eps), normalised(row, eps)),
            )
            for one, other in pairs:
                assert all(near(a, b) for a, b in zip(one, other, strict=True))


def test_rows_of_numbers_are_what_loops_give() -> None:
    """`at`, from which counterexamples come, on rows of rationals."""
    with mpmath.workdps(DIGITS):
        row, eps = (sp.Rational(3, 2), sp.Rational(-1, 7), sp.Integer(4)), sp.Rational(1, 9)
        found = norm_forms.at(defined(weight=False, bias=False), row, eps)
        wanted = normalised([mpmath.mpf(v.p) / v.q for v in row], mpmath.mpf(1) / 9)
        assert all(
            near(mpmath.mpf(str(sp.N(a, DIGITS))), b) for a, b in zip(found, wanted, strict=True)
        )


def over_one_less(term: sp.Expr, index: sp.Symbol, size: sp.Expr) -> sp.Expr:
    """The mean of squares over d - 1."""
    right = mean(term, index, size)
    return right * size / (size - 1) if isinstance(term.args[0], sp.Pow) else right


def without_centre(term: sp.Expr, index: sp.Symbol, size: sp.Expr) -> sp.Expr:
    """Zero for the mean."""
    return mean(term, index, size) if isinstance(term.args[0], sp.Pow) else sp.S.Zero


@pytest.mark.parametrize("wrong", [over_one_less, without_centre])
@pytest.mark.parametrize(
    "conclusion", ["definition", "variance_below_one", "affine_restores", "eps_only_guards"]
)
def test_a_wrong_definition_opens_the_derivations(
    wrong: Any, conclusion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnspec.spec.layer_norm_definition.mean", wrong)
    for module in (norm_forms, layer_norm_tokens):
        monkeypatch.setattr(module, "layer_norm", defined.__wrapped__)
    assert is_open(f"layer_norm.{conclusion}")


def is_open(claim_id: str) -> bool:
    """Whether a derivation doesn't close, or has no sum that it could take for the mean."""
    try:
        return bool(still_open(claim_id))
    except ValueError:
        return True


def test_every_counterexample_of_this_component_is_tested_here() -> None:
    tested = {"variance_below_one", "affine_restores", "eps_only_guards", "token_local"}
    found = {entry.id.partition(".")[2] for entry in CLAIMS if entry.counterexample}
    assert found == tested
