"""Driving laws: what is drawn, what counts as a failure, what is not tested and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import attnspec
from attnspec import diagnosis, runner, search
from attnspec.catalogue import all_faults
from attnspec.driving import Effort, outcome_of
from attnspec.impls.faults.fault import Fault
from attnspec.judging import LawError, judged
from attnspec.loading import Loaded, load
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.law import Implementation, Inputs, Law
from attnspec.outcome import Outcome, Run
from attnspec.runner import Selection, run
from attnspec.subject import Subject
from attnspec.usage import UsageError

SMALL = Effort(tier="smoke")
Check = Callable[[Implementation, Inputs], list[Comparison]]


def softmax(x: Any, *, dim: int = -1) -> Any:
    return torch.softmax(x, dim)


def target(declared: Mapping[str, Any] | None = None, **functions: Any) -> Loaded:
    declaration = attnspec.Target(**{"name": "mine", **(declared or {})})
    return load(SimpleNamespace(TARGET=declaration, **functions))


def expected(inputs: Inputs) -> Any:
    x, dim = inputs.arrays["x"], inputs.options.get("dim", -1)
    e = np.exp(x - x.max(axis=dim, keepdims=True))
    return e / e.sum(axis=dim, keepdims=True)


def near(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A plain law for these tests: softmax within a generous allowance."""
    right = expected(inputs)
    contract, x = implementation.contract, inputs.arrays["x"]
    # what the contract says of statistics decides the allowance
    unit = contract.format("statistics").roundoff + contract.format("output").roundoff
    spread = np.abs(x).max(initial=0.0)
    allowance = unit * (16.0 + 4.0 * spread) * right + contract.format("output").underflow
    return [Comparison("output", implementation(inputs), right, allowance, inputs.dtype)]


def law(check: Check = near, **fields: Any) -> Law:
    row = Law("softmax.near", "softmax", "it is near softmax", "it is wrong", "oracle", check,
              inputs="softmax")  # fmt: skip
    return replace(row, **fields)


def outcome(
    function: Callable[..., Any] = softmax,
    row: Law | None = None,
    dtype: str = "float32",
    effort: Effort = SMALL,
    **declared: Any,
) -> Outcome:
    return outcome_of(row or law(), target(declared, softmax=function), dtype, "cpu", effort)


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


def wrong(x: Any, *, dim: int = -1) -> Any:
    return torch.softmax(x, 0)


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
    first = outcome(effort=effort)
    assert (first.status, first.examples) == ("pass", 60)
    assert first == outcome(effort=effort)
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


def none(x: Any, *, dim: int = -1) -> Any:
    return None


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
        (raises, "raised ValueError: three axes (test_runner.py, line "),
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
    assert "same bits" in found.reason


def law_of_id(identity: str) -> Law:
    return next(row for row in runner.all_laws() if row.id == identity)


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


def test_a_mistake_in_a_law_is_the_suites_and_not_the_targets() -> None:
    def broken(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        raise IndexError("oops")

    found = outcome(row=law(broken))
    assert found.status == "not-tested"
    assert found.error.startswith("softmax.near: IndexError: oops (test_runner.py, line ")
    with pytest.raises(LawError, match=r"softmax\.near: IndexError"):
        judged(law(broken), Subject(target(softmax=softmax), "softmax", "float32"), a_call())


def a_call() -> Inputs:
    return Inputs("softmax", "float32", {"x": np.ones((2, 3))})


def test_a_family_that_does_not_exist_is_a_mistake_in_the_law() -> None:
    with pytest.raises(LawError, match="no family of inputs 'sofmax'"):
        outcome(row=law(inputs="sofmax"))


# what explains a failure


def rotate_half(x: Any, positions: Any, *, base: float = 10000.0) -> Any:
    d = x.shape[-1]
    angles = positions.double()[..., None] * base ** (-torch.arange(0, d, 2).double() / d)
    angles = angles if positions.ndim == 1 else angles[:, None]
    cos, sin = angles.cos(), angles.sin()
    a, b = x.double().chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1).to(x.dtype)


@pytest.mark.parametrize("identity", ["rope.matches_oracle", "rope.basis_planes"])
def test_another_convention_is_named(identity: str) -> None:
    found = outcome_of(law_of_id(identity), target(rope=rotate_half), "float32", "cpu", SMALL)
    assert found.diagnosis[0] == "convention:rope.layout=half"
    assert 'declare conventions={"rope.layout": "half"} in TARGET' in found.text


