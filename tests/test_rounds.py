"""Tier `deep` by time: what several rounds find together."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from attnspec.driving import Effort
from attnspec.outcome import Outcome, Run
from attnspec.rounds import added, rounds
from attnspec.runner import Selection
from attnspec.sequence import runs_of
from tests.stubs import softmax, target

DEEP = Effort(seed=5, tier="deep", examples=3)


def outcome(status: Any = "pass", **fields: Any) -> Outcome:
    plain: dict[str, Any] = {"examples": 3, "ratio": 0.5, "preset": "strict"}
    return Outcome("softmax.near", "softmax", "float32", "cpu", status, **(plain | fields))


def a_run(*outcomes: Outcome, **fields: Any) -> Run:
    return Run("mine", "1", 0, "deep", outcomes, **fields)


def together(*outcomes: Outcome) -> Outcome:
    total = a_run(outcomes[0])
    for other in outcomes[1:]:
        total = added(total, a_run(other))
    (found,) = total.outcomes
    return found


def test_examples_add_up_and_the_worst_counts() -> None:
    found = together(outcome(), outcome(ratio=0.75, preset="eager"), outcome(ratio=None))
    assert (found.status, found.examples, found.ratio) == ("pass", 9, 0.75)
    assert found.preset == "eager"
    assert together(outcome(), outcome(preset="")).preset == ""


def test_the_first_failure_is_kept() -> None:
    failing = [outcome("fail", failing=n, reason=str(n), preset="") for n in (1, 2)]
    found = together(outcome(), *failing, outcome())
    assert (found.status, found.reason, found.failing, found.examples) == ("fail", "1", 3, 12)


def test_what_one_round_judged_is_judged() -> None:
    assert together(outcome("not-tested", reason="little"), outcome()).status == "pass"
    assert together(outcome("not-tested", examples=0), outcome()).examples == 3
    assert together(outcome(), outcome("not-tested", examples=0)) == outcome()


def test_each_round_has_a_fresh_seed_until_the_time_is_over() -> None:
    seeds: list[int] = []
    deadline = time.monotonic() + 0.2

    def once(effort: Effort) -> Run:
        assert effort.examples == 3
        seeds.append(effort.seed)
        if len(seeds) == 4:
            time.sleep(0.3)
            return a_run(outcome("fail", failing=1), interrupted=True, ended_by="its time limit")
        return a_run(outcome())

    found = rounds(once, DEEP, deadline)
    assert seeds == [5, 6, 7, 8]
    assert not found.interrupted
    assert found.outcomes[0].examples == 12
    assert found.verdict == "fails"


def test_a_first_round_that_does_not_end_is_no_verdict() -> None:
    cut = a_run(outcome(), interrupted=True, ended_by="its time limit")
    found = rounds(lambda effort: cut, DEEP, time.monotonic() + 10.0)
    assert (found, found.verdict) == (cut, "not-judged")


def test_ctrl_c_ends_later_rounds_too() -> None:
    made = iter((a_run(outcome()), a_run(outcome(), interrupted=True, ended_by="Ctrl-C")))
    found = rounds(lambda effort: next(made), DEEP, time.monotonic() + 10.0)
    assert (found.interrupted, found.ended_by, found.outcomes[0].examples) == (True, "Ctrl-C", 6)


def test_targets_share_the_time() -> None:
    one = Selection(laws=("softmax.rows_sum_to_one",), dtypes=("float32",))
    targets = [target({"name": name}, softmax=softmax) for name in ("a", "b")]
    found = list(runs_of(targets, one, DEEP, deadline=time.monotonic() + 1.0))
    assert [run.target for run in found] == ["a", "b"]
    for run in found:
        assert run.verdict == "conforms"
        assert run.outcomes[0].examples > DEEP.examples
    usual = list(runs_of(targets, one, replace(DEEP, tier="full"), deadline=time.monotonic() + 30))
    assert [run.outcomes[0].examples for run in usual] == [3, 3]
