"""Calls are drawn in few draws, quickly, and shrink to simple ones."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from attnspec.oracle import inputs as drawn
from attnspec.oracle.inputs import FAMILIES, Scope, strategy
from attnspec.oracle.law import Inputs

QUIET = settings(
    database=None,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
SHRINKING = settings(
    database=None, deadline=None, max_examples=500, phases=[Phase.generate, Phase.shrink]
)
ALL = frozenset({"dim", "base", "rotary_dim"})


def scope(family: str, dtype: str = "float32", **narrower: Any) -> Scope:
    """The scope of a function that takes every option."""
    return Scope(
        **{"component": FAMILIES[family].component, "dtype": dtype, "accepts": ALL, **narrower}
    )


def test_strategies_are_built_once() -> None:
    one = strategy("rope", scope("rope", limits={"d": {8, 16}}))
    assert one is strategy("rope", scope("rope", limits={"d": {16, 8}}))
    assert one is not strategy("rope", scope("rope", limits={"d": (8, 16)}))


@pytest.mark.parametrize("family", FAMILIES)
def test_at_most_five_draws(family: str) -> None:
    choices: list[int] = []

    @settings(QUIET, max_examples=30)
    @given(st.data())
    def body(data: st.DataObject) -> None:
        data.draw(strategy(family, scope(family)))
        choices.append(len(data.conjecture_data.nodes))

    body()
    assert 1 <= max(choices) <= 5


@pytest.mark.parametrize("seed", range(3))
def test_shrinking_leads_to_a_small_contiguous_call(seed: int) -> None:
    def found(family: str, fails: Any) -> Inputs:
        calls = strategy(family, scope(family))
        return find(calls, fails, settings=SHRINKING, random=random.Random(seed))

    any_softmax = found("softmax", lambda i: True)
    assert any_softmax.arrays["x"].tolist() == [0.0]
    assert any_softmax.layout == "contiguous"
    assert not any_softmax.options
    large = found("softmax", lambda i: bool(np.abs(i.arrays["x"]).max() >= 1.0))
    assert large.arrays["x"].tolist() == [1.0]
    assert large.layout == "contiguous"
    turned = found("rope", lambda i: bool((i.arrays["x"][..., 1:, :] != 0.0).any()))
    assert turned.arrays["x"].size <= 8
    assert turned.layout == "contiguous"
    assert not turned.options
    assert turned.arrays["positions"].tolist() == list(range(turned.arrays["x"].shape[2]))
    per_row = found("rope", lambda i: i.arrays["positions"].ndim == 2 and len(i.arrays["x"]) > 1)
    assert per_row.arrays["x"].size <= 24
    assert not per_row.arrays["x"].any()
    wide = found("rope", lambda i: i.options.get("rotary_dim", 999) < i.arrays["x"].shape[3])
    assert wide.arrays["x"].size <= 8
    assert set(wide.options) == {"rotary_dim"}
    step = found("softmax", lambda i: i.layout == "row-step")
    assert step.arrays["x"].size == 1


@pytest.mark.parametrize("family", ["softmax", "rope", "rope_apply"])
def test_speed_is_printed(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    examples = 300

    @settings(QUIET, max_examples=examples)
    @given(strategy(family, scope(family)))
    def body(inputs: Inputs) -> None:
        assert inputs.arrays

    start = time.process_time()
    body()
    spent = time.process_time() - start
    with capsys.disabled():
        print(f"\n{family}: {examples / spent:.0f} calls drawn in a second")


def test_unknown_families_are_named() -> None:
    with pytest.raises(ValueError, match="softmax_rows"):
        strategy("sofmax", scope("softmax"))
    with pytest.raises(ValueError, match="draws calls of rope, not of softmax"):
        strategy("rope", scope("softmax"))
    assert drawn.families() == tuple(FAMILIES)
    assert "rope_zero" in drawn.families("rope")
    assert "softmax" not in drawn.families("rope")
