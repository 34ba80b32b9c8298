"""Driving one law: what is drawn, what counts as a failure, what is not tested and why."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from attnspec import search
from attnspec.driving import Effort
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.minimiser import SIMPLIFIED
from tests.stubs import SMALL, law, law_of_id, near, none, outcome, wrong


def test_a_law_that_holds() -> None:
    found = outcome()
    assert (found.status, found.examples, found.failing, found.text) == ("pass", 20, 0, "")
    assert found.ratio is not None
    assert 0.0 < found.ratio < 1.0


def test_tiers_say_how_many_examples() -> None:
    assert [Effort(tier=tier).count for tier in ("smoke", "full", "deep")] == [20, 150, 1000]
    assert Effort(tier="deep", examples=7).count == 7
    assert outcome(effort=Effort(examples=7)).examples == 7


def drawn(seed: int, dtype: str = "float32") -> list[bytes]:
    calls: list[bytes] = []

    def record(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        calls.append(search.key(inputs))
        return near(implementation, inputs)

    outcome(row=law(record, kind="exact"), dtype=dtype, effort=replace(SMALL, seed=seed))
    return calls


def test_the_same_seed_gives_the_same_calls_in_the_same_order() -> None:
    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)
    assert len(set(drawn(3))) > 15


def test_the_seed_of_a_law_is_the_same_everywhere() -> None:
    # a change of this number changes every case of every run with the same seed
    assert search.stable_seed(0, "softmax.near", "float32", "cpu") == 0x85D6FC60B408B2A5
    assert search.stable_seed(0, "a", "b") != search.stable_seed(0, "ab", "")
    assert search.stable_seed(0, "a") != search.stable_seed(1, "a")


def test_a_law_that_fails_is_shown_on_a_simple_call() -> None:
    found = outcome(wrong)
    assert found.status == "fail"
    assert found.failing >= 3
    assert found.ratio is not None
    assert found.ratio > 1.0
    assert found.reason.startswith("output[")
    assert "times the allowance" in found.reason
    assert "softmax(x" in found.case
    assert len(found.case) < 400


def test_a_failure_is_found_again_from_its_seed() -> None:
    assert outcome(wrong) == outcome(wrong)


def test_deep_is_guided_by_the_ratio_and_repeatable() -> None:
    effort = Effort(tier="deep", examples=60)
    first = outcome(dtype="float64", effort=effort)
    # the ratio may lead to calls of which little can be judged
    assert (first.status != "fail", first.examples) == (True, 60)
    assert first == outcome(dtype="float64", effort=effort)
    assert outcome(wrong, effort=effort) == outcome(wrong, effort=effort)


def test_shrinking_has_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SHRINKING_SECONDS", -1.0)
    found = outcome(wrong)
    assert found.status == "fail"
    assert found.case


def test_a_failure_that_is_only_seen_in_large_calls_keeps_failing() -> None:
    def large(x: Any, *, dim: int = -1) -> Any:
        right = torch.softmax(x, dim)
        return right * 2 if x.numel() > 30 else right

    found = outcome(large)
    assert found.status == "fail"
    assert "float32" in found.case


def unsteady() -> Callable[..., Any]:
    count = iter(range(10**9))

    def noisy(x: Any, *, dim: int = -1) -> Any:
        right = torch.softmax(x, dim)
        return right + 0.5 if next(count) % 3 == 0 else right

    return noisy


def test_a_result_that_changes_is_told_as_not_repeatable() -> None:
    found = outcome(unsteady())
    assert found.status == "fail"
    assert found.reason.startswith("not repeatable; ")
    assert "not repeatable: the same call gave different results" in found.text
    assert found.diagnosis == ()


def shape(x: Any, *, dim: int = -1) -> Any:
    return torch.softmax(x, dim)[None]


def dtype(x: Any, *, dim: int = -1) -> Any:
    return torch.softmax(x, dim).double()


def device(x: Any, *, dim: int = -1) -> Any:
    return torch.softmax(x, dim).to("meta")


def nan(x: Any, *, dim: int = -1) -> Any:
    return torch.softmax(x, dim) * math.nan


def raises(x: Any, *, dim: int = -1) -> Any:
    if x.ndim == 3:
        raise ValueError("three axes")
    return torch.softmax(x, dim)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (none, "returned None; expected a torch tensor"),
        (shape, "returned shape ("),
        (dtype, "returned dtype float64; expected dtype float32"),
        (device, "returned device meta; expected device cpu"),
        (nan, "times the allowance"),
        (raises, "raised ValueError: three axes (test_driving.py, line "),
    ],
)
def test_results_that_are_wrong_in_kind(function: Callable[..., Any], reason: str) -> None:
    found = outcome(function)
    assert found.status == "fail"
    assert reason in found.reason
    assert found.reason in found.text or "actual    nan" in found.text


def changes(x: Any, *, dim: int = -1) -> Any:
    return x.copy_(torch.softmax(x, dim))


def test_changed_inputs_are_seen_by_their_law() -> None:
    found = outcome(changes, law_of_id("softmax.inputs_unchanged"))
    assert found.status == "fail"
    assert found.reason.startswith("x changed at [")
    assert f"Changed: {found.reason}\n" in found.text


def test_a_simplified_call_that_its_law_cannot_be_asked_about_is_no_failure() -> None:
    def picky(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        if inputs.pattern == SIMPLIFIED:
            raise IndexError("not what the family draws")
        return near(implementation, inputs)

    found = outcome(lambda x, dim=-1: torch.softmax(x, dim) * 2, law(picky))
    assert (found.status, found.error) == ("fail", "")


def test_a_law_that_makes_further_calls_says_so() -> None:
    def twice(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        return [*near(implementation, inputs), *near(implementation, inputs)]

    assert "The call is made 2 times." in outcome(wrong, law(twice)).text
    assert "is made" not in outcome(wrong).text


def test_the_call_that_is_shown_is_the_one_that_was_made() -> None:
    def of_fives(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        return near(implementation, Inputs("softmax", inputs.dtype, {"x": np.full((2, 3), 5.0)}))

    found = outcome(wrong, law(of_fives))
    line = "x = torch.tensor([[5.0, 5.0, 5.0], [5.0, 5.0, 5.0]], dtype=torch.float32)\n"
    assert line in found.text
    assert line in found.case
    assert found.text.count("Call (") == 1


def numpy_softmax(x: Any, *, dim: int = -1) -> Any:
    wide = x.astype(np.float64)
    weights = np.exp(wide - wide.max(axis=dim, keepdims=True))
    return (weights / weights.sum(axis=dim, keepdims=True)).astype(x.dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_a_target_over_numpy_arrays(dtype: str) -> None:
    row = law_of_id("softmax.repeatable")
    assert outcome(numpy_softmax, row, dtype=dtype, arrays="numpy").status == "pass"


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_a_target_over_dlpack(dtype: str) -> None:
    def exchanged(x: Any, *, dim: int = -1) -> Any:
        return torch.softmax(torch.utils.dlpack.from_dlpack(x), dim)

    row = law_of_id("softmax.repeatable")
    assert outcome(exchanged, row, dtype=dtype, arrays="dlpack").status == "pass"


def test_a_failing_call_is_written_for_the_targets_arrays() -> None:
    found = outcome(lambda x, dim=-1: numpy_softmax(x, dim=0), arrays="numpy")
    assert "import numpy as np" in found.case
    assert "torch" not in found.case


def test_an_exception_of_any_kind_is_the_targets_failure() -> None:
    class Odd(BaseException):
        pass

    def softmax(x: Any, *, dim: int = -1) -> Any:
        raise Odd("no such thing")

    found = outcome(softmax)
    assert found.status == "fail"
    assert "raised Odd: no such thing" in found.reason


def test_a_changed_form_of_an_input_is_told() -> None:
    def softmax(x: Any, *, dim: int = -1) -> Any:
        result = torch.softmax(x, dim)
        if x.ndim > 1:
            x.transpose_(0, 1)
        return result

    found = outcome(softmax, law_of_id("softmax.inputs_unchanged"))
    assert found.status == "fail"
    assert "x itself was changed" in found.reason
