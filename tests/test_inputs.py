"""Drawn calls are legal, keep to what a target takes, and are repeatable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis.vendor.pretty import pretty

from attnspec.oracle import inputs as drawn
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.family import repeated
from attnspec.oracle.inputs import FAMILIES, LAYOUTS, Scope, generator, strategy
from attnspec.oracle.law import Inputs
from attnspec.oracle.positions import below, with_different_rows
from attnspec.oracle.precision import INDEX_TYPES, NUMPY_TYPES, snapped

# those of attention have tests of their own
NAMES = [name for name, family in FAMILIES.items() if family.component != "attention"]


def scope(family: str, dtype: str = "float32", **narrower: Any) -> Scope:
    """The scope of a function that takes every option."""
    row = COMPONENTS[FAMILIES[family].component]
    everything = {"component": row.name, "dtype": dtype, "accepts": frozenset(row.options)}
    return Scope(**{**everything, **narrower})


def draws(family: str, many: int = 300, dtype: str = "float32", **narrower: Any) -> list[Inputs]:
    """Calls as Hypothesis would build them, without Hypothesis."""
    return list(drawn.sampled(family, scope(family, dtype, **narrower), many, seed=7))


def floating(inputs: Inputs) -> Iterable[np.ndarray[Any, Any]]:
    return (a for a in inputs.arrays.values() if a.dtype.kind == "f")


def dtypes_of(family: str) -> tuple[str, ...]:
    return INDEX_TYPES if COMPONENTS[FAMILIES[family].component].whole else tuple(NUMPY_TYPES)


@pytest.mark.parametrize(
    ("family", "dtype"), [(family, dtype) for family in NAMES for dtype in dtypes_of(family)]
)
def test_calls_are_legal(family: str, dtype: str) -> None:
    row = COMPONENTS[FAMILIES[family].component]
    for inputs in draws(family, 150, dtype):
        assert inputs.dtype == dtype
        assert inputs.layout in LAYOUTS
        given = [name for name in row.keywords if name in inputs.arrays]
        assert list(inputs.arrays) == [*row.arguments, *given]
        assert list(inputs.numbers) == list(row.numbers)
        assert {*inputs.options} <= {*row.options} - {*row.keywords}
        for values in floating(inputs):
            assert values.dtype == np.float64
            assert np.array_equal(snapped(values, dtype), values)
            assert values.flags.c_contiguous
            assert values.flags.writeable
            if "minus infinity" not in inputs.pattern:
                assert np.isfinite(values).all()
        legal = LEGAL.get(inputs.component)
        assert legal is None or (legal(inputs) and lies_as_asked(inputs))


def lies_as_asked(inputs: Inputs) -> bool:
    return all((a == repeated(a, inputs.layout)).all() for a in floating(inputs))


def legal_softmax(inputs: Inputs) -> bool:
    x = inputs.arrays["x"]
    dim = inputs.options.get("dim", -1)
    assert 1 <= x.ndim <= 4
    assert -x.ndim <= dim < x.ndim
    assert x.shape[dim] > 0
    assert not np.isnan(x).any()
    assert not np.isposinf(x).any()
    assert not np.isneginf(x).all(axis=dim).any()
    assert not inputs.signed
    return True


def legal_rotation(inputs: Inputs) -> bool:
    b, _, n, d = inputs.arrays["x"].shape
    assert d % 2 == 0
    if inputs.component == "rope_apply":
        cos, sin = inputs.arrays["cos"], inputs.arrays["sin"]
        assert cos.shape == sin.shape
        assert cos.shape in {(n, d // 2), (b, n, d // 2)}
        return True
    positions = inputs.arrays["positions"]
    assert positions.shape in {(n,), (b, n)}
    assert positions.dtype == np.int64
    assert (positions >= 0).all()
    assert (positions <= 2**20 + 200).all()
    width = inputs.options.get("rotary_dim", d)
    assert width % 2 == 0
    assert 2 <= width <= d
    assert inputs.options.get("base", 2.0) > 1.0
    return True


LEGAL = {"softmax": legal_softmax, "rope": legal_rotation, "rope_apply": legal_rotation}
"""What else is legal; the other components' draws have tests of their own."""


def test_families_are_what_they_say() -> None:
    for inputs in draws("softmax_some_minus_infinity"):
        assert np.isneginf(inputs.arrays["x"]).any()
    for inputs in draws("softmax_rows"):
        x = inputs.arrays["x"]
        assert x.size >= 2 * x.shape[inputs.options.get("dim", -1)]
    for family in ("softmax_empty", "rope_empty", "rope_apply_empty"):
        assert all(inputs.arrays["x"].size == 0 for inputs in draws(family))
    assert {i.arrays["x"].shape.index(0) for i in draws("rope_empty")} == {0, 1, 2}
    for inputs in draws("rope_pairs"):
        assert (inputs.arrays["positions"] < 2**16).all()
    for inputs in draws("rope_zero"):
        assert not inputs.arrays["positions"].any()
    for inputs in draws("rope_partial"):
        assert inputs.options["rotary_dim"] < inputs.arrays["x"].shape[3]
    for inputs in draws("rope_batch"):
        positions = inputs.arrays["positions"]
        assert positions.ndim == 2
        assert len(positions) > 1
        assert len({row.tobytes() for row in positions}) == len(positions)
    for inputs in draws("rope_basis"):
        x = inputs.arrays["x"]
        assert (x == np.eye(x.shape[3])).all()
        assert len(np.unique(inputs.arrays["positions"])) == 1
        assert inputs.arrays["positions"].all()


