"""The benches count and measure what they say, and a missed figure is an exit status of 1."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from attnspec.loading import Loaded, load
from attnspec.oracle import law
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.law import Implementation, Inputs
from attnspec.runner import all_laws
from attnspec.subject import Subject
from bench import counts, processes, speed
from bench import false_alarms as alarms
from bench.counts import Count, added
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
    found = alarms.false_alarms(("torch.online", "torch.complex"), examples=200)
    total = added(found)
    assert total.alarms == 0, [text for count in found for text in count.told]
    assert total.drawn >= total.compared >= 200
    assert 0.0 < total.ratio <= 1.0
    assert {count.component for count in found} == {"softmax", "sinusoidal", "rope"}
    assert {count.direction for count in found} == {"forward", "gradients"}
    assert len({count.dtype for count in found}) == 4
    assert not any(figure.missed for figure in alarms.figures(found, 200))


def test_attention_raises_no_alarm_and_what_compares_nothing_is_made_up_for() -> None:
    found = alarms.false_alarms(("torch.tiled",), 200, components=("attention",))
    total = added(found)
    assert total.alarms == 0, [text for count in found for text in count.told]
    assert {count.component for count in found} == {"attention"}
    # gradients that repeat to the bit are promised by nobody here
    drawn = {count.law for count in found if count.drawn > count.compared}
    assert "attention.gradients_repeatable" in drawn
    assert total.compared >= 200


@pytest.mark.slow
def test_every_law_of_the_targets_is_driven(monkeypatch: pytest.MonkeyPatch) -> None:
    # which laws apply is asked in one dtype of each target: in every one it takes most of a minute
    every = Loaded.dtypes_of
    monkeypatch.setattr(Loaded, "dtypes_of", lambda self, name: every(self, name)[:1])
    tasks = alarms.tasks_of(alarms.TARGETS, 1, 0)
    assert {name for task in tasks for name in task.laws} == {law.id for law in all_laws()}
    only = alarms.tasks_of(alarms.TARGETS, 1, 0, ("rope",))
    assert {task.component for task in only} == {"rope"}


def test_the_same_seed_gives_the_same_counts() -> None:
    first, again, other = (
        alarms.false_alarms(("torch.online",), examples=100, seed=seed) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


def test_a_wrong_implementation_raises_alarms() -> None:
    found = alarms.false_alarms(("fault:softmax.extra_one",), examples=300)
    total = added(found)
    assert total.alarms > 0
    assert total.ratio > 1.0
    told = [text for count in found for text in count.told]
    assert all(text.startswith("fault:softmax.extra_one, softmax.") for text in told)
    assert all(len(count.told) <= counts.TOLD for count in found)
    assert [f.name for f in alarms.figures(found, 300) if f.missed] == ["false alarms"]


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
    found = alarms.false_alarms(("mine",), examples=60)
    # what is called between two calls may be refused: only the calls themselves count
    assert all(count.alarms == count.drawn for count in found)
    assert [f.name for f in alarms.figures(found, 60) if f.missed] == ["false alarms", "examples"]


def test_what_a_library_may_decline_is_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(SimpleNamespace(softmax=declines))
    monkeypatch.setattr(alarms, "loaded_once", lambda _: loaded)
    monkeypatch.setattr(alarms, "MAY_DECLINE", ("mine",))
    found = alarms.false_alarms(("mine",), examples=60)
    assert all(count.declined == count.drawn for count in found)
    assert added(found).alarms == 0


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
    arguments = ["--examples", "100", "--workers", "1", "--component", "softmax"]
    assert alarms.main(arguments) == 0
    shown = capsys.readouterr().out
    names = (*alarms.TARGETS, "softmax gradients bfloat16", "judged, float16")
    assert all(name in shown for name in names)
    monkeypatch.setattr(alarms, "DEMANDED_ALARMS", -1)
    assert alarms.main(arguments) == 1


def test_no_examples_are_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        alarms.main(["--examples", "0"])
    assert stopped.value.code == 2
    assert "0 is not 1 or more" in capsys.readouterr().err


@pytest.mark.slow
def test_several_processes_count_what_one_counts() -> None:
    def found(workers: int) -> list[Count]:
        return alarms.false_alarms(("torch.online", "torch.functional"), 100, workers=workers)

    # torch's own softmax divides its rows among threads, and rounds the ends of shares otherwise
    processes.one_thread()
    assert found(1) == found(2)


# speed


@pytest.mark.parametrize("component", ["softmax", "rope", "attention"])
def test_small_calls_are_small_and_of_every_shape(component: str) -> None:
    drawn: list[Inputs] = []
    subject = Subject(load("torch"), component, "float32")

    def kept(inputs: Inputs) -> bool:
        drawn.append(inputs)
        return False

    rate = speed.driven(speed.small_calls(subject), kept, 100)
    assert rate.examples == len(drawn) == 100
    arrays = [inputs.arrays for inputs in drawn]
    if component == "attention":
        sizes, most = [], speed.SMALL_WORK
        for (b, h, t, d), (_, _, s, e) in ((a["q"].shape, a["v"].shape) for a in arrays):
            lengths = zip((t, s, d, e), speed.SMALL_LENGTHS, strict=True)
            assert all(length <= limit for length, limit in lengths)
            sizes.append(b * h * t * s * max(d, e))
    else:
        sizes, most = [a["x"].size for a in arrays], speed.SMALL
    assert max(sizes) <= most
    assert max(sizes) > most // 2
    assert len({a["q" if component == "attention" else "x"].shape for a in arrays}) > 5


def test_rates_count_examples_and_alarms() -> None:
    subject = Subject(load("torch"), "softmax", "float32")
    rate = speed.driven(speed.small_calls(subject), lambda _: True, 20)
    assert rate.examples == rate.alarms == 20
    assert rate.processor > 0.0
    assert rate.wall > 0.0


def test_speed_is_printed_and_a_slow_suite_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [name for name, _ in speed.LAWS]
    monkeypatch.setattr(speed, "LAWS", [(name, 0.0) for name in names])
    monkeypatch.setattr(speed, "DEMANDED_CERTIFICATES", ())
    assert speed.main(examples=5, passes=1, runs=1) == 0
    shown = capsys.readouterr().out
    for name in (
        *(f"{name}: small" for name in names),
        "softmax 64 x 64: certificate", "attention 64 x 64 x 64: certificate", "rope 16 x 8",
        "attention 8 x 16 x 8: gradients",
    ):  # fmt: skip
        assert name in shown
    monkeypatch.setattr(speed, "LAWS", [(names[0], math.inf)])
    assert speed.main(examples=5, passes=1, runs=1) == 1


def test_a_slow_certificate_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "DEMANDED_CERTIFICATES", (("softmax", 0.0), ("attention", 1e9)))
    softmax, rope, attention = speed.certificate_figures(runs=2, size=4)
    assert softmax.missed
    assert not rope.missed
    assert not attention.missed


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_one_core_is_used_and_the_others_given_back() -> None:
    before, threads = os.sched_getaffinity(0), torch.get_num_threads()
    with speed.one_core():
        assert len(os.sched_getaffinity(0)) == torch.get_num_threads() == 1
    assert (os.sched_getaffinity(0), torch.get_num_threads()) == (before, threads)


def test_a_second_backward_pass_may_be_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load("torch.sdpa_flash")
    monkeypatch.setattr(alarms, "loaded_once", lambda _: loaded)
    monkeypatch.setattr(alarms, "MAY_DECLINE", ())
    laws = ("attention.gradients_of_gradients",)
    (count,) = alarms.counted(alarms.Task("torch.sdpa_flash", "attention", "float32", laws, 5, 0))
    assert (count.declined, count.alarms) == (5, 0)
