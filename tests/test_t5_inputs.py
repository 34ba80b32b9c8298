"""Calls of t5_bucket and t5_bias: what they vary in, and how limits narrow them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnspec.driving import scope_of
from attnspec.impls import t5_bias as references_of_bias
from attnspec.oracle import LAWS
from attnspec.oracle.inputs import families, sampled
from attnspec.oracle.law import Inputs
from attnspec.oracle.precision import snapped
from attnspec.oracle.t5_values import setting_of
from attnspec.subject import Subject
from tests.stubs import target
from tests.t5_cases import BUCKETS, SETTINGS, settled_offsets, subject


def drawn(family: str, many: int = 600, **narrower: Any) -> list[Inputs]:
    made = subject() if family.startswith("t5_bias") else BUCKETS
    return list(sampled(family, scope_of(made), many, 2))


def test_settings_vary() -> None:
    for family in ("t5_bucket", "t5_bias"):
        settings = [setting_of(inputs) for inputs in drawn(family, 2000)]
        usual = sum(setting[1:] == (32, 128) for setting in settings)
        assert 0.4 < usual / 2000 < 0.7
        assert 0.25 < sum(not setting.both for setting in settings) / 2000 < 0.45
        assert set(settings) == set(SETTINGS)
        assert all(setting.legal for setting in settings)


def test_offsets_lie_everywhere() -> None:
    calls = drawn("t5_bucket", 2000)
    held = np.concatenate([inputs.arrays["relative_position"].ravel() for inputs in calls])
    assert held.min() < -(2**19)
    assert held.max() > 2**19
    assert {-128, 127, 128, 255, 32768, -65537} <= set(held.tolist())
    assert 0.01 < np.mean([not settled_offsets(i).all() for i in calls]) < 0.1
    assert {inputs.arrays["relative_position"].ndim for inputs in calls} == {1, 2, 3, 4}


def test_biases_are_of_more_keys_than_queries_and_of_as_many() -> None:
    calls = drawn("t5_bias", 1000)
    assert all(i.numbers["t"] <= i.numbers["s"] for i in calls)
    assert 0.3 < np.mean([i.numbers["t"] < i.numbers["s"] for i in calls]) < 0.9
    assert max(i.numbers["s"] for i in calls) > 200
    assert np.mean([i.arrays["table"].shape[1] == 1 for i in calls]) < 0.25


def test_numbers_of_buckets_are_exact_in_every_dtype() -> None:
    for inputs in drawn("t5_bias_numbers"):
        table = inputs.arrays["table"]
        assert table.max() == table.shape[0] - 1
        assert np.array_equal(snapped(table, "bfloat16"), table)


def test_limits_narrow_the_calls() -> None:
    limits = {"t5_bias": {"t": {1}, "s": (1, 64), "h": {8}, "num_buckets": {32, 64}}}
    narrow = target({"limits": limits}, t5_bias=references_of_bias.t5_bias)
    mine = Subject(narrow, "t5_bias", "float32")
    for inputs in sampled("t5_bias", scope_of(mine), 200, 1):
        assert inputs.numbers["t"] == 1
        assert inputs.numbers["s"] <= 64
        assert inputs.arrays["table"].shape[0] in (32, 64)
        assert inputs.arrays["table"].shape[1] == 8


def test_limits_without_a_legal_call_say_so() -> None:
    narrow = target({"limits": {"t": {9}, "s": {5}}}, t5_bias=references_of_bias.t5_bias)
    with pytest.raises(ValueError, match="leave no h, t and s"):
        list(sampled("t5_bias", scope_of(Subject(narrow, "t5_bias", "float32")), 1))


def test_every_family_has_a_law() -> None:
    for component in ("t5_bucket", "t5_bias"):
        named = {row.inputs for row in LAWS if row.component == component}
        assert named == set(families(component))
