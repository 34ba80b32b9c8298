"""Derivatives of maxima: which operand is the larger has all of the gradient, and where an
implementation may find either the larger, either gradient is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attnspec.oracle.adjoint import gradients
from attnspec.oracle.balls import BALLS, midpoints, precision, radii
from attnspec.oracle.expected import Expected, expected_gradients
from attnspec.oracle.plan import planned
from attnspec.oracle.precision import contract
from attnspec.oracle.rationals import RATIONALS
from attnspec.oracle.source import source
from attnspec.spec.indexer_scores_definition import definitions
from attnspec.spec.rms_norm_definition import rms_norm
from attnspec.target import DTYPES

SIZE = {"batch": 1, "heads": 2, "t": 3, "s": 4, "d": 2}
NAMES = ("q", "k", "w")


def indexer(name: str) -> Any:
    return next(d for d in definitions() if d.name == f"indexer_scores.{name}")


def call(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    shapes = {"q": (1, 2, 3, 2), "k": (1, 4, 2), "w": (1, 2, 3), "upstream": (1, 3, 4)}
    return {name: rng.integers(-4, 5, shape) / 2.0 for name, shape in shapes.items()}


def by_torch(arrays: dict[str, Any]) -> list[Any]:
    q, k, w = (torch.tensor(arrays[name], requires_grad=True) for name in NAMES)
    scores = torch.relu(torch.einsum("bhtd,bsd->bhts", q, k))
    total = torch.einsum("bht,bhts->bts", w, scores)
    return list(torch.autograd.grad(total, (q, k, w), torch.tensor(arrays["upstream"])))


def right(arrays: dict[str, Any], dtype: str = "float64") -> tuple[Expected, ...]:
    return expected_gradients(indexer("weighted"), NAMES, SIZE, arrays, contract(dtype))


def without_ties(arrays: dict[str, Any]) -> dict[str, Any]:
    """Keys that no query is orthogonal to."""
    return {**arrays, "q": arrays["q"] + 0.25, "k": arrays["k"] + 0.3125}


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_sign_of_a_score_says_whether_it_has_a_gradient(dtype: str) -> None:
    arrays = without_ties(call())
    for found, torchs in zip(right(arrays, dtype), by_torch(arrays), strict=True):
        assert (np.abs(found.value - torchs.numpy()) <= found.allowance).all()
        assert np.isfinite(found.allowance).all()
    assert any(np.abs(found.value).max() > 1.0 for found in right(arrays, dtype))


def test_where_both_are_equal_any_share_is_right() -> None:
    arrays = {**call(), "q": np.zeros((1, 2, 3, 2))}
    (q, k, w) = right(arrays)
    whole = {**arrays, "q": np.full((1, 2, 3, 2), 1e-9), "k": np.abs(arrays["k"])}
    assert (q.allowance >= np.abs(q.value)).all()
    assert q.allowance.max() > 0.5
    assert k.value.max() == w.value.max() == 0.0
    assert right(whole)[0].allowance.max() < 2.0**-30


def test_two_numbers_that_may_change_places_are_allowed_to() -> None:
    """A mean square next to eps: in float32 an implementation may take either for the larger."""
    definition = rms_norm(weight=False, eps_placement="clamped")
    eps = 2.0**-20
    near = np.array([[1.0, 1.0 + 2.0**-23]]) * 2.0**-10
    far = 3.0 * near
    upstream = np.array([[1.0, -0.5]])

    def gradient(x: Any, at: float, dtype: str) -> Expected:
        parameters, arrays = {"rows": 1, "d": 2, "eps": at}, {"x": x, "upstream": upstream}
        return expected_gradients(definition, ("x",), parameters, arrays, contract(dtype))[0]

    above, below = gradient(near, eps / 2, "float32"), gradient(near, eps * 2, "float32")
    between = gradient(near, eps, "float32")
    for side in (above, below):
        assert side.allowance.max() < 0.01 * np.abs(side.value).max()
    apart = np.abs(gradient(near, eps * (1 - 2e-6), "float64").value
                   - gradient(near, eps * (1 + 2e-6), "float64").value)  # fmt: skip
    assert (between.allowance >= 0.4 * apart).all()
    assert gradient(far, eps, "float32").allowance.max() < 0.01 * between.allowance.max()


def test_every_algebra_reads_a_share_alike() -> None:
    tape = gradients(indexer("weighted"), NAMES)
    arrays, key = call(), tuple(SIZE.items())
    with precision():
        balls = planned(tape, BALLS, key)(arrays)
        exact = planned(tape, RATIONALS, key)(arrays)
        for ball, fraction, given in zip(balls, exact, right(arrays), strict=True):
            value = fraction.astype(float)
            assert (np.abs(midpoints(ball)[0] - value) <= radii(ball)).all()
            assert (np.abs(given.value - value) <= given.allowance).all()
    assert "np.heaviside(" in source(gradients(indexer("plain"), ("q",)))