def test_the_declared_convention_is_held() -> None:
    half = target({"conventions": {"rope.layout": "half"}}, rope=rotate_half)
    found = outcome_of(law_of_id("rope.basis_planes"), half, "float64", "cpu", SMALL)
    assert found.status == "pass"


def test_two_conventions_at_once_are_named() -> None:
    def backward(x: Any, positions: Any, *, base: float = 10000.0) -> Any:
        return rotate_half(x, -positions, base=base)

    found = outcome_of(
        law_of_id("rope.matches_oracle"), target(rope=backward), "float32", "cpu", SMALL
    )
    assert found.diagnosis[0] == "convention:rope.layout=half+rope.direction=backward"


@pytest.fixture
def one_fault(monkeypatch: pytest.MonkeyPatch) -> Fault:
    fault = Fault(
        id="softmax.first_axis",
        component="softmax",
        kind="K01",
        reason="normalises over the first axis",
        remedy="Normalise over `dim`.",
        law="softmax.near",
        functions=lambda: {"softmax": wrong},
    )
    monkeypatch.setattr(diagnosis, "all_faults", lambda: {fault.id: fault})
    return fault


def test_a_known_mistake_is_named(one_fault: Fault) -> None:
    found = outcome(lambda x, dim=-1: torch.softmax(x, 0) + 0.0)
    assert found.diagnosis == (one_fault.id,)
    assert f"Looks like {one_fault.id}: it {one_fault.reason}. {one_fault.remedy}" in found.text


@pytest.mark.usefixtures("one_fault")
def test_a_mistake_that_only_looks_alike_is_not_named() -> None:
    found = outcome(lambda x, dim=-1: torch.softmax(x, dim) * 2)
    assert found.diagnosis == ()
    assert "Likely mistake: nothing known gives these results." in found.text


@pytest.mark.usefixtures("one_fault")
def test_a_mistake_must_break_no_call_that_passes() -> None:
    def sometimes(x: Any, *, dim: int = -1) -> Any:
        return torch.softmax(x, 0 if x.ndim == 2 else dim)

    assert outcome(sometimes, effort=Effort(examples=60)).diagnosis == ()


@pytest.mark.usefixtures("one_fault")
def test_a_result_of_the_wrong_kind_is_no_known_mistake() -> None:
    assert outcome(none).diagnosis == ()


def test_a_looser_precision_is_named() -> None:
    def rounded(x: Any, *, dim: int = -1) -> Any:
        return torch.softmax(x, dim).bfloat16().float()

    found = outcome(rounded)
    assert found.status == "fail"
    assert found.diagnosis == ("precision:statistics=float16",)
    assert 'declare precision={"statistics": "float16"}' in found.text


@pytest.mark.slow
def test_most_faults_of_the_catalogue_are_recognised_in_other_code() -> None:
    """Those that are not keep state or are a matter of chance: their results depend on more
    than the call."""
    laws = {row.id: row for row in runner.all_laws()}
    recognised, missed = 0, []
    for fault in all_faults().values():
        declared = {"precision": fault.precision, "dtypes": fault.dtypes}
        loaded = target(declared, **fault.functions())
        found = outcome_of(laws[fault.law], loaded, loaded.dtypes[0], "cpu", SMALL)
        if fault.id in found.diagnosis:
            recognised += 1
        else:
            missed.append(fault.id)
    assert recognised >= 0.85 * (recognised + len(missed)), missed


# whole runs


@pytest.fixture
def laws(monkeypatch: pytest.MonkeyPatch) -> list[Law]:
    rows = [law(), law(id="softmax.again", kind="exact")]
    monkeypatch.setattr(runner, "all_laws", lambda: tuple(rows))
    return rows


def result(
    functions: Mapping[str, Any], selection: Selection | None = None, **declared: Any
) -> Run:
    loaded = target(declared, **functions)
    return run(loaded, selection or Selection(), SMALL)


@pytest.mark.usefixtures("laws")
def test_a_run_goes_by_law_and_dtype_in_a_fixed_order() -> None:
    found = result({"softmax": softmax})
    assert [(o.law, o.dtype) for o in found.outcomes] == [
        (row, dtype)
        for row in ("softmax.near", "softmax.again")
        for dtype in ("float64", "float32", "bfloat16", "float16")
    ]
    assert (found.target, found.verdict, found.exit_status) == ("mine", "conforms", 0)
    assert found.settings["cuda"] == "nothing ran on CUDA" or torch.cuda.is_available()


