"""Calls are drawn in few draws, quickly, and shrink to simple ones."""

from __future__ import annotations

import importlib.util
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, seed, settings
from hypothesis import strategies as st

from attnspec.oracle import inputs as drawn
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.inputs import FAMILIES, Scope, lowered, strategy
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
# those of attention have tests of their own
NAMES = [name for name, family in FAMILIES.items() if family.component != "attention"]


def scope(family: str, dtype: str = "float32", **narrower: Any) -> Scope:
    """The scope of a function that takes every option."""
    row = COMPONENTS[FAMILIES[family].component]
    everything = {"component": row.name, "dtype": dtype, "accepts": frozenset(row.options)}
    return Scope(**{**everything, **narrower})


def test_strategies_are_built_once() -> None:
    one = strategy("rope", scope("rope", limits={"d": {8, 16}}))
    assert one is strategy("rope", scope("rope", limits={"d": {16, 8}}))
    assert one is not strategy("rope", scope("rope", limits={"d": (8, 16)}))


@pytest.mark.parametrize("family", NAMES)
def test_one_draw(family: str) -> None:
    choices: list[int] = []

    @settings(QUIET, max_examples=30)
    @given(st.data())
    def body(data: st.DataObject) -> None:
        data.draw(strategy(family, scope(family)))
        choices.append(len(data.conjecture_data.nodes))

    body()
    assert set(choices) == {1}


def test_the_calls_of_a_seed_do_not_depend_on_what_else_is_loaded(tmp_path: Path) -> None:
    """Hypothesis mixes the constants of loaded modules into the integers that it draws."""

    def drawn_calls() -> list[bytes]:
        found: list[bytes] = []

        @seed(7)
        @settings(QUIET, derandomize=False, max_examples=200)
        @given(strategy("rope", scope("rope")))
        def body(inputs: Inputs) -> None:
            found.append(inputs.drawn)

        body()
        return found

    before = drawn_calls()
    (tmp_path / "constants.py").write_text(f"NUMBERS = {list(range(3, 2000, 7))}\n")
    spec = importlib.util.spec_from_file_location("constants", tmp_path / "constants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["constants"] = module
    spec.loader.exec_module(module)
    try:
        assert drawn_calls() == before
    finally:
        del sys.modules["constants"]


def test_lowered_calls_are_simpler_and_end() -> None:
    calls = list(lowered("rope", scope("rope"), next(iter(_some_calls("rope")))))
    assert 1 <= len(calls) <= 4 * drawn.LOWEST + 1
    call = calls[0]
    while simpler := next(lowered("rope", scope("rope"), call), None):
        call = simpler
    assert call.drawn == bytes(12)
    assert list(lowered("rope", scope("rope"), call.with_arrays(x=call.arrays["x"]))) == []


def _some_calls(family: str) -> list[Inputs]:
    found: list[Inputs] = []

    @settings(QUIET, max_examples=20)
    @given(strategy(family, scope(family)))
    def body(inputs: Inputs) -> None:
        if any(inputs.drawn):
            found.append(inputs)

    body()
    return found


@pytest.mark.parametrize("number", range(3))
def test_shrinking_leads_to_a_small_contiguous_call(number: int) -> None:
    def found(family: str, fails: Any) -> Inputs:
        calls = strategy(family, scope(family))
        call = find(calls, fails, settings=SHRINKING, random=random.Random(number))
        while simpler := [c for c in lowered(family, scope(family), call) if fails(c)]:
            call = simpler[0]
        return call

    any_softmax = found("softmax", lambda i: True)
    assert any_softmax.arrays["x"].tolist() == [0.0]
    assert any_softmax.layout == "contiguous"
    assert not any_softmax.options
    large = found("softmax", lambda i: bool(np.abs(i.arrays["x"]).max() >= 1.0))
    assert large.arrays["x"].tolist() == [1.0]
    assert large.layout == "contiguous"
    turned = found("rope", lambda i: bool((i.arrays["x"][..., 1:, :] != 0.0).any()))
    assert turned.arrays["x"].size <= 24
    assert turned.layout == "contiguous"
    assert not turned.options
    assert turned.arrays["positions"].tolist() == list(range(turned.arrays["x"].shape[2]))
    per_row = found("rope", lambda i: i.arrays["positions"].ndim == 2 and len(i.arrays["x"]) > 1)
    assert per_row.arrays["x"].size <= 24
    assert not per_row.arrays["x"].any()
    wide = found("rope", lambda i: i.options.get("rotary_dim", 999) < i.arrays["x"].shape[3])
    assert wide.arrays["x"].size <= 24
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
