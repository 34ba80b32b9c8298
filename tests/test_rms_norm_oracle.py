"""What the oracle says of rms_norm beside exact moments, what it leaves unjudged, and what the
families of its calls hold."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from attnspec.driving import scope_of
from attnspec.impls import rms_norm as references
from attnspec.oracle import rms_norm_values
from attnspec.oracle.inputs import sampled
from attnspec.oracle.precision import FORMATS
from attnspec.oracle.rms_norm_checks import mean_square, with_gain
from attnspec.target import DTYPES
from tests.norm_cases import DIGITS, exact_rms_norm, off
from tests.rms_norm_subjects import CONVENTIONS, call, subject


@pytest.mark.parametrize("name", CONVENTIONS)
def test_the_oracle_is_what_exact_moments_give(name: str) -> None:
    function, conventions = CONVENTIONS[name]
    mine = subject(function, "float64", conventions=conventions)
    g = np.random.default_rng(3)
    x, weight = 0.01 * g.standard_normal((2, 3, 5)), g.standard_normal(5)
    right = rms_norm_values.rms_norm(mine, call(x, weight=weight, eps=1e-4))
    place = conventions.get("rms_norm.eps", "inside")
    gain = conventions.get("rms_norm.gain", "plain")
    with mpmath.workdps(DIGITS):
        exact = exact_rms_norm(x.reshape(6, 5), 1e-4, place, weight, gain)
        assert (off(right.value.reshape(6, 5), exact) <= right.allowance.reshape(6, 5)).all()


def test_the_factor_of_a_row_is_what_multiplies_it() -> None:
    mine = subject(references.rms_norm, "float64")
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    right = rms_norm_values.factor(mine, call(x, eps=12.5))
    assert right.value.tolist() == [[0.2], [12.5**-0.5]]


def test_a_cube_that_float32_does_not_hold_is_not_judged() -> None:
    """Autograd of an inverse root multiplies by its cube: 2^144 at rows of 2^-48 without eps."""
    mine = subject(references.rms_norm_without_eps, conventions={"rms_norm.eps": "none"})
    x = np.array([[1.0, 2.0, 4.0]]) * 2.0 ** np.array([[0], [-48], [48]])
    right = rms_norm_values.gradients(mine, call(x, "float32"), np.ones_like(x))["x"]
    assert np.isfinite(right.allowance).all(axis=1).tolist() == [True, False, False]


def test_either_argument_of_a_maximum_is_granted_where_float64_does_not_tell() -> None:
    """A mean square that is eps but for float64's rounding: balls decide for one, code for any."""
    conventions = {"rms_norm.eps": "clamped"}
    mine = subject(references.rms_norm_clamped, "float64", conventions=conventions)
    eps = 1e-5
    x = np.full((1, 4), eps**0.5) * np.array([1.0, -1.0, 1.0, 1.0])
    upstream = np.array([[1.0, 2.0, 3.0, -1.0]])
    right = rms_norm_values.gradients(mine, call(x, eps=eps), upstream)["x"]
    r = eps**-0.5
    hat = x * r
    for share in (0.0, 0.5, 1.0):
        dx = r * (upstream - share * hat * (upstream * hat).mean())
        assert (np.abs(dx - right.value) <= right.allowance).all()


def test_the_mean_square_has_room_for_what_the_law_itself_rounds() -> None:
    mine = subject(references.rms_norm, "float64")
    g = np.random.default_rng(8)
    for width in (1, 2, 65, 1025):
        x = g.standard_normal((3, width))
        (comparison,) = mean_square(mine, call(x))
        assert comparison.allowance is not None
        assert (comparison.allowance < 2.0**-35).all()
        assert (comparison.allowance > width * 2.0**-54).all()


@pytest.mark.parametrize("gain", ["plain", "one-plus"])
def test_the_weight_of_a_gain_gives_that_gain(gain: str) -> None:
    function = CONVENTIONS["inside" if gain == "plain" else "one-plus"][0]
    mine = subject(function, conventions={"rms_norm.gain": gain})
    wanted = np.array([0.5, -2.0, 0.0])
    made = with_gain(mine, call(np.ones((1, 3)), "float32"), wanted)
    assert rms_norm_values.gain(mine, made.arrays["weight"]).tolist() == wanted.tolist()


def test_families_hold_what_they_say() -> None:
    for dtype in DTYPES:
        scope = scope_of(subject(references.rms_norm, dtype))
        for inputs in sampled("rms_norm_centred", scope, 40, 1):
            ordered = np.sort(inputs.arrays["x"], axis=-1)
            assert (ordered == -ordered[..., ::-1]).all()
        for inputs in sampled("rms_norm_zeros", scope, 40, 1):
            assert not inputs.arrays["x"].any(axis=-1).all()
        for inputs in sampled("rms_norm_equal", scope, 40, 1):
            assert (inputs.arrays["x"] == inputs.arrays["x"][..., :1]).all()
        largest = max(
            np.abs(inputs.arrays["x"]).max() for inputs in sampled("rms_norm_huge", scope, 40, 1)
        )
        assert largest > 2.0**14
        assert np.isfinite(largest)
        for inputs in sampled("rms_norm_small", scope, 40, 1):
            size = np.abs(inputs.arrays["x"])
            assert (size >= FORMATS[dtype].normal).all()
            assert (size.max() ** 2 < FORMATS[dtype].normal).all()
