"""Drawn calls of attention are legal, and keep to what a target takes, supports and follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnspec.oracle import LAWS, attention_values
from attnspec.oracle import inputs as drawn
from attnspec.oracle.attention_masks import every_row_sees, hides
from attnspec.oracle.attention_shapes import MOST
from attnspec.oracle.attention_sight import reach
from attnspec.oracle.conventions import followed
from attnspec.oracle.inputs import LAYOUTS, strategy
from attnspec.oracle.law import Inputs
from attnspec.oracle.precision import NUMPY_TYPES, snapped
from tests.attention_draws import (
    ALL,
    NAMES,
    TOP_LEFT,
    TOTAL,
    as_implementation,
    draws,
    scope,
    seen_of,
    shape_of,
    some_row_is_empty,
)


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
@pytest.mark.parametrize("family", NAMES)
def test_calls_are_legal(family: str, dtype: str) -> None:
    for inputs in draws(family, 120, dtype):
        assert inputs.dtype == dtype
        assert inputs.layout in LAYOUTS
        assert not inputs.signed
        assert_shapes_fit(inputs)
        for name, values in inputs.arrays.items():
            assert values.flags.c_contiguous
            assert values.flags.writeable
            assert values.dtype == (bool if name == "mask" else np.float64)
            if name != "mask":
                assert np.array_equal(snapped(values, dtype), values)
                assert not np.isnan(values).any()
                hiding = name == "bias" and "minus infinity" in inputs.pattern
                assert np.isfinite(values).all() or (hiding and values.max() < np.inf)
        if inputs.layout == "expanded":
            held = (a for n, a in inputs.arrays.items() if n != "mask" and a.ndim == 4 and len(a))
            assert all((values == values[:1]).all() for values in held)
        if inputs.layout == "heads-repeated":
            held = (inputs.arrays[name] for name in "kv")
            assert all((values == values[:, :1]).all() for values in held)
        assert some_row_is_empty(inputs) is (family == "attention_empty_rows")


def assert_shapes_fit(inputs: Inputs) -> None:
    b, h, g, t, s, d, e = shape_of(inputs)
    assert inputs.arrays["k"].shape == (b, g, s, d)
    assert h % g == 0
    assert s > 0
    assert b * h * t * s <= MOST
    if inputs.dtype == "float64":
        assert b * h * t * s * max(d, e) <= 2**16
    assert list(inputs.arrays)[:3] == ["q", "k", "v"]
    assert set(inputs.arrays) <= {"q", "k", "v", "mask", "bias"}
    for name in ("mask", "bias"):
        if name in inputs.arrays:
            given = inputs.arrays[name].shape
            assert 2 <= len(given) <= 4
            assert np.broadcast_shapes(given, (b, h, t, s)) == (b, h, t, s)
    options = inputs.options
    assert options.get("window", 0) >= 0
    assert options.get("scale", 1.0) > 0.0
    assert options.get("softcap", 1.0) > 0.0
    assert set(options) <= {"causal", "window", "softcap", "scale", "return_lse"}


def test_every_family_has_a_law() -> None:
    assert {row.inputs for row in LAWS if row.component == "attention"} == set(NAMES)


def test_families_are_what_they_say() -> None:
    for inputs in draws("attention_plain"):
        assert set(inputs.options) <= {"scale"}
        assert len(inputs.arrays) == 3
    for inputs in draws("attention_hidden"):
        assert not seen_of(inputs).all()
    for inputs in (*draws("attention_mask"), *draws("attention_shared_mask")):
        assert list(inputs.arrays) == ["q", "k", "v", "mask"]
        assert not seen_of(inputs).all()
    for inputs in draws("attention_bias"):
        assert list(inputs.arrays) == ["q", "k", "v", "bias"]
        assert np.isfinite(inputs.arrays["bias"]).all()
    assert all(i.options["causal"] for i in draws("attention_causal"))
    assert all("window" not in i.options for i in draws("attention_causal"))
    assert all("window" in i.options for i in draws("attention_window"))
    assert all(len(i.arrays) == 3 for i in draws("attention_window"))
    assert all(i.options["return_lse"] for i in draws("attention_lse"))
    assert all("return_lse" not in i.options for i in draws("attention"))
    assert all(shape_of(i)[2] < shape_of(i)[1] for i in draws("attention_groups"))
    for inputs in draws("attention_long"):
        t, s = shape_of(inputs)[3:5]
        assert 300 <= max(t, s) <= 1100
        assert not inputs.options
    empty = draws("attention_empty")
    assert {"bht"[(shape_of(i)[0], shape_of(i)[1], shape_of(i)[3]).index(0)] for i in empty} == {
        "b", "h", "t",
    }  # fmt: skip


@pytest.mark.parametrize("accepted", [
    "", "causal", "causal scale", "mask", "bias window", "softcap return_lse", "window",
])  # fmt: skip
@pytest.mark.parametrize("family", NAMES)
def test_options_only_if_accepted(family: str, accepted: str) -> None:
    taken = frozenset(accepted.split())
    need = family.removeprefix("attention_")
    need = {"lse": "return_lse", "shared_mask": "mask"}.get(need, need)
    if need in ALL and need not in taken:
        with pytest.raises(ValueError, match=r"the function (takes|does not take)"):
            draws(family, 1, accepts=taken)
        return
    hiding = taken & {"causal", "window", "mask", "bias"}
    if family in {"attention_hidden", "attention_empty_rows"} and not hiding:
        with pytest.raises(ValueError, match="leave"):
            draws(family, 1, accepts=taken)
        return
    for inputs in draws(family, 60, accepts=taken):
        assert {*inputs.options, *inputs.arrays} - {"q", "k", "v"} <= taken
        assert some_row_is_empty(inputs) is (family == "attention_empty_rows")
        assert family != "attention_hidden" or not seen_of(inputs).all()


def test_conventions_decide_what_is_legal() -> None:
    causal = draws("attention_causal", 600, conventions=TOP_LEFT)
    assert any(shape_of(i)[3] > shape_of(i)[4] for i in causal)
    assert not any(shape_of(i)[3] > shape_of(i)[4] for i in draws("attention_causal", 600))
    assert not any(some_row_is_empty(i, TOP_LEFT) for i in causal)
    for inputs in (
        *draws("attention_window", conventions=TOTAL),
        *draws("attention", conventions=TOTAL),
    ):
        if "window" in inputs.options:
            assert inputs.options["causal"]
            assert inputs.options["window"] >= 1
        assert not some_row_is_empty(inputs, TOTAL)
    both_ways = [i for i in draws("attention_window") if not i.options.get("causal")]
    assert len(both_ways) > 50
    with pytest.raises(ValueError, match=r"attention\.window='total'"):
        draws("attention_window", conventions=TOTAL, accepts=frozenset({"window"}))
    with pytest.raises(ValueError, match=r"attention\.empty_row is 'unspecified'"):
        draws("attention_empty_rows", conventions={"attention.empty_row": "unspecified"})
    for rule in ("zero", "nan"):
        rows = draws("attention_empty_rows", 50, conventions={"attention.empty_row": rule})
        assert all(some_row_is_empty(i) for i in rows)


def test_strategies_depend_on_the_conventions() -> None:
    one, two = scope(conventions=TOP_LEFT), scope()
    assert strategy("attention_causal", one) is not strategy("attention_causal", two)
    assert strategy("attention_causal", two) is strategy("attention_causal", scope())


@pytest.mark.parametrize("limits", [
    {"d": {64}},
    {"d": {64, 128}, "e": {64, 128}},
    {"h": {8}, "g": {8}},
    {"h": (1, 64), "g": {4}},
    {"h": {6, 9, 16}},
    {"t": (16, 4096, 16), "s": (16, 4096, 16)},
    {"t": {1}},
    {"s": {64, 128}},
    {"b": {1}, "d": {128}, "e": {128}},
    {"t": (1, 512), "s": (128, 4096), "d": (8, 256, 8)},
])  # fmt: skip
@pytest.mark.parametrize("family", ["attention", "attention_causal", "attention_gradients"])
def test_limits_are_honoured(family: str, limits: dict[str, Any]) -> None:
    held: dict[str, set[int]] = {axis: set() for axis in limits}
    for inputs in draws(family, 200, limits=limits):
        shape = shape_of(inputs)
        assert shape[1] % shape[2] == 0
        assert not some_row_is_empty(inputs)
        for axis in limits:
            held[axis].add(shape["bhgtsde".index(axis)])
    for axis, limit in limits.items():
        if isinstance(limit, set):
            assert held[axis] == limit if family == "attention" else held[axis] <= limit
        else:
            assert held[axis] <= set(range(limit[0], limit[1] + 1, *limit[2:]))
            assert len(held[axis]) > 1


@pytest.mark.parametrize(
    ("family", "limits", "says"),
    [
        ("attention", {"h": {6}, "g": {4}}, r"'h': \{6\}, 'g': \{4\}"),
        ("attention", {"d": {0}}, r"'d'.*\{0\}"),
        ("attention", {"s": set()}, "'s'"),
        ("attention_groups", {"h": {1}}, "share a key head"),
        ("attention_mask", {"s": {1}}, r"'s'.*\{1\}"),
        ("attention_causal", {"t": {64}, "s": {32}}, "a key for every row"),
        ("attention_empty", {"b": {1}, "h": {2}, "t": (1, 5)}, "no empty axis"),
    ],
)
def test_impossible_limits_are_named(family: str, limits: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        strategy(family, scope(limits=limits))


@pytest.mark.parametrize("conventions", [{}, TOP_LEFT, TOTAL, {**TOP_LEFT, **TOTAL}])
@pytest.mark.parametrize("family", ["attention", "attention_window", "attention_empty_rows"])
def test_who_sees_whom_as_the_definition_says(family: str, conventions: dict[str, str]) -> None:
    implementation = as_implementation("float32", conventions)
    for inputs in draws(family, 250, conventions=conventions):
        right = attention_values.visible(implementation, inputs)
        seen = seen_of(inputs, conventions)
        assert (np.broadcast_to(right, seen.shape) == seen).all(), drawn.description(inputs)
        t, s = seen.shape[2:]
        bare = seen_of(replace(inputs, arrays={n: inputs.arrays[n] for n in "qkv"}), conventions)
        rules = followed(conventions)
        assert every_row_sees(rules, t, s, inputs.options) == bare.any(axis=-1).all()
        assert hides(rules, t, s, inputs.options) == (not bare.all())


def test_positions_of_queries() -> None:
    assert reach(followed({}), 2, 5, {"causal": True})[0] == 3
    assert reach(followed(TOP_LEFT), 2, 5, {"causal": True})[0] == 0
    assert reach(followed({}), 2, 5, {"causal": True, "window": 2})[1:] == (2, 0)
    assert reach(followed({}), 2, 5, {"window": 2})[1:] == (2, 2)
    assert reach(followed(TOTAL), 2, 5, {"causal": True, "window": 2})[1:] == (1, 0)
