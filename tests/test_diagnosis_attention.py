"""What explains a failure of attention: its output, or its gradients."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from attnspec import diagnosis
from attnspec.driving import outcome_of
from attnspec.impls.faults.fault import Fault
from attnspec.outcome import Outcome
from tests.stubs import SMALL, law_of_id, target


def found(law: str, attention: Any, dtype: str = "float32", **declared: Any) -> Outcome:
    loaded = target(declared, attention=attention)
    return outcome_of(law_of_id(f"attention.{law}"), loaded, dtype, "cpu", SMALL)


def attention(
    q: Any, k: Any, v: Any, *, mask: Any = None, causal: bool = False, aligned: str = "right",
    empty: float = 0.0,
) -> Any:  # fmt: skip
    wide = torch.promote_types(q.dtype, torch.float32)
    q, k, v, stored = q.to(wide), k.to(wide), v.to(wide), q.dtype
    repeats = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
    scores = q @ k.mT * q.shape[-1] ** -0.5
    t, s = scores.shape[-2:]
    seen = torch.ones(t, s, dtype=torch.bool)
    if causal:
        seen = seen.tril(s - t if aligned == "right" else 0)
    seen = seen if mask is None else seen & mask
    weights = torch.softmax(scores.masked_fill(~seen, -math.inf), -1)
    nothing = ~seen.any(-1, keepdim=True)
    return torch.where(nothing, empty, torch.where(nothing, 0.0, weights) @ v).to(stored)


@pytest.mark.parametrize("law", ["matches_oracle", "gradients_match_oracle"])
def test_another_alignment_is_named(law: str) -> None:
    def top_left(q: Any, k: Any, v: Any, *, mask: Any = None, causal: bool = False) -> Any:
        return attention(q, k, v, mask=mask, causal=causal, aligned="left")

    assert found(law, attention).status != "fail"
    outcome = found(law, top_left)
    assert outcome.diagnosis[0] == "convention:attention.causal_alignment=top-left"
    assert "causal=True" in outcome.case
    declared = {"attention.causal_alignment": "top-left"}
    assert found(law, top_left, conventions=declared).status != "fail"


def test_what_promises_something_explains_before_what_does_not() -> None:
    def nan_rows(q: Any, k: Any, v: Any, *, mask: Any = None) -> Any:
        return attention(q, k, v, mask=mask, empty=math.nan)

    outcome = found("empty_rows", nan_rows)
    assert outcome.status == "fail"
    assert [d for d in outcome.diagnosis if d.startswith("convention:")] == [
        "convention:attention.empty_row=nan"
    ]


def doubled(q: Any, k: Any, v: Any) -> Any:
    """The right output, and twice the gradient of the keys."""
    return attention(q, 2.0 * k - k.detach(), v)


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Fault:
    wrong = Fault(
        id="attention.keys_twice",
        component="attention",
        kind="K01",
        reason="adds the gradient of the keys twice",
        remedy="Add it once.",
        law="attention.gradients_match_oracle",
        functions=lambda: {"attention": doubled},
    )
    monkeypatch.setattr(diagnosis, "all_faults", lambda: {wrong.id: wrong})
    return wrong


@pytest.mark.parametrize("law", ["gradients_match_oracle", "gradients_of_scores_adjoint"])
def test_a_known_mistake_of_gradients_is_named(law: str, fault: Fault) -> None:
    def mine(q: Any, k: Any, v: Any) -> Any:
        return doubled(q, k, v) + 0.0

    outcome = found(law, mine, "float64")
    assert outcome.diagnosis == (fault.id,)
    assert "torch.autograd.grad(output, (q, k, v), upstream)" in outcome.text


@pytest.mark.usefixtures("fault")
def test_another_mistake_of_gradients_is_not() -> None:
    def other(q: Any, k: Any, v: Any) -> Any:
        return attention(2.0 * q - q.detach(), k, v)

    outcome = found("gradients_match_oracle", other)
    assert outcome.status == "fail"
    assert outcome.diagnosis == ()


def test_a_missing_gradient_is_told() -> None:
    def lost(q: Any, k: Any, v: Any) -> Any:
        return attention(q, k.detach(), v)

    outcome = found("gradients_match_oracle", lost)
    assert outcome.reason == "gives no gradient of k: it is None"
    assert "It gives no gradient of k: it is None" in outcome.text
