"""What is not tested, and why; mistakes of the suite itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from attnspec.driving import outcome_of
from attnspec.judging import LawError, judged
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.law import Implementation, Inputs
from attnspec.shares import untested
from attnspec.subject import Subject
from tests.stubs import SMALL, Check, law, law_of_id, near, outcome, softmax, target


def test_a_signature_that_does_not_fit_is_a_failure_without_any_call() -> None:
    found = outcome(lambda x, temperature: x)
    assert (found.status, found.examples) == ("fail", 0)
    assert "the contract calls softmax(x), but softmax(x, temperature) refuses" in found.reason


def test_a_law_about_an_option_that_is_not_accepted() -> None:
    found = outcome(lambda x: torch.softmax(x, -1), law(options=("dim",)))
    assert (found.status, found.reason) == ("not-tested", "softmax does not accept dim")


def test_a_dtype_or_device_that_the_target_does_not_name() -> None:
    found = outcome(dtypes=("float64",))
    assert found.status == "not-tested"
    assert found.reason == "the target does not name float32 among its own"
    assert outcome(devices=("cuda",)).reason == "the target does not name cpu among its own"


def test_limits_that_leave_nothing() -> None:
    rope = target({"limits": {"d": {3}}}, rope=lambda x, positions: x)
    found = outcome_of(law_of_id("rope.linearity"), rope, "float32", "cpu", SMALL)
    assert found.status == "not-tested"
    assert "no legal call: " in found.reason


def test_limits_hold_for_every_call() -> None:
    sizes = set()

    def rope(x: Any, positions: Any) -> Any:
        sizes.add(x.shape[-1])
        return x

    loaded = target({"limits": {"d": {8}}}, rope=rope)
    outcome_of(law_of_id("rope.linearity"), loaded, "float32", "cpu", SMALL)
    assert sizes == {8}


def test_too_little_that_can_be_judged_is_not_a_pass() -> None:
    def vague(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        (one,) = near(implementation, inputs)
        return [replace(one, allowance=np.ones_like(one.expected) * 1e3)]

    found = outcome(row=law(vague))
    assert found.status == "not-tested"
    assert "of the elements could be judged" in found.reason


def test_a_law_that_compares_nothing_is_not_a_pass() -> None:
    found = outcome(row=law(lambda implementation, inputs: []))
    assert (found.status, found.reason) == ("not-tested", "applies to none of the calls drawn")


def test_a_guarantee_that_nobody_gave_is_only_watched() -> None:
    def exact(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        promised = "batch-invariant" in implementation.guarantees
        same = implementation(inputs)
        return [Comparison("row", same, same + (same.ndim > 1), None, inputs.dtype,
                           promised=promised)]  # fmt: skip

    row = law(exact, guarantee="batch-invariant", kind="exact")
    found = outcome(row=row)
    assert (found.status, found.reason) == ("not-tested", "batch-invariant is not promised")
    assert found.guarantee == "batch-invariant"
    assert 0 < found.held < found.watched == 20
    promised = outcome(row=row, guarantees=("batch-invariant",))
    assert (promised.status, promised.watched) == ("fail", 0)
    assert "same bits" in promised.reason


def test_the_tightest_preset_is_the_last_that_holds() -> None:
    def where(tight: float) -> Check:
        """Generous to what rounds probabilities, and `tight` to what doesn't."""

        def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
            (one,) = near(implementation, inputs)
            loose = implementation.contract.probabilities == "bfloat16"
            return [replace(one, allowance=one.expected * (0.05 if loose else tight))]

        return check

    assert outcome(row=law(where(0.05)), dtype="bfloat16").preset == "strict"
    assert outcome(row=law(where(0.0)), dtype="bfloat16").preset == "flash"
    gradients = law(where(0.0), id="softmax.gradients_match_oracle", kind="gradient")
    assert outcome(row=gradients, dtype="bfloat16").preset == "flash"
    assert outcome(row=law(where(0.0), kind="exact"), dtype="bfloat16").preset == ""


def test_a_mistake_in_a_law_is_the_suites_and_not_the_targets() -> None:
    def broken(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        raise IndexError("oops")

    found = outcome(row=law(broken))
    assert found.status == "not-tested"
    assert found.error.startswith("softmax.near: IndexError: oops (test_untested.py, line ")
    with pytest.raises(LawError, match=r"softmax\.near: IndexError"):
        judged(law(broken), Subject(target(softmax=softmax), "softmax", "float32"), a_call())


def a_call() -> Inputs:
    return Inputs("softmax", "float32", {"x": np.ones((2, 3))})


def test_a_family_that_does_not_exist_is_a_mistake_in_the_law() -> None:
    with pytest.raises(LawError, match="no family of inputs 'sofmax'"):
        outcome(row=law(inputs="sofmax"))


def grows(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The gradient of the sum of a softmax vanishes; 1 is added, so that there is a scale."""
    x = inputs.arrays["x"]
    (gradient,) = implementation.gradients(inputs, np.ones(x.shape)).values()
    allowance = np.full(x.shape, 1e-3)
    one = np.ones(x.shape)
    return [Comparison("1 + gradient of x", one + gradient, one, allowance, inputs.dtype)]


GRADIENTS = law(grows, id="softmax.gradient_vanishes", kind="gradient", gradients=True)


@pytest.mark.parametrize(
    "declared", [{"gradients": False}, {"gradients": ("rope",)}, {"arrays": "numpy"}]
)
def test_a_law_about_gradients_where_there_are_none(declared: dict[str, Any]) -> None:
    found = outcome(row=GRADIENTS, **declared)
    assert found.status == "not-tested"
    assert found.reason == "the target has no gradients of softmax"
    assert found.examples == 0
    (entry,) = untested(target(declared, softmax=softmax), [found], ["softmax"])
    assert (entry.component, entry.option, entry.reason) == ("softmax", "gradients", found.reason)


def test_a_law_about_gradients_where_there_are_some() -> None:
    assert outcome(row=GRADIENTS, gradients=("softmax",)).status == "pass"
    assert untested(target({}, softmax=softmax), [], ["softmax"]) == ()
    found = outcome(lambda x, dim=-1: torch.softmax(x, dim) * x, GRADIENTS)
    assert found.status == "fail"
    assert "torch.autograd.grad(output, (x,), upstream)" in found.case
    assert "torch.autograd.grad(output, (x,), upstream)" in found.text
    lost = outcome(lambda x, dim=-1: torch.softmax(x, dim).detach(), GRADIENTS)
    assert lost.reason.startswith("returned an output that does not require grad")