def test_angle_tables_are_rotations_unless_named_otherwise() -> None:
    for inputs in draws("rope_apply", dtype="float64"):
        length = np.hypot(inputs.arrays["cos"], inputs.arrays["sin"])
        assert np.allclose(length, 1.0) is not inputs.pattern.endswith("any numbers")


def refusal(family: str, accepts: frozenset[str]) -> str:
    try:
        strategy(family, scope(family, accepts=accepts))
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("family", NAMES)
@pytest.mark.parametrize("accepts", [frozenset[str](), frozenset({"base", "eps"})], ids=len)
def test_options_only_if_accepted(family: str, accepts: frozenset[str]) -> None:
    row = COMPONENTS[FAMILIES[family].component]
    if says := refusal(family, accepts):
        # the family needs an option, and names it
        assert any(option in says for option in {*row.options} - accepts)
        return
    for inputs in draws(family, 50, accepts=accepts):
        given = {*inputs.options, *(n for n in row.keywords if n in inputs.arrays)}
        assert given <= accepts | {*row.required}


@pytest.mark.parametrize(
    ("family", "limits"),
    [
        ("rope", {"d": {64, 128}}),
        ("rope", {"d": (8, 256, 8), "n": (2, 40)}),
        ("rope", {"n": (1000, 2000, 8), "b": {1}}),
        ("rope", {"d": {512}, "h": {24}}),
        ("rope_batch", {"b": (1, 2)}),
        ("rope_partial", {"d": (2, 6)}),
        ("rope_basis", {"d": {64, 128}, "b": {3}}),
        ("rope_apply", {"h": {8}, "n": (3, 3)}),
        ("rope_empty", {"d": {48}, "b": (1, 4)}),
    ],
)
def test_limits_are_honoured(family: str, limits: dict[str, Any]) -> None:
    held: dict[str, set[int]] = {axis: set() for axis in limits}
    for inputs in draws(family, 300, limits=limits):
        assert legal_rotation(inputs)
        for axis in limits:
            held[axis].add(inputs.arrays["x"].shape["bhnd".index(axis)])
    for axis, limit in limits.items():
        if isinstance(limit, set):
            assert held[axis] <= limit
        else:
            assert held[axis] <= set(range(limit[0], limit[1] + 1, *limit[2:]))
    if limits == {"d": {64, 128}}:
        assert held["d"] == {64, 128}


@pytest.mark.parametrize(
    ("family", "limits", "says"),
    [
        ("rope", {"d": {63}}, r"'d'.*\{63\}"),
        ("rope", {"d": (5, 4)}, r"'d'.*\(5, 4\)"),
        ("rope", {"n": set()}, "'n'"),
        ("rope", {"n": "long"}, "expected a set of sizes"),
        ("rope_batch", {"b": {1}}, r"'b'.*\{1\}"),
        ("rope_partial", {"d": {2}}, r"'d'.*\{2\}"),
        ("rope_basis", {"d": {8}, "n": {16}}, r"both as n and as d"),
        ("rope_empty", {"b": {1}, "h": {2}, "n": (1, 5)}, "empty axis"),
    ],
)
def test_impossible_limits_are_named(family: str, limits: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        strategy(family, scope(family, limits=limits))


def test_limits_of_axes_that_a_component_lacks_do_nothing() -> None:
    plain, other = draws("softmax", 20), draws("softmax", 20, limits={"d": {64}})
    assert [i.arrays["x"].shape for i in plain] == [i.arrays["x"].shape for i in other]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_positions_fit_the_index_dtype(dtype: str) -> None:
    for inputs in draws("rope", 200, index_dtype=dtype):
        assert inputs.arrays["positions"].dtype == np.dtype(dtype)
        assert (inputs.arrays["positions"] >= 0).all()


def test_rows_of_positions_are_made_different() -> None:
    same = np.asarray([[4, 9], [4, 9], [5, 5]])
    other = with_different_rows(same)
    assert len({row.tobytes() for row in other}) == 3
    assert with_different_rows(other) is other
    assert below(np.asarray([[4, 300]]), 256).tolist() == [[4, 44]]


@pytest.mark.parametrize("family", NAMES)
def test_the_same_seed_gives_the_same_call(family: str) -> None:
    for one, two in zip(draws(family, 30), draws(family, 30), strict=True):
        assert one.options == two.options
        assert one.pattern == two.pattern
        for name, values in one.arrays.items():
            assert values.tobytes() == two.arrays[name].tobytes()


def test_generators_depend_on_seed_and_purpose() -> None:
    one, two = draws("softmax", 2)
    assert generator(one, "shift").random() == generator(one, "shift").random()
    assert generator(one, "shift").random() != generator(one, "scale").random()
    assert generator(one, "shift").random() != generator(two, "shift").random()
    # a stored case is drawn again from its seed, so this number must never change
    fixed = Inputs(component="softmax", dtype="float32", arrays={}, seed=5)
    assert generator(fixed, "shift").integers(10**6) == 119429


def test_description_is_one_line() -> None:
    for inputs in draws("rope", 20):
        text = drawn.description(inputs)
        assert "\n" not in text
        assert f"seed {inputs.seed}" in text
        assert inputs.layout in text
        assert " x ".join(map(str, inputs.arrays["x"].shape)) in text


def test_a_call_prints_as_one_short_line() -> None:
    large = Inputs("softmax", "float32", {"x": np.zeros((64, 8, 9, 5))}, {"dim": 1}, seed=3)
    assert repr(large) == "<softmax(x[64, 8, 9, 5], dim=1) float32, contiguous, seed 3>"
    assert pretty(large) == repr(large)
