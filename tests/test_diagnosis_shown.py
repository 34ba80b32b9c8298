"""A diagnosis explains the call that is shown too, and takes NaN for evidence only where both have
it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from attnspec.diagnosis import Explanation, explanations
from attnspec.driving import Effort, outcome_of
from attnspec.evidence import Evidence
from attnspec.judging import judged
from attnspec.message import failure_text
from attnspec.oracle.law import Inputs
from tests.stubs import SMALL, attention, attention_call, law_of_id, outcome, subject, target
from tests.test_messages import COMMAND, INPUTS, LAW, judgement

MORE = Effort(examples=100)
ORACLE = law_of_id("attention.matches_oracle")


def evidence(shown: Inputs | None, drawn: Inputs, function: Any) -> Evidence:
    mine = subject(function, "attention")
    found = None if shown is None else (shown, judged(ORACLE, mine, shown))
    failures = [(drawn, judged(ORACLE, mine, drawn))]
    assert failures[0][1].fails
    return Evidence(ORACLE, mine, failures, [], forward=ORACLE, shown=found)


def test_a_fault_that_does_not_explain_the_shown_call_is_not_named() -> None:
    def function(q: Any, k: Any, v: Any) -> Any:
        # without a scale, and of one query twice the result
        return attention(q, k, v, scale=1.0) * (2.0 if q.shape[2] == 1 else 1.0)

    drawn = attention_call()
    shown = drawn.with_arrays(q=drawn.arrays["q"][:, :, :1])
    fault = "attention.scale_left_out"
    assert fault in [e.id for e in explanations(evidence(None, drawn, function))]
    assert fault not in [e.id for e in explanations(evidence(shown, drawn, function))]


def test_a_convention_that_does_not_explain_the_shown_call_is_not_named() -> None:
    def function(q: Any, k: Any, v: Any, *, mask: Any = None) -> Any:
        # NaN in rows that see nothing, and of one query twice the result
        return attention(q, k, v, mask=mask) * (2.0 if q.shape[2] == 1 else 1.0)

    drawn = attention_call(mask=np.array([[True] * 4, [True] * 4, [False] * 4]))
    shown = attention_call()
    shown = shown.with_arrays(q=shown.arrays["q"][:, :, :1])
    convention = "convention:attention.empty_row=nan"
    assert convention in [e.id for e in explanations(evidence(None, drawn, function))]
    assert convention not in [e.id for e in explanations(evidence(shown, drawn, function))]


def all_nan(q: Any, k: Any, v: Any, *, bias: Any = None) -> Any:
    zero = 0.0 * (q.sum() + k.sum() + v.sum())
    return q.new_full((*q.shape[:3], v.shape[3]), math.nan) + zero


@pytest.mark.parametrize(
    "identity",
    ["matches_oracle", "gradients_of_values_adjoint", "mask_read_off", "within_values"],
)
def test_nan_everywhere_is_no_known_mistake(identity: str) -> None:
    row = law_of_id(f"attention.{identity}")
    found = outcome_of(row, target(attention=all_nan), "float32", "cpu", SMALL)
    assert (found.status, found.diagnosis) == ("fail", ())


def test_a_mistake_that_gives_nan_is_still_recognised() -> None:
    def no_maximum(q: Any, k: Any, v: Any) -> Any:
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
        weights = (q @ k.mT * q.shape[-1] ** -0.5).exp()
        return weights / weights.sum(-1, keepdim=True) @ v

    found = outcome_of(ORACLE, target(attention=no_maximum), "float32", "cpu", MORE)
    assert found.status == "fail"
    assert found.diagnosis[0] == "attention.no_maximum"


def test_a_lost_gradient_of_a_bias_is_no_bias_that_is_misread() -> None:
    def detached(q: Any, k: Any, v: Any, *, bias: Any = None) -> Any:
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
        return attention(q, k, v, bias=None if bias is None else bias.detach())

    row = law_of_id("attention.gradients_match_oracle")
    found = outcome_of(row, target(attention=detached), "float32", "cpu", SMALL)
    assert found.reason == "gives no gradient of bias: it is None"
    assert found.diagnosis == ("attention.gradient_of_bias_missing",)


def test_of_too_many_explanations_none_is_called_likely() -> None:
    explained = [Explanation(f"fault.{i}", 0.0, "it is wrong") for i in range(9)]
    text = failure_text(LAW, INPUTS, judgement(), explained, COMMAND)
    assert (
        "Likely mistake: 9 known ones give these results, which tell too little: fault.0, "
        "fault.1, fault.2, fault.3, fault.4, fault.5 and 3 more.\n"
    ) in text
    assert "Looks like" not in text


def test_a_rounding_could_be_and_a_known_mistake_looks_like() -> None:
    explained = [Explanation("precision:tables=float16", 0.0, "tables may be rounded")]
    text = failure_text(LAW, INPUTS, judgement(), explained, COMMAND)
    assert "\nCould be precision:tables=float16: tables may be rounded\n" in text


def test_an_exception_is_not_called_unknown() -> None:
    def softmax(x: Any, *, dim: int = -1) -> Any:
        raise ValueError("no")

    found = outcome(softmax)
    assert "It raised ValueError: no (" in found.text
    assert "nothing known" not in found.text
    assert (
        '\nTo do: if softmax is not made for such calls, declare its limits={"softmax": '
        '{"AXIS": SIZES}} in TARGET, or raise NotImplementedError, which is not tested; else '
        "answer them\n"
    ) in found.text
