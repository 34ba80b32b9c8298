"""The definition of LayerNorm: against exact moments, at every convention; its allowance against
emulated roundings, right code, and wrong code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attnspec.oracle.precision import EVALUATION, contract, snapped
from attnspec.spec.layer_norm_definition import PLACEMENTS, definitions, layer_norm
from attnspec.spec.moments import inverse_root
from tests.norm_cases import FAMILIES, affine, exact_layer_norm
from tests.norm_tapes import assert_families_are, bounds, shares, widened, worst_of_families

Array = np.ndarray[Any, Any]
EPS = (1e-5, 1e-6, 1.0, 2.0**-20)
WITH = ((True, True), (True, False), (False, True), (False, False))


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("affine_parts", WITH, ids=str)
def test_every_convention_is_what_exact_moments_give(
    placement: str, affine_parts: tuple[bool, bool]
) -> None:
    weight, bias = affine_parts
    definition = layer_norm(weight=weight, bias=bias, eps_placement=placement)

    def exact(given: dict[str, Array], eps: float) -> list[list[Any]]:
        w, b = given["weight"] if weight else None, given["bias"] if bias else None
        return exact_layer_norm(given["x"], eps, placement, w, b)

    assert_families_are(definition, tuple(FAMILIES), EPS, exact)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("definition", definitions(), ids=lambda d: d.name)
def test_no_emulated_rounding_leaves_the_allowance(definition: Any, dtype: str) -> None:
    assert worst_of_families(definition, dtype, EPS, tuple(FAMILIES)) > 0.3


def test_a_placement_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown placement 'above'; allowed: inside, outside, "):
        inverse_root(layer_norm().parameters[-1], "above")


def by_torch(x: Any, w: Any, b: Any, eps: float) -> Any:
    """The library's own."""
    import torch

    return torch.nn.functional.layer_norm(x, x.shape[-1:], w, b, eps)


def by_steps(x: Any, w: Any, b: Any, eps: float) -> Any:
    """A tensor of the dtype after every step but the statistics."""
    import torch

    wide = widened(x)
    centred = wide - wide.mean(-1, keepdim=True)
    hat = (centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + eps)).to(x.dtype)
    return hat * w + b


def by_updating(x: Any, w: Any, b: Any, eps: float) -> Any:
    """Mean and squares updated channel by channel (Welford), multiplied by inverse sizes."""
    import torch

    wide = widened(x)
    middle, squares = torch.zeros_like(wide[:, 0]), torch.zeros_like(wide[:, 0])
    for count, column in enumerate(wide.unbind(-1), 1):
        step = column - middle
        middle = middle + step * torch.tensor(1.0 / count, dtype=wide.dtype)
        squares = squares + step * (column - middle)
    size = torch.tensor(1.0 / wide.shape[-1], dtype=wide.dtype)
    inverse = torch.rsqrt(squares * size + eps)[:, None]
    hat = (wide - middle[:, None]) * inverse
    return (hat * w.to(wide.dtype) + b.to(wide.dtype)).to(x.dtype)


def unbiased(x: Any, w: Any, b: Any, eps: float) -> Any:
    """The variance over d - 1."""
    import torch

    wide = widened(x)
    below = torch.sqrt(wide.var(-1, keepdim=True, unbiased=True) + eps)
    return ((wide - wide.mean(-1, keepdim=True)) / below * w + b).to(x.dtype)


def another_eps(x: Any, w: Any, b: Any, eps: float) -> Any:
    return by_torch(x, w, b, eps / 10)


def outside_of_the_root(x: Any, w: Any, b: Any, eps: float) -> Any:
    wide = x.to(dtype=w.dtype)
    below = wide.std(-1, keepdim=True, unbiased=False) + eps
    return (wide - wide.mean(-1, keepdim=True)) / below * w + b


def one_pass(x: Any, w: Any, b: Any, eps: float) -> Any:
    """Mean of squares less square of the mean, where the mean is large: no form of LayerNorm."""
    import torch

    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean * mean
    return (x - mean) * torch.rsqrt(variance + eps) * w + b


def ratios(
    function: Callable[..., Any], dtype: str, preset: str | None, families: tuple[str, ...]
) -> list[float]:
    return shares(layer_norm(), function, dtype, preset, families, (1e-5, 1e-3))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    ("function", "preset"), [(by_torch, "strict"), (by_steps, None), (by_updating, "strict")]
)
def test_right_code_stays_within_and_comes_near(
    function: Callable[..., Any], preset: str | None, dtype: str
) -> None:
    worst = max(ratios(function, dtype, preset, tuple(FAMILIES)))
    assert (0.1 if dtype == "float32" else 0.4) < worst <= 1.0


@pytest.mark.parametrize(
    ("function", "family"),
    [(unbiased, "normal"), (another_eps, "near eps"), (outside_of_the_root, "near eps")],
)
def test_wrong_code_never_stays_within(function: Callable[..., Any], family: str) -> None:
    assert min(ratios(function, "float32", None, (family,))) > 1.0


def test_the_mean_of_squares_less_the_square_of_the_mean_is_no_form() -> None:
    """Mean 1000, standard deviation 1/2: what it loses is out of reach of the definition."""
    torch = pytest.importorskip("torch")
    g, definition = np.random.default_rng(3), layer_norm()
    x = snapped(1000.0 + 0.5 * g.standard_normal((4, 8)), "float32")
    given = {"x": x} | affine(g, 8, "float32")
    v, e = bounds(definition, x, 1e-5, given, contract("float32"))
    tensors = [torch.from_numpy(given[name]).float() for name in ("x", "weight", "bias")]
    judged: list[tuple[Callable[..., Any], bool]] = [
        (one_pass, False), (by_torch, True), (by_updating, True)
    ]  # fmt: skip
    for function, within in judged:
        error = np.abs(function(*tensors, 1e-5).double().numpy() - v)
        assert bool((error <= e * (1 + EVALUATION)).all()) == within, function
