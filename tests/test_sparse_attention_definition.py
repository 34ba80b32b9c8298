"""The definition of sparse attention: attention to the keys of a table, and to no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnspec.oracle.balls import BALLS, BOTH_FORMS, midpoints, precision
from attnspec.oracle.errors import errors_of
from attnspec.oracle.expected import (
    expected,
    expected_gradients,
    tape_of,
    value_of,
)
from attnspec.oracle.plan import Plan, planned
from attnspec.oracle.precision import EVALUATION, contract, snapped
from attnspec.spec import attention_definition
from attnspec.spec.attention_definition import HEAD_ORDERS, Options
from attnspec.spec.sparse_attention_definition import selected, sparse_attention
from tests.emulation import STYLES, Emulated

Array = np.ndarray[Any, Any]
SHAPES = ((1, 1, 1, 1, 1, 1, 1, 1), (2, 4, 2, 3, 7, 5, 3, 4), (1, 3, 1, 5, 4, 2, 6, 6),
          (2, 6, 3, 2, 9, 8, 1, 2))  # fmt: skip
NAMES = ("batch", "heads", "groups", "t", "s", "d", "e", "places")


def table(g: np.random.Generator, b: int, t: int, s: int, places: int) -> Array:
    """Distinct keys in any order, and -1 anywhere among them; some rows have no key."""
    found = np.full((b, t, places), -1)
    for row in found.reshape(-1, places):
        count = int(g.integers(0, min(s, places) + 1))
        at = g.permutation(places)[:count]
        row[at] = g.permutation(s)[:count]
    return found


def call(g: np.random.Generator, shape: tuple[int, ...], dtype: str) -> tuple[Any, Any]:
    b, h, groups, t, s, d, e, places = shape
    arrays: dict[str, Array] = {
        "q": snapped(g.standard_normal((b, h, t, d)), dtype),
        "k": snapped(g.standard_normal((b, groups, s, d)), dtype),
        "v": snapped(g.standard_normal((b, groups, s, e)), dtype),
        "indices": table(g, b, t, s, places),
    }
    return {**dict(zip(NAMES, shape, strict=True)), "scale": 0.5}, arrays


def ordered(definition: Any, sizes: Any) -> dict[str, Any]:
    return {str(p): sizes[str(p)] for p in definition.parameters}


def gathered(sizes: Any, arrays: Any, order: str) -> Array:
    """Softmax over the listed keys alone, row by row."""
    q, k, v, indices = (arrays[name] for name in ("q", "k", "v", "indices"))
    out = np.zeros((*q.shape[:3], v.shape[-1]))
    share = sizes["heads"] // sizes["groups"]
    for b, h, i in np.ndindex(*q.shape[:3]):
        g = h // share if order == "grouped" else h % sizes["groups"]
        keys = [j for j in indices[b, i] if j >= 0]
        if keys:
            z = sizes["scale"] * (k[b, g, keys] @ q[b, h, i])
            w = np.exp(z - z.max())
            out[b, h, i] = (w / w.sum()) @ v[b, g, keys]
    return out


@pytest.mark.parametrize("order", HEAD_ORDERS)
def test_value_is_attention_to_the_listed_keys(order: str) -> None:
    g = np.random.default_rng(3)
    definition = sparse_attention(order)
    rules = errors_of(contract("float64"))
    for turn in range(12):
        sizes, arrays = call(g, SHAPES[turn % len(SHAPES)], "float64")
        given = ordered(definition, sizes)
        key = tuple(given.items())
        with precision():
            high, low = midpoints(planned(tape_of(definition), BALLS, key)(arrays))
            planned(tape_of(definition), BOTH_FORMS, key)(arrays)  # forms that differ raise
        value, error = planned(tape_of(definition), rules, key)(arrays)
        for found in (value, value_of(definition, given, arrays)):
            assert (np.abs((found - high) - low) <= error).all()
        assert (np.abs(gathered(sizes, arrays, order) - value) <= 2.0 * error).all()
        empty = (arrays["indices"] < 0).all(-1)
        assert not high.transpose(0, 2, 1, 3)[empty].any()


def test_selected_keys() -> None:
    sizes = {"batch": 1, "t": 3, "s": 4, "places": 2}
    indices = np.array([[[2, -1], [-1, -1], [3, 0]]])
    found = value_of(selected(), sizes, {"indices": indices})
    assert found[0].tolist() == [[0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 1]]


def test_every_key_selected_is_attention_to_all_in_any_order() -> None:
    g = np.random.default_rng(4)
    sizes, arrays = call(g, (2, 4, 2, 3, 6, 5, 3, 6), "float64")
    arrays["indices"] = np.stack([[g.permutation(6) for _ in range(3)] for _ in range(2)])
    sparse = sparse_attention("grouped")
    dense = attention_definition.attention(Options())
    rules = contract("float64")
    one = expected(sparse, ordered(sparse, sizes), arrays, rules)
    other = expected(dense, ordered(dense, sizes), arrays, rules)
    assert (np.abs(one.value - other.value) <= one.allowance + other.allowance).all()


def gradients(sizes: Any, arrays: Any, upstream: Array) -> dict[str, Array]:
    """Of q, k and v, row by row over the listed keys."""
    found = {name: np.zeros_like(arrays[name]) for name in "qkv"}
    share, scale = sizes["heads"] // sizes["groups"], sizes["scale"]
    for b, h, i in np.ndindex(*arrays["q"].shape[:3]):
        g = h // share
        keys = [j for j in arrays["indices"][b, i] if j >= 0]
        if keys:
            q, k, v = arrays["q"][b, h, i], arrays["k"][b, g, keys], arrays["v"][b, g, keys]
            w = np.exp(scale * (k @ q) - (scale * (k @ q)).max())
            w = w / w.sum()
            back = v @ upstream[b, h, i]
            slope = scale * w * (back - w @ back)
            found["q"][b, h, i] += slope @ k
            found["k"][b, g, keys] += np.outer(slope, q)
            found["v"][b, g, keys] += np.outer(w, upstream[b, h, i])
    return found


def test_gradients_are_those_of_the_listed_keys() -> None:
    g = np.random.default_rng(6)
    definition = sparse_attention("grouped")
    for shape in SHAPES:
        sizes, arrays = call(g, shape, "float64")
        upstream = g.standard_normal((*arrays["q"].shape[:3], sizes["e"]))
        both = {**arrays, "upstream": upstream}
        rules = contract("float64")
        given = ordered(definition, sizes)
        parts = expected_gradients(definition, ("q", "k", "v"), given, both, rules)
        for (name, found), part in zip(
            gradients(sizes, arrays, upstream).items(), parts, strict=True
        ):
            assert (np.abs(found - part.value) <= 2.0 * part.allowance).all(), name


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_no_emulated_rounding_leaves_the_allowance(dtype: str) -> None:
    g = np.random.default_rng(5)
    definition = sparse_attention("grouped")
    worst = 0.0
    for turn in range(8):
        sizes, arrays = call(g, SHAPES[turn % len(SHAPES)], dtype)
        given = ordered(definition, sizes)
        rules = contract(dtype, ["eager", "flash"][turn % 2])
        right = expected(definition, given, arrays, rules)
        room = right.allowance * (1.0 + EVALUATION)
        for style in STYLES:
            found = Plan(tape_of(definition), Emulated(rules, g, style), given)(arrays)
            assert (np.abs(found - right.value) <= room).all()
            ratio = np.abs(found - right.value)[room > 0] / room[room > 0]
            worst = max(worst, float(ratio.max(initial=0.0)))
    assert worst > 0.2
