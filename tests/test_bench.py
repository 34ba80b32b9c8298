"""The benches count and measure what they say, and a missed figure is an exit status of 1."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from attnspec.impls import rope as reference
from attnspec.judging import judged
from attnspec.loading import load
from attnspec.oracle import law
from attnspec.oracle.comparison import Comparison, verdict
from attnspec.oracle.law import Implementation, Inputs
from attnspec.runner import all_laws
from attnspec.subject import Subject
from bench import false_alarms as alarms
from bench import sensitivity, speed
from bench.figures import Figure, number, printed, table

# figures


@pytest.mark.parametrize(
    ("figure", "missed"),
    [
        (Figure("a", 5.0), False),
        (Figure("a", 5.0, least=5.0), False),
        (Figure("a", 4.9, least=5.0), True),
        (Figure("a", 5.0, most=5.0), False),
        (Figure("a", 5.1, most=5.0), True),
        (Figure("a", math.nan, least=5.0), True),
        (Figure("a", math.nan, most=5.0), True),
    ],
)
def test_a_figure_is_missed_beyond_what_is_demanded(figure: Figure, *, missed: bool) -> None:
    assert figure.missed is missed


def test_one_missed_figure_is_an_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong = Figure("speed", 7.0, "m/s", least=5.0), Figure("errors", 1.0, most=0.0)
    assert printed([right]) == 0
    assert "MISSED" not in capsys.readouterr().out
    assert printed([right, wrong]) == 1
    shown = capsys.readouterr().out
    assert "7 m/s" in shown
    assert "at least 5" in shown
    assert "MISSED" in shown


def test_numbers_and_tables_are_short() -> None:
    assert [number(v) for v in (0.0, 12345.6, 0.123456, math.nan, math.inf)] == [
        "0",
        "12,346",
        "0.123",
        "nan",
        "inf",
    ]
    assert table(("name", "n"), [("a", 10)]).splitlines() == ["name   n", "----  --", "a     10"]


# false alarms


def test_right_implementations_raise_no_alarm() -> None:
    counts = alarms.false_alarms(("torch.online", "torch.complex"), examples=200)
    total = alarms.added(counts)
    assert total.alarms == 0, [text for count in counts for text in count.told]
    assert total.compared == total.drawn >= 200
    assert 0.0 < total.ratio <= 1.0
    assert {count.component for count in counts} == {"softmax", "rope"}
    assert len({count.dtype for count in counts}) == 4
    assert not any(figure.missed for figure in alarms.figures(counts, 200))


def test_every_law_of_the_targets_is_driven() -> None:
    tasks = alarms.tasks_of(alarms.TARGETS, 1, 0)
    assert {name for task in tasks for name in task.laws} == {law.id for law in all_laws()}


def test_the_same_seed_gives_the_same_counts() -> None:
    first, again, other = (
        alarms.false_alarms(("torch.online",), examples=100, seed=seed) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


def test_a_wrong_implementation_raises_alarms() -> None:
    counts = alarms.false_alarms(("fault:softmax.extra_one",), examples=300)
    total = alarms.added(counts)
    assert total.alarms > 0
    assert total.ratio > 1.0
    told = [text for count in counts for text in count.told]
    assert all(text.startswith("fault:softmax.extra_one, softmax.") for text in told)
    assert all(len(count.told) <= alarms.TOLD for count in counts)
    assert [f.name for f in alarms.figures(counts, 300) if f.missed] == ["false alarms"]


def declines(x: Tensor, *, dim: int = -1) -> Tensor:
    raise NotImplementedError("not today")


def raises(x: Tensor, *, dim: int = -1) -> Tensor:
    raise RuntimeError("out of luck")


@pytest.mark.parametrize("softmax", [declines, raises])
def test_refusals_and_exceptions_are_alarms(
    monkeypatch: pytest.MonkeyPatch, softmax: Callable[..., Tensor]
) -> None:
    loaded = load(SimpleNamespace(softmax=softmax))
    monkeypatch.setattr(alarms, "loaded_once", lambda _: loaded)
    counts = alarms.false_alarms(("mine",), examples=60)
    # what is called between two calls may be refused: only the calls themselves count
    assert all(count.alarms == count.drawn for count in counts)
    assert [f.name for f in alarms.figures(counts, 60) if f.missed] == ["false alarms", "examples"]


def test_an_error_in_a_law_is_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        raise ZeroDivisionError

    broken = replace(law("softmax.matches_oracle"), check=check)
    monkeypatch.setattr(alarms, "all_laws", lambda: (broken,))
    (count, *_) = alarms.false_alarms(("torch.online",), examples=8)
    assert count.alarms == count.drawn == 2
    assert "error in the law itself" in count.told[0]


def test_the_alarms_are_printed_with_their_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(alarms, "TARGETS", ("torch.online", "torch.functional"))
    arguments = ["--examples", "100", "--workers", "1"]
    assert alarms.main(arguments) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*alarms.TARGETS, "softmax bfloat16", "judged"))
    monkeypatch.setattr(alarms, "DEMANDED_ALARMS", -1)
    assert alarms.main(arguments) == 1


def test_no_examples_are_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        alarms.main(["--examples", "0"])
    assert stopped.value.code == 2
    assert "0 is not 1 or more" in capsys.readouterr().err


@pytest.mark.slow
def test_several_processes_count_what_one_counts() -> None:
    def counts(workers: int) -> list[alarms.Count]:
        return alarms.false_alarms(("torch.online", "torch.functional"), 100, workers=workers)

    # torch's own softmax divides its rows among threads, and rounds the ends of shares otherwise
    alarms.one_thread()
    assert counts(1) == counts(2)


# speed


@pytest.mark.parametrize("component", ["softmax", "rope"])
def test_small_calls_are_small_and_of_every_shape(component: str) -> None:
    drawn: list[Inputs] = []
    subject = Subject(load("torch"), component, "float32")

    def kept(inputs: Inputs) -> bool:
        drawn.append(inputs)
        return False

    rate = speed.driven(speed.small_calls(subject), kept, 100)
    sizes = [inputs.arrays["x"].size for inputs in drawn]
    assert rate.examples == len(drawn) == 100
    assert max(sizes) <= speed.SMALL
    assert max(sizes) > speed.SMALL // 2
    assert len({inputs.arrays["x"].shape for inputs in drawn}) > 5


def test_rates_count_examples_and_alarms() -> None:
    subject = Subject(load("torch"), "softmax", "float32")
    rate = speed.driven(speed.small_calls(subject), lambda _: True, 20)
    assert rate.examples == rate.alarms == 20
    assert rate.processor > 0.0
    assert rate.wall > 0.0


def test_speed_is_printed_and_a_slow_suite_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(speed, "DEMANDED_EXAMPLES", 0.0)
    monkeypatch.setattr(speed, "DEMANDED_CERTIFICATE", math.inf)
    assert speed.main(examples=5, passes=1, runs=1) == 0
    shown = capsys.readouterr().out
    for name in ("softmax: small", "rope: small", "softmax 64 x 64: certificate", "rope 16 x 8"):
        assert name in shown
    monkeypatch.setattr(speed, "DEMANDED_EXAMPLES", math.inf)
    assert speed.main(examples=5, passes=1, runs=1) == 1


def test_a_slow_certificate_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "DEMANDED_CERTIFICATE", 0.0)
    softmax, rope = speed.certificate_figures(runs=2, size=4)
    assert softmax.missed
    assert not rope.missed


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_one_core_is_used_and_the_others_given_back() -> None:
    before, threads = os.sched_getaffinity(0), torch.get_num_threads()
    with speed.one_core():
        assert len(os.sched_getaffinity(0)) == torch.get_num_threads() == 1
    assert (os.sched_getaffinity(0), torch.get_num_threads()) == (before, threads)


# sensitivity


def test_the_error_is_put_into_what_a_reference_returns() -> None:
    """The comparison is that of a target which scales the result of the right function."""

    def rope(
        x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
    ) -> Tensor:
        right = reference.rope(x, positions, base=base, rotary_dim=rotary_dim)
        return (right.double() * (1.0 + 2.0**-12)).to(x.dtype)

    target = Subject(load(SimpleNamespace(rope=rope)), "rope", "float32")
    x = np.random.default_rng(0).standard_normal((1, 2, 3, 4)).astype(np.float32)
    arrays = {"x": x.astype(np.float64), "positions": np.array([0, 5, 70])}
    inputs, matches = Inputs("rope", "float32", arrays), law("rope.matches_oracle")
    (wrong,) = matches.check(target, inputs)
    (right,) = matches.check(Subject(load("torch"), "rope", "float32"), inputs)
    np.testing.assert_array_equal(sensitivity.scaled(right, 12).actual, wrong.actual)
    assert judged(matches, target, inputs).fails


@pytest.mark.parametrize("component", ["rope", "softmax"])
def test_the_allowance_sees_errors_and_accepts_right_results(component: str) -> None:
    found = sensitivity.sensitivity(component, examples=48, seeds=2, within=10)
    own = found[sensitivity.OWN]
    assert own.alarms == 0
    assert 10 <= own.exponent <= sensitivity.EXPONENTS[-1]
    silent = found["assert_close, silent"]
    assert silent.alarms == 0
    assert silent.widening >= found["assert_close, nearly silent"].widening >= 1.0
    assert silent.exponent <= own.exponent


def comparison(actual: float) -> Comparison:
    """One element beside 1, with 1/16 as allowance."""
    one = np.ones(1)
    return Comparison("output", one * actual, one, one / 16.0, "float32")


def shown_to_all(monkeypatch: pytest.MonkeyPatch, *actual: float) -> None:
    drawn = tuple(map(comparison, actual))
    monkeypatch.setattr(sensitivity, "right_ones", lambda *_: drawn)
    monkeypatch.setattr(sensitivity, "samples", lambda *_: (drawn, drawn))


def test_an_error_is_seen_from_its_allowance_on(monkeypatch: pytest.MonkeyPatch) -> None:
    shown_to_all(monkeypatch, 1.0)
    # 2^-4 is what is allowed
    assert sensitivity.smallest_seen(sensitivity.within_allowance, "rope", seeds=2) == 3
    assert sensitivity.smallest_seen(lambda _: True, "rope", seeds=2) == -1
    assert sensitivity.smallest_seen(lambda _: False, "rope", seeds=2) == 25


def test_tolerances_are_widened_as_far_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    shown_to_all(monkeypatch, 1.0, 1.0001)
    widening = sensitivity.widening_of("rope", 2)
    assert math.log2(widening) == int(math.log2(widening)) > 0
    assert sensitivity.within_tolerance(widening)(comparison(1.0001))
    assert not sensitivity.within_tolerance(widening / 2.0)(comparison(1.0001))
    assert sensitivity.widening_of("rope", 2, tolerated=0.5) == 1.0
    shown_to_all(monkeypatch, 1.0, math.nan)
    with pytest.raises(RuntimeError, match="silent at no tolerance"):
        sensitivity.widening_of("rope", 2)


def test_only_what_is_judged_as_a_whole_is_compared() -> None:
    found = sensitivity.compared("torch", "rope", 40, seed=1)
    assert len(found) == 40
    assert all(v.judged == v.elements for v in map(verdict, found))


def test_a_blunt_allowance_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown_to_all(monkeypatch, 1.0)
    assert sensitivity.main(seeds=2) == 1
    assert "error 2^-3" in capsys.readouterr().out
    monkeypatch.setattr(sensitivity, "DEMANDED", {"rope": 3})
    assert sensitivity.main(seeds=2) == 0
