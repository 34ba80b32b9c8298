"""The claims on residual blocks, without their derivations: by plain loops, by differences, and by
layers stacked and counted."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from attnspec.spec import residual_block
from attnspec.spec.claim import is_closed
from attnspec.spec.residual_block_definition import block
from attnspec.spec.rms_norm_definition import Entry
from tests.registered import shown, still_open

Array = np.ndarray[Any, Any]
DIGITS = 50


def layer_norm(row: list[Any]) -> list[Any]:
    """Without eps."""
    middle = sum(row) / len(row)
    variance = sum((v - middle) ** 2 for v in row) / len(row)
    return [(v - middle) / mpmath.sqrt(variance) for v in row]


def test_a_pre_norm_block_is_not_normalised() -> None:
    both = shown("residual_block.norm_after_sublayer")
    with mpmath.workdps(DIGITS):
        row = [mpmath.mpf(3), mpmath.mpf(1)]
        nothing = [mpmath.mpf(0)] * 2
        post = layer_norm([a + b for a, b in zip(row, nothing, strict=True)])
        pre = [a + b for a, b in zip(row, nothing, strict=True)]
        assert (post[0], pre[0]) == (int(both.stated), int(both.actual))


def test_pre_norm_layers_telescope_and_post_norm_layers_do_not() -> None:
    """Rational rows and a norm by the largest size, so that nothing is rounded."""
    g = np.random.default_rng(2)
    row = [Fraction(int(v), 7) for v in g.integers(-9, 10, 5)]
    weights = g.integers(-3, 4, (6, 5, 5)).tolist()

    def norm(x: list[Fraction]) -> list[Fraction]:
        largest = max(abs(v) for v in x) or Fraction(1)
        return [v / largest for v in x]

    def branch(layer: int, x: list[Fraction]) -> list[Fraction]:
        return [sum((w * v for w, v in zip(line, x, strict=True)), Fraction(0))
                for line in weights[layer]]  # fmt: skip

    pre, post, added = list(row), list(row), [Fraction(0)] * 5
    post_added = list(added)
    for layer in range(6):
        update = branch(layer, norm(pre))
        added = [a + u for a, u in zip(added, update, strict=True)]
        pre = [v + u for v, u in zip(pre, update, strict=True)]
        update = branch(layer, post)
        post_added = [a + u for a, u in zip(post_added, update, strict=True)]
        post = norm([v + u for v, u in zip(post, update, strict=True)])
    assert [b - a for a, b in zip(row, pre, strict=True)] == added
    assert [b - a for a, b in zip(row, post, strict=True)] != post_added


def test_the_jacobian_of_pre_norm_contains_the_identity() -> None:
    """By central differences at many digits: the block's less the branch's."""
    g = np.random.default_rng(3)
    w = [[mpmath.mpf(v) for v in line] for line in g.standard_normal((4, 4)).tolist()]
    row = [mpmath.mpf(v) for v in g.standard_normal(4).tolist()]

    def branch(x: list[Any]) -> list[Any]:
        hat = layer_norm(x)
        return [mpmath.fsum(a * b for a, b in zip(line, hat, strict=True)) for line in w]

    def whole(x: list[Any]) -> list[Any]:
        return [a + b for a, b in zip(x, branch(x), strict=True)]

    with mpmath.workdps(60):
        step = mpmath.mpf(10) ** -20
        for k in range(4):
            up, down = list(row), list(row)
            up[k] += step
            down[k] -= step
            for c in range(4):
                slopes = [(f(up)[c] - f(down)[c]) / (2 * step) for f in (whole, branch)]
                assert abs(slopes[0] - slopes[1] - (c == k)) < mpmath.mpf(10) ** -30
                moved = layer_norm([v + 5 for v in row])[c] - layer_norm(row)[c]
                assert abs(moved) < mpmath.mpf(10) ** -50


def test_variances_of_uncorrelated_branches() -> None:
    """Exact designs in place of samples: the rows of a Hadamard matrix are uncorrelated, of mean 0
    but for the first, and of variance 1."""
    hadamard = np.array([[1]])
    while len(hadamard) < 32:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    start, *branches = hadamard[1:21].tolist()
    with mpmath.workdps(DIGITS):
        pre, post = list(start), [mpmath.mpf(v) for v in start]
        for layer, branch in enumerate(branches, 1):
            pre = [a + b for a, b in zip(pre, branch, strict=True)]
            assert sum(pre) == 0
            assert sum(v * v for v in pre) == 32 * (1 + layer)
            post = layer_norm([a + b for a, b in zip(post, branch, strict=True)])
            share = mpmath.fsum(a * b for a, b in zip(post, start, strict=True)) / 32
            assert abs(share - mpmath.mpf(2) ** (-mpmath.mpf(layer) / 2)) < mpmath.mpf(10) ** -45


def exchanged(placement: str, x: Entry, sublayer: Any, norm: Any) -> Entry:
    """The sublayer of the norm of the row, and the norm once more on the stream."""
    right = block(placement, x, sublayer, norm)
    return norm(right) if placement == "pre" else right


def unnormalised_branch(placement: str, x: Entry, sublayer: Any, norm: Any) -> Entry:
    return block(placement, x, sublayer, lambda row: row)


@pytest.mark.parametrize("wrong", [exchanged, unnormalised_branch])
def test_another_wiring_opens_the_derivation(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residual_block, "block", wrong)
    assert still_open("residual_block.placements")


def test_a_block_without_the_stream_opens_the_jacobian(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_stream(placement: str, x: Entry, sublayer: Any, norm: Any) -> Entry:
        return sublayer(norm(x))  # type: ignore[no-any-return]

    monkeypatch.setattr(residual_block, "block", no_stream)
    assert not all(is_closed(step) for step in residual_block.identity_in_jacobian())


def test_every_counterexample_of_this_component_is_tested_here() -> None:
    found = {entry.id for entry in residual_block.CLAIMS if entry.counterexample}
    assert found == {"residual_block.norm_after_sublayer"}
