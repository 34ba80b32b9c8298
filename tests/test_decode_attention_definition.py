"""The definition of decoding against loops, against rows of attention, and with NaN in slots that
are not valid."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from attnspec.oracle.adjoint import gradients
from attnspec.oracle.balls import BALLS, BOTH_FORMS, midpoints, precision, radii
from attnspec.oracle.compiler import compiled
from attnspec.oracle.errors import errors_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import planned
from attnspec.oracle.precision import contract
from attnspec.oracle.source import source
from attnspec.spec import attention_definition
from attnspec.spec.attention_definition import HEAD_ORDERS, Options
from attnspec.spec.decode_attention_definition import decode_attention, definitions

Array = np.ndarray[Any, Any]
DOUBLE = errors_of(contract("float64"))
KINDS = tuple(product((False, True), HEAD_ORDERS))


def drawn(seed: int) -> tuple[dict[str, Array], dict[str, Any]]:
    """A batch of sequences of all lengths, an empty one first; NaN in the other slots."""
    g = np.random.default_rng(seed)
    groups, slots = int(g.integers(1, 4)), int(g.choice([1, 3, 5, 17]))
    sizes = {
        "batch": 4,
        "heads": groups * int(g.integers(1, 4)),
        "groups": groups,
        "slots": slots,
        "d": int(g.choice([1, 3, 8])),
        "e": int(g.choice([1, 2, 5])),
        "scale": float(g.choice([0.25, 1.0])),
        "left": int(g.choice([0, 1, 2, 100])),
    }
    b, h, d, e = (int(sizes[k]) for k in ("batch", "heads", "d", "e"))
    lengths = np.array([0, 1, int(g.integers(1, slots + 1)), slots])
    arrays = {
        "q": g.standard_normal((b, h, 1, d)),
        "k_cache": g.standard_normal((b, groups, slots, d)),
        "v_cache": g.standard_normal((b, groups, slots, e)),
        "lengths": lengths,
    }
    for entry, length in enumerate(lengths):
        arrays["k_cache"][entry, :, length:] = np.nan
        arrays["v_cache"][entry, :, length:] = np.inf
    return arrays, sizes


def by_loops(arrays: dict[str, Array], sizes: dict[str, Any], order: str, *, window: bool) -> Array:
    """The output, a head of a sequence at a time."""
    q, keys, values = (arrays[name] for name in ("q", "k_cache", "v_cache"))
    h, g = sizes["heads"], sizes["groups"]
    output = np.zeros((*q.shape[:3], values.shape[-1]), np.result_type(q, keys, values))
    for entry, head in np.ndindex(q.shape[:2]):
        length = int(arrays["lengths"][entry])
        first = max(0, length - 1 - sizes["left"]) if window else 0
        group = head // (h // g) if order == "grouped" else head % g
        seen = range(first, length)
        if not seen:
            continue
        scores = np.array(
            [sizes["scale"] * (q[entry, head, 0] @ keys[entry, group, j]) for j in seen]
        )
        weights = np.exp(scores - scores.real.max())
        weights = weights / weights.sum()
        output[entry, head, 0] = sum(
            w * values[entry, group, j] for w, j in zip(weights, seen, strict=True)
        )
    return output


def key_of(definition: Any, sizes: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((str(p), sizes[str(p)]) for p in definition.parameters)


@pytest.mark.parametrize(("window", "order"), KINDS)
def test_value_is_that_of_loops(window: bool, order: str) -> None:
    definition = decode_attention(window=window, head_order=order)
    tape = compiled(definition)
    for seed in range(12):
        arrays, sizes = drawn(seed)
        key = key_of(definition, sizes)
        found = planned(tape, FLOAT64, key)(arrays)
        _, error = planned(tape, DOUBLE, key)(arrays)
        wanted = by_loops(arrays, sizes, order, window=window)
        assert found.shape == wanted.shape
        assert np.isfinite(error).all()
        assert (np.abs(found - wanted) <= 2.0 * error).all()
        assert not found[0].any()
        assert not error[0].any()


@pytest.mark.parametrize(("window", "order"), KINDS)
def test_enclosures_are_narrow_and_hold_both_forms(window: bool, order: str) -> None:
    definition = decode_attention(window=window, head_order=order)
    arrays, sizes = drawn(5)
    key = key_of(definition, sizes)
    _, error = planned(compiled(definition), DOUBLE, key)(arrays)
    with precision():
        balls = planned(compiled(definition), BALLS, key)(arrays)
        planned(compiled(definition), BOTH_FORMS, key)(arrays)
        high, low = midpoints(balls)
        width = radii(balls)
    wanted = by_loops(arrays, sizes, order, window=window)
    assert (np.abs(high + low - wanted) <= 2.0 * error).all()
    assert (width <= 2.0**-20 * error).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_allowances_do_not_read_other_slots(dtype: str) -> None:
    """What lies beyond the lengths changes neither a value nor an allowance."""
    definition = decode_attention(window=True)
    arrays, sizes = drawn(6)
    key = key_of(definition, sizes)
    plan = planned(compiled(definition), errors_of(contract(dtype)), key)
    clean = {name: np.nan_to_num(a, nan=0.0, posinf=0.0) for name, a in arrays.items()}
    assert not np.array_equal(clean["k_cache"], arrays["k_cache"])
    for one, other in zip(plan(arrays), plan(clean), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("order", HEAD_ORDERS)
@pytest.mark.parametrize("window", [False, True])
def test_decoding_is_the_last_row_of_causal_attention(window: bool, order: str) -> None:
    """The two definitions, each at its own sizes."""
    whole = attention_definition.attention(Options(ranges=True, head_order=order))
    definition = decode_attention(window=window, head_order=order)
    for seed in range(6):
        arrays, sizes = drawn(seed)
        g = np.random.default_rng(seed)
        key = key_of(definition, sizes)
        decoded = planned(compiled(definition), FLOAT64, key)(arrays)
        _, error = planned(compiled(definition), DOUBLE, key)(arrays)
        for entry, length in enumerate(arrays["lengths"].tolist()):
            if length == 0:
                continue
            queries = g.standard_normal((1, sizes["heads"], length, sizes["d"]))
            queries[0, :, -1] = arrays["q"][entry, :, 0]
            given = {
                "q": queries,
                "k": arrays["k_cache"][entry : entry + 1, :, :length],
                "v": arrays["v_cache"][entry : entry + 1, :, :length],
            }
            own = {**sizes, "batch": 1, "t": length, "s": length, "offset": 0, "right": 0}
            own |= {} if window else {"left": length}
            row = planned(compiled(whole), FLOAT64, key_of(whole, own))(given)[0, :, -1]
            assert (np.abs(row - decoded[entry, :, 0]) <= 2.0 * error[entry, :, 0]).all()


def test_orders_and_windows_differ() -> None:
    """Values tell the kinds apart: a test in which two agreed would see no difference."""
    g = np.random.default_rng(0)
    sizes = {
        "batch": 1,
        "heads": 4,
        "groups": 2,
        "slots": 7,
        "d": 3,
        "e": 2,
        "scale": 1.0,
        "left": 1,
    }
    arrays = {
        "q": g.standard_normal((1, 4, 1, 3)),
        "k_cache": g.standard_normal((1, 2, 7, 3)),
        "v_cache": g.standard_normal((1, 2, 7, 2)),
        "lengths": np.array([5]),
    }
    found = []
    for window, order in KINDS:
        definition = decode_attention(window=window, head_order=order)
        plan = planned(compiled(definition), DOUBLE, key_of(definition, sizes))
        found.append(plan(arrays))
    for place, (value, error) in enumerate(found):
        for other, _ in found[:place]:
            assert np.abs(value - other).max() > 2.0**20 * error.max()


def test_gradients_are_those_of_a_complex_step() -> None:
    definition = decode_attention(window=True)
    arrays, sizes = drawn(2)
    g = np.random.default_rng(3)
    upstream = g.standard_normal((4, sizes["heads"], 1, sizes["e"]))
    names = ("q", "k_cache", "v_cache")
    tape = gradients(definition, names)
    results = planned(tape, DOUBLE, key_of(definition, sizes))({**arrays, "upstream": upstream})
    step = 2.0**-100
    for name, (value, error) in zip(names, results, strict=True):
        assert value.shape == arrays[name].shape
        for _ in range(12):
            at = tuple(int(g.integers(size)) for size in value.shape)
            moved = {key: a if key == "lengths" else a.astype(complex) for key, a in arrays.items()}
            moved[name][at] += 1j * step
            output = by_loops(moved, sizes, "grouped", window=True)
            assert abs((output.imag / step * upstream).sum() - value[at]) <= 2.0 * error[at], name
        if name != "q":
            for entry, length in enumerate(arrays["lengths"].tolist()):
                assert not value[entry, :, length:].any()


def test_printed_source_computes_what_the_tape_does() -> None:
    definition = decode_attention(window=True)
    arrays, sizes = drawn(8)
    scope: dict[str, Any] = {"np": np}
    text = source(compiled(definition))
    exec(text, scope)  # the text is ours: running it is the test
    given = dict(key_of(definition, sizes))
    with np.errstate(all="ignore"):
        printed = scope["decode_attention"](*arrays.values(), **given)
    _, error = planned(compiled(definition), DOUBLE, tuple(given.items()))(arrays)
    wanted = by_loops(arrays, sizes, "grouped", window=True)
    assert (np.abs(printed - wanted) <= 2.0 * error).all()


def test_names_of_definitions() -> None:
    assert [definition.name for definition in definitions()] == ["decode_attention"] * 2
