"""What the benches say of errors: the suite's own verdict beside that of `assert_close`."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")

from torch import Tensor

from attnspec.impls import rope as reference
from attnspec.judging import judged
from attnspec.loading import load
from attnspec.oracle import law
from attnspec.oracle.comparison import Comparison, verdict
from attnspec.oracle.law import Inputs
from attnspec.subject import Subject
from bench import assert_close, closeness, sensitivity
from bench.figures import printed

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
    example = sensitivity.Example(target, inputs, right)
    np.testing.assert_array_equal(example.wrong(12).actual, wrong.actual)
    assert judged(matches, target, inputs).fails


def test_the_error_of_attention_is_put_into_its_scale() -> None:
    """The comparison is that of a target which calls the right function with another scale."""
    example = next(
        e for e in sensitivity.examples("torch", "attention", 40, 1) if e.right.actual.size > 40
    )
    matches = law("attention.matches_oracle")
    target = Subject(load(sensitivity.with_scale_off(8)), "attention", "float32")
    (wrong,) = matches.check(target, example.inputs)
    np.testing.assert_array_equal(example.wrong(8).actual, wrong.actual)
    assert not np.array_equal(wrong.actual, example.right.actual)


def test_laws_see_a_scale_that_is_off() -> None:
    assert 12 <= sensitivity.seen_by_law("scale_read", seeds=2, within=10) < 25


@pytest.mark.parametrize("component", ["rope", "softmax", "attention"])
def test_the_allowance_sees_errors_and_accepts_right_results(component: str) -> None:
    found = sensitivity.sensitivity(component, many=48, seeds=2, within=10)
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
    right = tuple(map(comparison, actual))
    subject = Subject(load("torch"), "rope", "float32")
    drawn = tuple(sensitivity.Example(subject, Inputs("rope", "float32", {}), c) for c in right)
    monkeypatch.setattr(sensitivity, "right_ones", lambda *_: right)
    monkeypatch.setattr(sensitivity, "samples", lambda *_: (drawn, drawn))


def test_an_error_is_seen_from_its_allowance_on(monkeypatch: pytest.MonkeyPatch) -> None:
    shown_to_all(monkeypatch, 1.0)
    # 2^-4 is what is allowed
    assert sensitivity.smallest_seen(closeness.within_allowance, "rope", seeds=2) == 3
    assert sensitivity.smallest_seen(lambda _: True, "rope", seeds=2) == -1
    assert sensitivity.smallest_seen(lambda _: False, "rope", seeds=2) == 25


def test_tolerances_are_widened_as_far_as_needed() -> None:
    drawn = [comparison(1.0), comparison(1.0001)]
    widening = closeness.widening_for(drawn)
    assert math.log2(widening) == int(math.log2(widening)) > 0
    assert closeness.within_tolerance(widening)(comparison(1.0001))
    assert not closeness.within_tolerance(widening / 2.0)(comparison(1.0001))
    assert closeness.widening_for(drawn, tolerated=0.5) == 1.0
    with pytest.raises(RuntimeError, match="silent at no tolerance"):
        closeness.widening_for([comparison(1.0), comparison(math.nan)])


def test_tolerances_see_what_the_suite_judges() -> None:
    values = np.array([1.0, 1.0])
    unknown = Comparison("output", np.array([1.0, 5.0]), values, np.array([0.1, np.inf]), "float32")
    assert closeness.judged_part(unknown).actual.tolist() == [1.0]
    assert closeness.within_tolerance(1.0)(unknown)
    exact = replace(unknown, allowance=None)
    assert not closeness.within_tolerance(1.0)(exact)


def test_only_what_is_judged_as_a_whole_is_compared() -> None:
    found = sensitivity.examples("torch", "rope", 40, seed=1)
    assert len(found) == 40
    assert all(v.judged == v.elements for v in (verdict(e.right) for e in found))


def test_a_blunt_allowance_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown_to_all(monkeypatch, 1.0)
    monkeypatch.setattr(sensitivity, "REFERENCES", {"rope": ("torch",)})
    monkeypatch.setattr(sensitivity, "LAWS_OF_SCALE", ())
    assert sensitivity.main(seeds=2) == 1
    assert "error 2^-3" in capsys.readouterr().out
    monkeypatch.setattr(sensitivity, "DEMANDED", {"rope": 3})
    assert sensitivity.main(seeds=2) == 0


# assert_close


def test_faults_are_judged_in_four_ways(capsys: pytest.CaptureFixture[str]) -> None:
    faults = (
        "softmax.extra_one", "softmax.writes_over_input", "softmax.gradient_upstream_as_contiguous",
    )  # fmt: skip
    found, tolerances = assert_close.measured(faults, 30)
    ways = {one.fault: one.ways for one in found}
    assert ways["softmax.extra_one"] == assert_close.WAYS
    assert ways["softmax.writes_over_input"] == (assert_close.NAMED,)
    assert ways["softmax.gradient_upstream_as_contiguous"] == (assert_close.NAMED,)
    assert {of.group.direction for of in tolerances} == {"forward", "gradients"}
    assert all(of.widening >= of.nearly >= 1.0 and of.examples > 0 for of in tolerances)
    *_, whole = assert_close.totals(found)
    assert whole == ("all", 3, 1, 1, 1, 1, 3)
    text = assert_close.shown(found, tolerances)
    assert "2 accepted within the derived allowance" in text
    assert printed(assert_close.figures(found)) == 0
    assert "of 3" in capsys.readouterr().out


def test_a_result_of_another_kind_is_seen_by_all() -> None:
    (one,), _ = assert_close.measured(("attention.lse_left_out",), 5)
    assert one.ways == assert_close.WAYS


def test_a_fault_that_its_law_accepts_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = assert_close.Seen("softmax.a", "softmax.b", "softmax", "forward", ())
    monkeypatch.setattr(assert_close, "measured", lambda *_: ([one], []))
    assert assert_close.main(["--component", "softmax"]) == 1
    assert "1 not rejected by the named law" in capsys.readouterr().out
