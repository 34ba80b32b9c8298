"""Drawn calls of attention reach every entry of the tables, settings that hide faults are rare, and
most elements can be judged."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from attnspec.oracle import attention_values
from attnspec.oracle import inputs as drawn
from attnspec.oracle.attention_biases import BIASES, HIDING
from attnspec.oracle.attention_contents import CONTENTS
from attnspec.oracle.attention_masks import MASKS
from attnspec.oracle.inputs import FAMILIES, LAYOUTS, lowered, strategy
from attnspec.oracle.law import Inputs
from attnspec.oracle.precision import JUDGED_RMS, JUDGED_SHARE
from tests.attention_draws import (
    NAMES,
    as_implementation,
    draws,
    scope,
    seen_of,
    shape_of,
)


def share(calls: list[Inputs], holds: Callable[[Inputs], bool]) -> float:
    return sum(map(holds, calls)) / len(calls)


def test_settings_that_hide_faults_are_the_minority() -> None:
    calls = draws("attention", 2000)
    shapes = {id(i): shape_of(i) for i in calls}

    def of(holds: Callable[[int, int, int, int, int, int, int], bool]) -> float:
        return share(calls, lambda i: holds(*shapes[id(i)]))

    assert of(lambda b, h, g, t, s, d, e: t != s) > 0.8
    assert of(lambda b, h, g, t, s, d, e: t < s) > 0.6
    assert of(lambda b, h, g, t, s, d, e: t == s) > 0.06
    assert of(lambda b, h, g, t, s, d, e: t > s) > 0.06
    assert of(lambda b, h, g, t, s, d, e: g < h) > 0.6
    assert of(lambda b, h, g, t, s, d, e: 1 < g < h) > 0.2
    assert of(lambda b, h, g, t, s, d, e: g == h) > 0.1
    assert of(lambda b, h, g, t, s, d, e: g > 1 and h // g == g) < 0.15
    assert of(lambda b, h, g, t, s, d, e: d != e) > 0.8
    assert of(lambda b, h, g, t, s, d, e: b == 1) < 0.4
    assert of(lambda b, h, g, t, s, d, e: h == 1) < 0.2
    assert of(lambda b, h, g, t, s, d, e: s == 1) < 0.1
    assert of(lambda b, h, g, t, s, d, e: d == 1) < 0.3
    assert of(lambda b, h, g, t, s, d, e: max(t, s) > 15) > 0.3
    assert of(lambda b, h, g, t, s, d, e: max(t, s) > 64) > 0.08
    assert of(lambda b, h, g, t, s, d, e: s > 8 and s % 8 == 0) < 0.2
    assert of(lambda b, h, g, t, s, d, e: max(d, e) > 31) > 0.05
    assert share(calls, lambda i: i.layout == "contiguous") < 0.4
    products = sorted(b * h * t * s * d for b, h, _, t, s, d, _ in shapes.values())
    assert 500 < products[len(products) // 2] < 1500
    assert products[-len(products) // 50] < 2**14


def test_families_draw_what_their_laws_are_about() -> None:
    """No fault that a law names is met by chance."""

    def rate(family: str, holds: Callable[[Inputs], bool]) -> float:
        return share(draws(f"attention_{family}", 1500), holds)

    def has_a_wide_group(i: Inputs) -> bool:
        _, h, g, *_ = shape_of(i)
        return h > 8 * g

    def is_shared(i: Inputs) -> bool:
        b, h, _, t, s, _, _ = shape_of(i)
        return bool(i.arrays["mask"].shape != (b, h, t, s))

    def could_be_of_queries(i: Inputs) -> bool:
        t, s = shape_of(i)[3:5]
        return t == s > 1 and i.arrays["mask"].shape[-2] == 1

    assert rate("groups", has_a_wide_group) > 0.12
    assert rate("shared_mask", is_shared) > 0.8
    assert rate("shared_mask", could_be_of_queries) > 0.12
    assert rate("entries", lambda i: shape_of(i)[0] == shape_of(i)[1]) > 0.12


def test_options_vary() -> None:
    calls = draws("attention", 2000)
    assert 0.25 < share(calls, lambda i: not i.options) < 0.5
    assert share(calls, lambda i: bool(i.options.get("causal"))) > 0.25
    assert share(calls, lambda i: "window" in i.options) > 0.2
    assert share(calls, lambda i: "softcap" in i.options) > 0.08
    assert share(calls, lambda i: "scale" in i.options) > 0.1
    assert share(calls, lambda i: "mask" in i.arrays) > 0.25
    assert share(calls, lambda i: "bias" in i.arrays) > 0.2
    assert share(calls, lambda i: {"mask", "bias"} <= set(i.arrays)) > 0.05
    assert share(calls, lambda i: len(i.arrays) == 3) > 0.3
    assert share(calls, lambda i: not seen_of(i).all()) > 0.5
    assert {i.options.get("softcap") for i in calls} == {None, 0.5, 2.0, 8.0, 30.0}
    assert {i.options.get("scale") for i in calls} >= {None, 1.0, 0.5, 0.25, 0.1, 2.0}
    windows = draws("attention_window", 1500)
    past = [i.options["window"] - shape_of(i)[4] for i in windows]
    assert {-1, 0, 3} <= set(past)
    assert {0, 1, 2, 5} <= {i.options["window"] for i in windows}
    assert share(windows, lambda i: not seen_of(i).all()) > 0.6


def test_every_entry_of_the_tables_is_reachable() -> None:
    calls = [*draws("attention", 2000), *draws("attention_mask", 1000)]
    added = {i.pattern.partition(": ")[2] for i in calls}
    wanted = [f"{m.name} ({m.axes})" for m in MASKS]
    wanted += [f"{b.name} ({b.axes})" for b in (*BIASES, *HIDING)]
    assert [name for name in wanted if not any(name in one for one in added)] == []
    assert {i.pattern.split(";")[0] for i in calls} == {c.name for c in CONTENTS}
    assert {i.layout for i in calls} == set(LAYOUTS)
    lengths = {n for i in calls for n in shape_of(i)[3:5]}
    assert lengths >= {1, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257}
    ratios = {shape_of(i)[1] // shape_of(i)[2] for i in calls}
    assert ratios >= {1, 2, 3, 4, 8, 16, 32}
    shapes = {i.arrays["mask"].ndim for i in calls if "mask" in i.arrays}
    assert shapes == {2, 3, 4}


def test_sizes_of_scores() -> None:
    """Most are neither so small that all weights are alike, nor so large that one is 1."""
    spreads = []
    for inputs in draws("attention", 1500):
        _, h, g, _, s, d, _ = shape_of(inputs)
        if s > 2:
            k = np.repeat(inputs.arrays["k"], h // g, axis=1)
            scores = inputs.arrays["q"] @ k.swapaxes(-1, -2) * inputs.options.get("scale", d**-0.5)
            spreads.append(float(np.median(scores.std(axis=-1))))
    found = np.array(spreads)
    assert np.mean((found > 0.1) & (found < 8.0)) > 0.5
    assert 0.03 < np.mean(found > 3.0) < 0.35
    assert np.mean(found == 0.0) < 0.15


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_allowances_leave_something_to_judge(dtype: str) -> None:
    for family, runs in (("attention", 1.0), ("attention_two_runs", 2.0), ("attention_mask", 2.0)):
        judged = total = 0
        for inputs in draws(family, 250, dtype):
            with np.errstate(all="ignore"):
                right = attention_values.attention(as_implementation(dtype), inputs)
            size = np.sqrt(np.mean(np.square(right.value / 2.0**20))) * 2.0**20
            judged += int((runs * right.allowance <= JUDGED_RMS * size).sum())
            total += right.value.size
        print(f"\n{family}, {dtype}: {judged / total:.1%} judged")
        assert judged > JUDGED_SHARE * total


@pytest.mark.parametrize("family", NAMES)
def test_the_same_seed_gives_the_same_call(family: str) -> None:
    again = drawn.sampled(family, scope(), 30, seed=7)
    for one, two in zip(draws(family, 120)[:30], again, strict=True):
        assert one.options == two.options
        assert one.pattern == two.pattern
        assert one.arrays.keys() == two.arrays.keys()
        for name, values in one.arrays.items():
            assert values.tobytes() == two.arrays[name].tobytes()


@pytest.mark.parametrize("family", NAMES)
def test_one_draw(family: str) -> None:
    choices: list[int] = []

    @settings(
        database=None,
        deadline=None,
        derandomize=True,
        max_examples=20,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(st.data())
    def body(data: st.DataObject) -> None:
        inputs = data.draw(strategy(family, scope()))
        assert len(inputs.drawn) == 12
        choices.append(len(data.conjecture_data.nodes))

    body()
    assert set(choices) == {1}


@pytest.mark.parametrize("number", range(3))
def test_shrinking_leads_to_a_small_plain_call(number: int) -> None:
    def found(fails: Callable[[Inputs], bool]) -> Inputs:
        quiet = settings(database=None, deadline=None, max_examples=500)
        calls = strategy("attention", scope())
        call = find(calls, fails, settings=quiet, random=random.Random(number))
        while simpler := [c for c in lowered("attention", scope(), call) if fails(c)]:
            call = simpler[0]
        return call

    any_call = found(lambda i: True)
    assert shape_of(any_call) == (1,) * 7
    assert list(any_call.arrays) == ["q", "k", "v"]
    assert not any_call.options
    assert not any_call.arrays["v"].any()
    masked = found(lambda i: "mask" in i.arrays and not seen_of(i).all())
    assert list(masked.arrays) == ["q", "k", "v", "mask"]
    assert not masked.options
    assert sum(shape_of(masked)) <= 12
    causal = found(lambda i: bool(i.options.get("causal")) and bool(i.arrays["q"].any()))
    assert causal.options == {"causal": True}
    assert sum(shape_of(causal)) <= 12
    shared = found(lambda i: shape_of(i)[2] < shape_of(i)[1] and shape_of(i)[3] > 2)
    assert sum(shape_of(shared)) <= 40
    assert not shared.options
    assert shared.layout == "contiguous"


def test_families_say_what_they_are() -> None:
    assert all(len(FAMILIES[name].says) > 5 for name in NAMES)
    assert len({FAMILIES[name].says for name in NAMES}) == len(NAMES) > 15
