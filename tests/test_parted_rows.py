"""Rows of attention that are taken in parts and differentiated step by step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from attnspec.loading import load
from attnspec.oracle.attention_values import gradients
from attnspec.oracle.law import Inputs
from attnspec.oracle.parted_rows import lost_in_parts
from attnspec.oracle.plan import Plan
from attnspec.oracle.precision import EVALUATION, contract, snapped
from attnspec.subject import Subject

SPIKES = (0, 6, 12, 20, 30)
"""Logarithms to base 2 of one value among normal ones."""


def by_parts(size: int) -> Any:
    """Attention over so many keys at a time, merged by logaddexp; autograd does the rest."""

    def attention(q: Any, k: Any, v: Any, *, bias: Any) -> Any:
        given = q.dtype
        q, k, v, bias = (x.to(torch.promote_types(given, torch.float32)) for x in (q, k, v, bias))
        scores = q @ k.mT * q.shape[-1] ** -0.5 + bias
        parts = [
            (torch.softmax(x, -1) @ w, torch.logsumexp(x, -1, keepdim=True))
            for x, w in zip(scores.split(size, -1), v.split(size, -2), strict=True)
        ]
        output, lse = parts[0]
        for one, own in parts[1:]:
            merged = torch.logaddexp(lse, own)
            output = output * (lse - merged).exp() + one * (own - merged).exp()
            lse = merged
        return output.to(given)

    return SimpleNamespace(attention=attention)


def call(rng: np.random.Generator, dtype: str, spike: int, n: int) -> Inputs:
    """Keys of which a few have nearly all the weight, and one huge value."""
    shapes = {"q": (1, 2, 3, 4), "k": (1, 2, n, 4), "v": (1, 2, n, 5), "bias": (1, 2, 3, n)}
    arrays = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    arrays["bias"] *= 2.0 ** rng.integers(0, 5)
    arrays["v"][..., rng.integers(n), :] *= 2.0**spike
    return Inputs("attention", dtype, {name: snapped(x, dtype) for name, x in arrays.items()})


def worst(dtype: str, size: int, *, whole: bool = False) -> float:
    """Error over allowance of all gradients, of many calls; with `whole` less what parts lose."""
    rng = np.random.default_rng(3)
    mine = Subject(load(by_parts(size)), "attention", dtype)
    found = 0.0
    for turn in range(60):
        given = call(rng, dtype, SPIKES[turn % len(SPIKES)], (7, 16, 20)[turn % 3])
        upstream = snapped(rng.standard_normal((1, 2, 3, 5)), dtype)
        right = gradients(mine, given, upstream)
        for name, actual in mine.gradients(given, upstream).items():
            off = np.abs(actual - right[name].value)
            found = max(found, float((off / right[name].allowance).max()))
    return found


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("size", [2, 5, 16])
def test_parts_differentiated_step_by_step_are_within_the_allowance(dtype: str, size: int) -> None:
    assert worst(dtype, size) <= 1.0


def test_without_what_parts_lose_they_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "attnspec.oracle.error_reductions.lost_in_parts", lambda *_: lambda *given: 0.0
    )
    monkeypatch.setattr("attnspec.oracle.expected.planned", unkept)
    assert worst("float32", 5) > 1.0


def unkept(tape: Any, algebra: Any, parameters: Any) -> Any:
    """A plan that is made anew."""
    return Plan(tape, algebra, dict(parameters))


def test_no_share_of_two_keys_is_larger_than_what_is_lost() -> None:
    rng = np.random.default_rng(1)
    for n in (1, 2, 9):
        lost, seen, zero = lost_in_parts(contract("float32"), 1, n, 4), np.full((3, n), True), 0.0
        p, sizes = rng.random((3, n)) ** 4, 2.0 ** rng.integers(-9, 9, (3, n))
        ones, logits = np.ones((3, n)), np.zeros((3, n))
        unit = lost((ones, zero), ones, logits, seen)
        least = np.minimum(p[:, :, None], p[:, None, :])
        shared = np.minimum(p * sizes.max(1, keepdims=True), (least * sizes[:, None, :]).sum(2))
        found = lost((p, zero), sizes, logits, seen)
        assert (found * (1.0 + EVALUATION) >= unit * shared).all()
        assert (found <= unit * p * sizes.max(1, keepdims=True) * (1.0 + EVALUATION)).all()


def test_nothing_is_lost_where_nothing_is_seen_and_anything_where_it_may_overflow() -> None:
    p = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]), np.full((2, 3), 1e-8)
    seen = np.array([[True, True, False], [False, False, False]])
    logits = np.where(seen, 1.0, -np.inf)
    lost = lost_in_parts(contract("float32"), 1, 3, 4)
    found = lost(p, np.full((2, 3), 8.0), logits, seen)
    assert ((found > 0.0) == seen).all()
    with np.errstate(invalid="ignore"):
        huge = lost((p[0], p[1] * 0.0), np.full((2, 3), np.inf), logits, seen)
    assert np.array_equal(huge, np.where(seen, np.inf, 0.0))
