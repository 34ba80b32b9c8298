"""What the oracle says of layer_norm and its gradients: beside exact moments, closed formulas and
autograd; and batch normalisation, the contrast."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

import attnspec
from attnspec.impls import layer_norm as references
from attnspec.loading import load
from attnspec.oracle import layer_norm_values
from attnspec.oracle.expected import expected
from attnspec.oracle.law import Inputs
from attnspec.oracle.layer_norm_values import variance
from attnspec.oracle.precision import contract
from attnspec.oracle.rounding import formed
from attnspec.spec.layer_norm_definition import layer_norm as definition
from attnspec.subject import Subject
from tests.norm_cases import DIGITS, exact_layer_norm, off

Array = np.ndarray[Any, Any]
PLACED: dict[str, Callable[..., Any]] = {
    "inside": references.layer_norm,
    "outside": references.layer_norm_outside,
}


def of(placement: str) -> Subject:
    """A reference, in float64, under its convention."""
    declaration = attnspec.Target(name="mine", conventions={"layer_norm.eps": placement})
    loaded = load(SimpleNamespace(TARGET=declaration, layer_norm=PLACED[placement]))
    return Subject(loaded, "layer_norm", "float64")


def call(x: Array, dtype: str = "float64", *, eps: float = 1e-5, **affine: Array) -> Inputs:
    return Inputs("layer_norm", dtype, {"x": x, **affine}, {"eps": eps})


@pytest.mark.parametrize("name", ["inside", "outside"])
def test_the_oracle_is_what_exact_moments_give(name: str) -> None:
    mine = of(name)
    g = np.random.default_rng(3)
    x = 100.0 + 0.01 * g.standard_normal((2, 3, 5))
    weight, bias = g.standard_normal((2, 5))
    right = layer_norm_values.layer_norm(mine, call(x, eps=1e-4, weight=weight, bias=bias))
    with mpmath.workdps(DIGITS):
        exact = exact_layer_norm(x.reshape(6, 5), 1e-4, name, weight, bias)
        assert (off(right.value.reshape(6, 5), exact) <= right.allowance.reshape(6, 5)).all()


@pytest.mark.parametrize("name", ["inside", "outside"])
def test_gradients_are_the_closed_formulas_and_autograds(name: str) -> None:
    """dx = r (g - mean g) - c r^2 s mean(g c), as the file of their laws says."""
    mine = of(name)
    g = np.random.default_rng(4)
    x, upstream = 3.0 + g.standard_normal((2, 2, 3, 6))
    weight, bias = g.standard_normal((2, 6))
    right = layer_norm_values.gradients(
        mine, call(x, eps=0.125, weight=weight, bias=bias), upstream
    )
    c, v = x - x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    r = 1 / np.sqrt(v + 0.125) if name == "inside" else 1 / (np.sqrt(v) + 0.125)
    s = r if name == "inside" else 1 / np.sqrt(v)
    above = upstream * weight
    mean = (above * c).mean(-1, keepdims=True)
    dx = r * (above - above.mean(-1, keepdims=True)) - c * r**2 * s * mean
    rows = (0, 1)
    closed = {"x": dx, "weight": (upstream * c * r).sum(rows), "bias": upstream.sum(rows)}
    leaves = {n: torch.tensor(a, requires_grad=True) for n, a in (
        ("x", x), ("weight", weight), ("bias", bias)
    )}  # fmt: skip
    output = PLACED[name](leaves["x"], leaves["weight"], leaves["bias"], eps=0.125)
    found = torch.autograd.grad(output, list(leaves.values()), torch.tensor(upstream))
    for (n, wanted), by_torch in zip(closed.items(), found, strict=True):
        room = 2.0 * right[n].allowance
        assert (np.abs(right[n].value - wanted) <= room).all(), n
        assert (np.abs(right[n].value - by_torch.numpy()) <= room).all(), n


def test_a_small_variance_beside_a_large_mean_is_known() -> None:
    """The law's own float64 loses nothing that the exact moments have."""
    x = 2.0**20 * (1.0 + 2.0**-40 * np.arange(5.0))[None]
    exact = 2.0**-40 * 2.0  # that of 0 to 4, times the square of 2^-20
    assert variance(x).item() == exact


def test_batch_normalisation_is_layer_norm_along_the_other_axis() -> None:
    g = np.random.default_rng(6)
    x, weight, bias = g.standard_normal((7, 3)), g.standard_normal(3), g.standard_normal(3)
    sizes = {"rows": 3, "d": 7, "eps": 0.25}
    plain = definition(weight=False, bias=False)
    right = expected(plain, sizes, {"x": x.T.copy()}, contract("float64"))
    value, room = right.value.T, right.allowance.T
    given = (torch.tensor(a) for a in (x, weight, bias))
    found = references.batch_norm(*given, eps=0.25).numpy()
    # product and sum are rounded here and there
    affine = room * np.abs(weight) + 2.0 * formed(np.abs(value * weight) + np.abs(bias), 2)
    assert (np.abs(found - (value * weight + bias)) <= affine).all()
    own = torch.nn.functional.batch_norm(torch.tensor(x), None, None, training=True, eps=0.25)
    bare = references.batch_norm(torch.tensor(x), eps=0.25)
    assert (np.abs((bare - own).numpy()) <= 2.0 * room).all()