@pytest.mark.usefixtures("laws")
def test_a_selection_narrows_it() -> None:
    found = result({"softmax": softmax}, Selection(laws=("softmax.again",), dtypes=("bfloat16",)))
    assert [(o.law, o.dtype) for o in found.outcomes] == [("softmax.again", "bfloat16")]
    nothing = result({"softmax": softmax}, Selection(components=("rope",)))
    assert (nothing.outcomes, nothing.verdict, nothing.exit_status) == ((), "not-judged", 2)


@pytest.mark.usefixtures("laws")
def test_what_is_missing_is_listed() -> None:
    found = result({"softmax": lambda x: torch.softmax(x, -1), "attention": softmax})
    listed = {(u.component, u.option): u.reason for u in found.untested}
    assert listed["softmax", "dim"] == "the function does not accept it"
    assert listed["rope", ""] == "the target has no such function"
    assert listed["attention", ""] == "this version has no laws for it"


def not_double(x: Any, *, dim: int = -1) -> Any:
    if x.dtype == torch.float64:
        raise TypeError("no double")
    return torch.softmax(x, dim)


@pytest.mark.usefixtures("laws")
def test_a_dtype_that_the_target_did_not_name_and_does_not_have() -> None:
    found = result({"softmax": not_double})
    double = [o for o in found.outcomes if o.dtype == "float64"]
    assert {o.status for o in double} == {"not-tested"}
    assert "every call in float64 on cpu raises: raised TypeError: no double" in double[0].reason
    assert found.verdict == "conforms"


@pytest.mark.usefixtures("laws")
def test_a_dtype_that_the_target_named_and_does_not_have() -> None:
    found = result({"softmax": not_double}, dtypes=("float64", "float32"))
    assert {o.status for o in found.outcomes if o.dtype == "float64"} == {"fail"}
    assert found.exit_status == 1


@pytest.mark.usefixtures("laws")
def test_a_function_that_answers_in_no_dtype_is_a_failure() -> None:
    def broken(x: Any, *, dim: int = -1) -> Any:
        raise TypeError("no")

    assert result({"softmax": broken}).verdict == "fails"


@pytest.mark.usefixtures("laws")
def test_a_device_that_is_not_present() -> None:
    found = result({"softmax": softmax}, devices=("cpu", "cuda:99"))
    absent = [o for o in found.outcomes if o.device == "cuda:99"]
    assert {(o.status, o.reason) for o in absent} == {("not-tested", "cuda:99 is not present here")}
    assert found.verdict == "conforms"


def declining(share: float) -> Callable[..., Any]:
    count = iter(range(10**9))

    def softmax(x: Any, *, dim: int = -1) -> Any:
        if next(count) % 10 < 10 * share:
            raise NotImplementedError("not today")
        return torch.softmax(x, dim)

    return softmax


@pytest.mark.usefixtures("laws")
def test_a_target_that_declines_most_calls_does_not_conform() -> None:
    found = result({"softmax": declining(0.9)}, Selection(dtypes=("float32",)))
    assert found.verdict == "fails"
    assert "legal calls: NotImplementedError: not today" in found.outcomes[0].reason


@pytest.mark.usefixtures("laws")
def test_an_option_that_is_declined_is_listed() -> None:
    def last_only(x: Any, *, dim: int = -1) -> Any:
        if dim != -1:
            raise NotImplementedError("last axis only")
        return torch.softmax(x, -1)

    found = result({"softmax": last_only}, Selection(dtypes=("float32",)))
    declined = [u for u in found.untested if "declined" in u.reason]
    assert len(declined) == 1
    assert declined[0].component == "softmax"
    assert "NotImplementedError: last axis only" in declined[0].reason


@pytest.mark.usefixtures("laws")
def test_everything_declined_is_a_failure_and_never_a_pass() -> None:
    assert result({"softmax": declining(1.0)}).verdict == "fails"


