"""Drawn calls reach every entry of the tables, and settings that hide faults are rare."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from attnspec.oracle import inputs as drawn
from attnspec.oracle.family import DRESSES
from attnspec.oracle.inputs import FAMILIES, LAYOUTS, Scope
from attnspec.oracle.law import Inputs
from attnspec.oracle.positions import EDGES, POSITIONS, TABLES
from attnspec.oracle.precision import FORMATS, NUMPY_TYPES, snapped
from attnspec.oracle.softmax_inputs import FAR_BELOW, MASKS
from attnspec.oracle.values import LOGITS, PATTERNS, SPECIALS, VALUES, filled, span

ALL = frozenset({"dim", "base", "rotary_dim"})


def scope(family: str, dtype: str = "float32", **narrower: Any) -> Scope:
    """The scope of a function that takes every option."""
    return Scope(
        **{"component": FAMILIES[family].component, "dtype": dtype, "accepts": ALL, **narrower}
    )


def draws(family: str, many: int = 300, dtype: str = "float32", **narrower: Any) -> list[Inputs]:
    """Calls as Hypothesis would build them, without Hypothesis."""
    return list(drawn.sampled(family, scope(family, dtype, **narrower), many, seed=7))


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
    assert sum(len(set(s) - {1}) < len(s) - s.count(1) for s in shapes) < 300, "equal sizes"
    assert sum(not i.arrays["positions"].any() for i in calls) < 300, "position 0"
    assert 800 < sum(i.arrays["positions"].ndim == 2 for i in calls) < 1200, "both shapes"
    assert sum(i.layout == "contiguous" for i in calls) < 800, "fresh tensors"
    rows = [i.arrays["x"].shape[i.options.get("dim", -1)] for i in draws("softmax", 2000)]
    assert sum(m == 1 for m in rows) < 100, "a single logit"
    assert sum(m % 8 == 0 for m in rows) < 700, "no tail"


def test_families_draw_what_their_laws_are_about() -> None:
    """No fault that a law names is met by chance."""
    shapes = [i.arrays["x"].shape for i in draws("rope_alike", 1000)]
    assert sum(h == n > 1 for _, h, n, _ in shapes) > 120
    low = [i.arrays["x"] for i in draws("softmax_some_minus_infinity", 1000)]
    assert sum(bool((x < -1e4).all()) for x in low) > 100


def test_every_entry_of_the_tables_is_reachable() -> None:
    softmax = [*draws("softmax", 3000), *draws("softmax_some_minus_infinity", 3000)]
    names = {p.name for p in LOGITS}
    assert {i.pattern.split(";")[0] for i in softmax} == names | {FAR_BELOW.name}
    assert names == set(PATTERNS)
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
    assert {i.arrays["x"].shape[3] for i in rope} == {2, 4, 6, 8, 10, 16, 32, 64, 80, 96, 128, 256}


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
