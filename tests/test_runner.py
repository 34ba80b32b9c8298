"""Whole runs, and the way in from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

import attnspec
from attnspec import runner
from attnspec.crew import Crew
from attnspec.limits import Limits
from attnspec.loading import load
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.law import Implementation, Inputs, Law
from attnspec.outcome import Run
from attnspec.runner import Selection, run
from attnspec.usage import UsageError
from tests.stubs import SMALL, law, none, softmax, target


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
    found = result({"softmax": lambda x: torch.softmax(x, -1), "hadamard": softmax})
    listed = {(u.component, u.option): u.reason for u in found.untested}
    assert listed["softmax", "dim"] == "the function does not accept it"
    assert listed["rope", ""] == "the target has no such function"
    assert listed["hadamard", ""] == "this version has no laws for it"


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
    known = [o for o in found.outcomes if o.status == "pass"]
    assert 1 <= len(known) < len(found.outcomes) == 8
    assert {o.reason for o in found.outcomes if o not in known} == {"not run: Ctrl-C came first"}


TWO = Selection(laws=("softmax.rows_sum_to_one",), dtypes=("float32", "bfloat16"))


@pytest.mark.slow
def test_workers_give_the_same_results_in_the_same_order() -> None:
    loaded = load("torch")
    alone = run(loaded, TWO, SMALL)
    with Crew(2, Limits()) as crew:
        together = run(loaded, TWO, SMALL, crew=crew)
    assert alone.outcomes == together.outcomes


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
