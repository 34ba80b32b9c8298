"""Drawn calls are legal, repeatable, various, quick to draw, and shrink to simple ones."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from attnspec.oracle import inputs as drawn
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.family import DRESSES
from attnspec.oracle.inputs import FAMILIES, LAYOUTS, Scope, generator, strategy
from attnspec.oracle.law import Inputs
from attnspec.oracle.positions import EDGES, POSITIONS, TABLES, below, with_different_rows
from attnspec.oracle.precision import FORMATS, NUMPY_TYPES, snapped
from attnspec.oracle.softmax_inputs import MASKS
from attnspec.oracle.values import LOGITS, PATTERNS, SPECIALS, VALUES, filled, span

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


def draws(family: str, many: int = 300, dtype: str = "float32", **narrower: Any) -> list[Inputs]:
    """Calls as Hypothesis would build them, without Hypothesis."""
    return list(drawn.sampled(family, scope(family, dtype, **narrower), many, seed=7))


def floating(inputs: Inputs) -> Iterable[np.ndarray[Any, Any]]:
    return (a for a in inputs.arrays.values() if a.dtype.kind == "f")


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_calls_are_legal(family: str, dtype: str) -> None:
    for inputs in draws(family, 150, dtype):
        assert inputs.dtype == dtype
        assert inputs.layout in LAYOUTS
        assert list(inputs.arrays) == list(COMPONENTS[inputs.component].arguments)
        for values in floating(inputs):
            assert values.dtype == np.float64
            assert np.array_equal(snapped(values, dtype), values)
            assert values.flags.c_contiguous
            assert values.flags.writeable
            if inputs.layout == "expanded" and len(values):
                assert (values == values[:1]).all()
            if "minus infinity" not in inputs.pattern:
                assert np.isfinite(values).all()
        assert legal_softmax(inputs) if inputs.component == "softmax" else legal_rotation(inputs)


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


@pytest.mark.parametrize("family", FAMILIES)
def test_options_only_if_accepted(family: str) -> None:
    if family == "rope_partial":
        with pytest.raises(ValueError, match="rotary_dim"):
            strategy(family, scope(family, accepts=frozenset({"base"})))
        return
    assert all(not i.options for i in draws(family, 50, accepts=frozenset()))
    for inputs in draws(family, 50, accepts=frozenset({"base", "eps"})):
        assert set(inputs.options) <= {"base"}


def test_options_vary() -> None:
    left_out = Counter(frozenset(i.options) for i in draws("rope", 2000))
    assert set(left_out) == {
        frozenset(), frozenset({"base"}), frozenset({"rotary_dim"}),
        frozenset({"base", "rotary_dim"}),
    }  # fmt: skip
    assert 0.2 < left_out[frozenset()] / 2000 < 0.5
    assert {i.options.get("base") for i in draws("rope", 1000)} == {
        None, 2.0, 100.0, 10000.0, 500000.0, 1000000.0,
    }  # fmt: skip
    dims = Counter(np.sign(i.options.get("dim", 9)) * 1 for i in draws("softmax", 2000))
    assert dims[-1] > 500
    without = sum("dim" not in i.options for i in draws("softmax", 2000))
    assert 400 < without < 1000


def test_settings_that_hide_faults_are_the_minority() -> None:
    calls = draws("rope", 2000)
    shapes = [i.arrays["x"].shape for i in calls]
    assert sum(s[0] == 1 for s in shapes) < 600, "one batch entry"
    assert sum(s[1] == 1 for s in shapes) < 600, "one head"
    assert sum(s[2] == 1 for s in shapes) < 400, "one position"
    assert sum(s[3] == 2 for s in shapes) < 400, "one pair of channels"
    assert sum(s[2] % 8 == 0 for s in shapes) < 800, "no tail"
    assert sum(len(set(s)) < 3 for s in shapes) < 400, "equal sizes"
    assert sum(len(set(s) - {1}) < len(s) - s.count(1) for s in shapes) < 200, "equal sizes"
    assert sum(not i.arrays["positions"].any() for i in calls) < 300, "position 0"
    assert 800 < sum(i.arrays["positions"].ndim == 2 for i in calls) < 1200, "both shapes"
    assert sum(i.layout == "contiguous" for i in calls) < 800, "fresh tensors"
    rows = [i.arrays["x"].shape[i.options.get("dim", -1)] for i in draws("softmax", 2000)]
    assert sum(m == 1 for m in rows) < 100, "a single logit"
    assert sum(m % 8 == 0 for m in rows) < 700, "no tail"


def test_every_entry_of_the_tables_is_reachable() -> None:
    softmax = [*draws("softmax", 3000), *draws("softmax_some_minus_infinity", 3000)]
    assert {i.pattern.split(";")[0] for i in softmax} == {p.name for p in LOGITS} == set(PATTERNS)
    assert {i.pattern.split(": ")[-1] for i in softmax[3000:]} == {m.name for m in MASKS}
    rope = draws("rope", 4000)
    assert {i.pattern.split(";")[0] for i in rope} == {p.name for p in VALUES}
    assert {i.pattern.split(": ")[-1] for i in rope} == {p.name for p in POSITIONS}
    assert {i.layout for i in rope} == {i.layout for i in softmax} == set(LAYOUTS)
    held = set(np.concatenate([i.arrays["positions"].ravel() for i in rope]).tolist())
    assert held >= {edge.start for edge in EDGES}
    assert max(held) > 2**19
    tables = {i.pattern.split(": ")[-1] for i in draws("rope_apply", 500)}
    assert tables == {t.name for t in TABLES}
    lengths = {i.arrays["x"].shape[2] for i in rope}
    assert lengths >= {1, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129}
    assert {i.arrays["x"].shape[3] for i in rope} == {2, 4, 6, 8, 10, 16, 32, 64, 80, 96, 128}


def test_leading_blocks_of_minus_infinity_occur() -> None:
    blocks = set()
    for inputs in draws("softmax_some_minus_infinity", 3000):
        rows = np.moveaxis(inputs.arrays["x"], inputs.options.get("dim", -1), -1)
        finite = np.isfinite(rows).reshape(-1, rows.shape[-1])
        blocks.add(int(finite.argmax(axis=1).min()))
    assert blocks >= {0, 1, 16, 32, 64, 128}


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
def test_special_numbers_occur(dtype: str) -> None:
    seen = {name for dress in DRESSES for _, name in dress.specials}
    assert seen == set(SPECIALS)
    assert max(len(dress.specials) for dress in DRESSES) == 2
    assert sum(not dress.specials for dress in DRESSES) >= len(DRESSES) / 2
    held = np.concatenate([i.arrays["x"].ravel() for i in draws("rope", 1500, dtype)])
    wide = span(dtype, "values")
    for number in (wide.normal, -wide.normal, wide.largest / 4.0, -wide.largest / 4.0):
        assert (held == snapped(np.asarray(number), dtype)).any()
    assert ((held == 0.0) & np.signbit(held)).any()


@pytest.mark.parametrize("use", ["values", "logits"])
@pytest.mark.parametrize("dtype", NUMPY_TYPES)
@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_give_finite_numbers_of_the_dtype(name: str, dtype: str, use: str) -> None:
    pattern, wide = PATTERNS[name], span(dtype, use)
    for seed in range(30):
        values = filled(pattern, np.random.default_rng(seed), (3, 1, 7), wide)
        assert values.shape == (3, 1, 7)
        assert np.isfinite(values).all()
        assert np.array_equal(snapped(values, dtype), values)
        assert filled(pattern, np.random.default_rng(seed), (2, 0, 3), wide).size == 0
        assert filled(pattern, np.random.default_rng(seed), (1,), wide).size == 1


@pytest.mark.parametrize("name", [name for name, p in PATTERNS.items() if p.signed])
def test_signed_patterns_have_independent_signs(name: str) -> None:
    # neighbours' signs agree in half of the cases; 4000 pairs, five standard deviations
    wide = span("float32", "values")
    values = [
        filled(PATTERNS[name], np.random.default_rng(s), (4, 100), wide).ravel() for s in range(20)
    ]
    for stride in (1, 2, 100):
        product = np.concatenate([v[stride:] * v[:-stride] for v in values])
        product = product[product != 0.0]
        agree = float((product > 0.0).mean())
        assert abs(agree - 0.5) < 2.5 / len(product) ** 0.5
    assert abs(float((np.concatenate(values) > 0.0).mean()) - 0.5) < 0.5


def test_the_variance_counts_only_for_random_signs() -> None:
    for inputs in draws("rope", 1000):
        name = inputs.pattern.split(";")[0]
        assert not inputs.signed or PATTERNS[name].signed
    assert 300 < sum(i.signed for i in draws("rope", 1000)) < 700
    assert not any(i.signed for i in draws("softmax", 300))


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
def test_few_weights_lie_below_the_normal_range(dtype: str) -> None:
    """They cannot be judged, so they would make a law `not-tested` if they were many."""
    below_normal = total = 0
    for inputs in draws("softmax", 2000, dtype):
        x, dim = inputs.arrays["x"], inputs.options.get("dim", -1)
        weights = np.exp(x - x.max(axis=dim, keepdims=True))
        weights /= weights.sum(axis=dim, keepdims=True)
        below_normal += int(((weights > 0.0) & (weights < FORMATS[dtype].normal)).sum())
        total += x.size
    assert below_normal < 0.06 * total


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


def test_unknown_families_are_named() -> None:
    with pytest.raises(ValueError, match="softmax_rows"):
        strategy("sofmax", scope("softmax"))
    with pytest.raises(ValueError, match="draws calls of rope, not of softmax"):
        strategy("rope", scope("softmax"))
    assert drawn.families() == tuple(FAMILIES)
    assert "rope_zero" in drawn.families("rope")
    assert "softmax" not in drawn.families("rope")


def test_strategies_are_built_once() -> None:
    one = strategy("rope", scope("rope", limits={"d": {8, 16}}))
    assert one is strategy("rope", scope("rope", limits={"d": {16, 8}}))
    assert one is not strategy("rope", scope("rope", limits={"d": (8, 16)}))


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


@pytest.mark.parametrize("family", FAMILIES)
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


def test_description_is_one_line() -> None:
    for inputs in draws("rope", 20):
        text = drawn.description(inputs)
        assert "\n" not in text
        assert f"seed {inputs.seed}" in text
        assert inputs.layout in text
        assert " x ".join(map(str, inputs.arrays["x"].shape)) in text


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
