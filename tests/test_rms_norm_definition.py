"""The definition of RMSNorm: against exact moments, at every convention; its allowance against
emulated roundings, right code, and wrong code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy as sp

from attnspec.oracle.expected import tape_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import planned
from attnspec.oracle.precision import contract
from attnspec.spec.definition import larger
from attnspec.spec.moments import PLACEMENTS
from attnspec.spec.rms_norm_definition import GAINS, definitions, rms_norm
from tests.norm_cases import FAMILIES, exact_rms_norm
from tests.norm_tapes import (
    assert_families_are,
    bounds,
    parameters,
    shares,
    widened,
    worst_of_families,
)

Array = np.ndarray[Any, Any]
EPS = (1e-6, 1e-5, 1.0, 2.0**-20)
NONZERO = tuple(name for name in FAMILIES if name not in ("zero", "sparse"))
"""Without eps a row of zeros has no value."""


def families_of(placement: str) -> tuple[str, ...]:
    return NONZERO if placement == "none" else tuple(FAMILIES)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("gain", [*GAINS, None])
def test_every_convention_is_what_exact_moments_give(placement: str, gain: str | None) -> None:
    definition = rms_norm(weight=gain is not None, eps_placement=placement, gain=gain or GAINS[0])

    def exact(given: dict[str, Array], eps: float) -> list[list[Any]]:
        weight = given["weight"] if gain else None
        return exact_rms_norm(given["x"], eps, placement, weight, gain or GAINS[0])

    assert_families_are(definition, families_of(placement), EPS, exact)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("definition", definitions(), ids=lambda d: d.name)
def test_no_emulated_rounding_leaves_the_allowance(definition: Any, dtype: str) -> None:
    families = families_of(definition.name.split(".")[1])
    assert worst_of_families(definition, dtype, EPS, families) > 0.3


def test_clamped_covers_both_sides_of_a_tie() -> None:
    """A mean square that is eps but for rounding: code may divide by either's root."""
    definition = rms_norm(weight=False, eps_placement="clamped")
    x = np.full((1, 3), 0.1)
    eps = 0.1 * 0.1
    v, e = bounds(definition, x, eps, {"x": x}, contract("float32"))
    for square in (eps, float(np.float32(0.1) ** 2), eps * (1 + 2.0**-24)):
        assert (np.abs(x / np.sqrt(square) - v) <= e).all()


def test_the_larger_of_two_prints_as_a_maximum() -> None:
    a, b = sp.symbols("a b")
    assert sp.latex(larger(a, b)) == r"\max\left(a, b\right)"
    assert sp.latex(sp.sqrt(larger(a, b))) == r"\sqrt{\max\left(a, b\right)}"
    assert sp.latex(larger(a, b) ** 2) == r"{\max\left(a, b\right)}^{2}"


def test_a_row_of_zeros_has_no_value_without_eps() -> None:
    zero = np.zeros((1, 3))
    for placement in PLACEMENTS:
        definition = rms_norm(weight=False, eps_placement=placement)
        key = tuple(parameters(definition, zero, 1e-6).items())
        value = planned(tape_of(definition), FLOAT64, key)({"x": zero})
        assert np.isnan(value).all() == (placement == "none")
        assert placement == "none" or not value.any()


def by_torch(x: Any, w: Any, eps: float) -> Any:
    """The library's own."""
    import torch

    return torch.nn.functional.rms_norm(x, x.shape[-1:], w, eps)


def by_steps(x: Any, w: Any, eps: float) -> Any:
    """Cast to the dtype before the gain, as Llama's code does."""
    import torch

    wide = widened(x)
    return w * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def by_dividing(x: Any, w: Any, eps: float) -> Any:
    """By a root of a norm, all in a wide format."""
    import torch

    wide = widened(x)
    square = torch.linalg.vector_norm(wide, dim=-1, keepdim=True) ** 2 / x.shape[-1]
    return (wide / torch.sqrt(square + eps) * w.to(wide.dtype)).to(x.dtype)


def another_eps(x: Any, w: Any, eps: float) -> Any:
    return by_torch(x, w, eps / 10)


def outside_of_the_root(x: Any, w: Any, eps: float) -> Any:
    return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + eps) * w


def one_added(x: Any, w: Any, eps: float) -> Any:
    return by_torch(x, 1 + w, eps)


def centred(x: Any, w: Any, eps: float) -> Any:
    return by_torch(x - x.mean(-1, keepdim=True), w, eps)


def ratios(
    function: Callable[..., Any], dtype: str, preset: str | None, families: tuple[str, ...]
) -> list[float]:
    return shares(rms_norm(), function, dtype, preset, families, (1e-6, 1e-4))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    ("function", "preset"), [(by_torch, "strict"), (by_steps, None), (by_dividing, "strict")]
)
def test_right_code_stays_within_and_comes_near(
    function: Callable[..., Any], preset: str | None, dtype: str
) -> None:
    worst = max(ratios(function, dtype, preset, tuple(FAMILIES)))
    assert (0.1 if dtype == "float32" else 0.5) < worst <= 1.0


@pytest.mark.parametrize(
    ("function", "family"),
    [
        (another_eps, "near eps"),
        (outside_of_the_root, "near eps"),
        (one_added, "normal"),
        (centred, "normal"),
    ],
)
def test_wrong_code_never_stays_within(function: Callable[..., Any], family: str) -> None:
    assert min(ratios(function, "float32", None, (family,))) > 1.0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_cast_before_the_gain_is_one_that_a_strict_contract_forbids(dtype: str) -> None:
    assert max(ratios(by_steps, dtype, "strict", ("normal",))) > 1.0