def test_a_mistake_of_the_suite_gives_2(laws: list[Law]) -> None:
    def broken(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        raise IndexError("oops")

    laws.append(law(broken, id="softmax.broken"))
    found = result({"softmax": softmax})
    assert (found.verdict, found.exit_status) == ("not-judged", 2)


@pytest.mark.usefixtures("laws")
def test_an_interrupted_run_keeps_what_is_known() -> None:
    calls = iter(range(10**9))

    def interrupted(x: Any, *, dim: int = -1) -> Any:
        if next(calls) == 50:
            raise KeyboardInterrupt
        return torch.softmax(x, dim)

    found = result({"softmax": interrupted})
    assert found.interrupted
    assert (found.verdict, found.exit_status) == ("not-judged", 2)
    assert 1 <= len(found.outcomes) < 8


def test_several_workers_need_a_name() -> None:
    with pytest.raises(UsageError, match="load by its name"):
        run(target(softmax=softmax), Selection(), SMALL, workers=2)


TWO = Selection(laws=("softmax.rows_sum_to_one",), dtypes=("float32", "bfloat16"))


@pytest.mark.slow
def test_workers_give_the_same_results_in_the_same_order() -> None:
    loaded = load("torch")
    alone, together = run(loaded, TWO, SMALL), run(loaded, TWO, SMALL, workers=2)
    assert alone.outcomes == together.outcomes


@pytest.mark.slow
def test_a_target_that_ends_its_process_is_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "crashing.py"
    file.write_text(
        "import os, torch\n"
        "def softmax(x, *, dim=-1):\n"
        "    return os._exit(1) if x.dtype == torch.float32 else torch.softmax(x, dim)\n"
    )
    found = run(load(str(file)), TWO, SMALL, workers=2)
    assert [o.status for o in found.outcomes] == ["fail", "pass"]
    assert "the target crashes" in found.outcomes[0].reason


# the way in from Python


def test_check_gives_a_result_for_a_notebook() -> None:
    good = attnspec.check("softmax.rows_sum_to_one", softmax, examples=10)
    assert good
    assert repr(good).startswith("softmax.rows_sum_to_one holds in float32 (10 examples, worst")
    bad = attnspec.check("softmax.rows_sum_to_one", {"softmax": lambda x, dim=-1: x}, tier="smoke")
    assert not bad
    assert "attnspec.check('softmax.rows_sum_to_one', target, dtype='float32'" in repr(bad)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"law_id": "softmax.row_sum_to_one"}, "did you mean 'softmax.rows_sum_to_one'?"),
        ({"law_id": "rope.linearity"}, "has no rope, which rope.linearity is about"),
        ({"dtype": "float8"}, "unknown dtype 'float8'"),
        ({"tier": "quick"}, "unknown tier 'quick'; allowed: smoke, full, deep"),
        ({"examples": -1}, "examples is -1"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_check_refuses_what_does_not_exist(words: dict[str, Any], said: str) -> None:
    chosen = {"law_id": "softmax.rows_sum_to_one", "target": {"softmax": softmax}, **words}
    with pytest.raises(UsageError) as caught:
        attnspec.check(**chosen)
    assert said in str(caught.value)


def test_parametrize_has_a_case_for_every_law_and_dtype() -> None:
    mark = attnspec.parametrize(
        {"softmax": softmax}, dtypes=("float32", "float16"), laws=("softmax.empty_batch",)
    )
    cases = mark.args[1]  # type: ignore[attr-defined]
    assert [case.id for case in cases] == [
        "softmax.empty_batch-float32",
        "softmax.empty_batch-float16",
    ]
    cases[0].values[0].check()


def test_a_case_fails_with_the_message_and_skips_with_the_reason() -> None:
    mark = attnspec.parametrize(
        {"softmax": none}, dtypes=("float32",), laws=("softmax.rows_sum_to_one",)
    )
    with pytest.raises(pytest.fail.Exception, match="returned None"):
        mark.args[1][0].values[0].check()  # type: ignore[attr-defined]
    mark = attnspec.parametrize(
        {"softmax": lambda x: x}, dtypes=("float32",), laws=("softmax.any_axis",)
    )
    with pytest.raises(pytest.skip.Exception, match="does not accept dim"):
        mark.args[1][0].values[0].check()  # type: ignore[attr-defined]


def test_parametrize_refuses_a_choice_that_leaves_nothing() -> None:
    with pytest.raises(UsageError, match="no law applies"):
        attnspec.parametrize({"softmax": softmax}, components=("rope",))
