"""Statements on decoding and its cache by other means: loops, arrays, whole numbers; and proofs
that a wrong definition leaves open."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import sympy as sp

from attnspec.spec import decode_attention, decode_attention_definition
from attnspec.spec.definition import Definition, choice
from attnspec.spec.multi_head_attention_definition import MultiHead
from tests.multi_head_loops import by_loops, drawn
from tests.registered import shown, still_open

Array = np.ndarray[Any, Any]


def cache(layers: int, lengths: list[int], heads: int, d: int, e: int, dtype: str) -> list[Array]:
    """Keys and values of all layers, sequence by sequence. Zeros that are never touched take no
    memory."""
    return [
        np.zeros((heads, length, size), dtype)
        for _ in range(layers)
        for length in lengths
        for size in (d, e)
    ]


def stated(n: int, heads: int, e: int, wide: int) -> int:
    """The document's formula."""
    return 2 * n * heads * e * wide


def test_the_formula_leaves_out_the_layers() -> None:
    example = shown("kv_cache.bytes_of_all_layers")
    assert example.stated == stated(1, 1, 1, 2)
    assert example.actual == sum(a.nbytes for a in cache(2, [1], 1, 1, 1, "float16"))
    g = np.random.default_rng(0)
    for dtype, wide in (("float16", 2), ("float32", 4), ("float64", 8)):
        for _ in range(20):
            layers, batch, n, heads, d, e = (int(x) for x in g.integers(1, 7, 6))
            found = sum(a.nbytes for a in cache(layers, [n] * batch, heads, d, e, dtype))
            assert found == batch * layers * n * heads * (d + e) * wide
            ratio = Fraction(found, stated(n, heads, e, wide))
            assert ratio == Fraction(batch * layers * (d + e), 2 * e)


def test_a_million_tokens_take_less_than_hundreds_of_gigabytes() -> None:
    example = shown("kv_cache.bytes_of_million_tokens")
    million = 10**6
    one = [np.broadcast_to(np.float16(0), (128, million, 128)) for _ in ("keys", "values")]
    assert example.actual == sum(a.size * a.itemsize for a in one)
    assert example.actual == stated(million, 128, 128, 2) == 65_536_000_000
    assert example.stated == 10**11 > example.actual

    def taken(layers: int, channels: int) -> int:
        return layers * stated(million, 128, channels, 2)

    assert taken(1, 64) == 32_768_000_000
    assert min(c for c in range(1, 400) if taken(1, c) >= 10**11) == 196
    assert [n for n in range(1, 100) if 10**11 <= taken(n, 128) < 10**12] == list(range(2, 16))
    assert taken(60, 128) == 3_932_160_000_000


def full_attention(x: list[Fraction]) -> list[float]:
    """One channel, all weights 1, every token sees all."""
    rows = []
    for query in x:
        weights = [np.exp(float(query * key)) for key in x]
        rows.append(sum(w * float(v) for w, v in zip(weights, x, strict=True)) / sum(weights))
    return rows


def test_a_key_of_the_second_layer_changes_without_causality() -> None:
    example = shown("kv_cache.append_only_of_causal")
    assert float(example.stated) == full_attention([Fraction(0)])[0] == 0.0
    assert float(example.actual) == full_attention([Fraction(0), Fraction(1)])[0] == 0.5


@pytest.mark.parametrize("layout", [None, "interleaved", "half"])
def test_keys_of_past_tokens_stay_under_causality_alone(layout: str | None) -> None:
    """Over a growing sequence of whole numbers, whose projections are exact: what a second layer
    makes its keys of, for the tokens that were there."""
    for causal in (True, False):
        call = MultiHead(causal=causal, layout=layout)
        arrays, sizes = drawn(4, call)
        whole = {name: np.rint(2.0 * values) for name, values in arrays.items()}
        g = np.random.default_rng(5)
        tokens = g.integers(-2, 3, (1, 6, whole["x"].shape[2])).astype(float)
        inner = [by_loops({**whole, "x": tokens[:, :n]}, call, sizes) for n in range(1, 7)]
        kept = [
            np.array_equal(later[:, : earlier.shape[1]], earlier)
            for earlier, later in pairwise(inner)
        ]
        assert kept == [causal] * 5


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_recomputing_is_counted(n: int) -> None:
    projected = pairs = 0
    for step in range(1, n + 1):
        projected += step
        pairs += sum(1 for query in range(step) for key in range(step) if key <= query)
    assert projected == n * (n + 1) // 2
    assert pairs == n * (n + 1) * (n + 2) // 6
    once = sum(1 for query in range(n) for key in range(n) if key <= query)
    assert Fraction(pairs, once) == Fraction(n + 2, 3)


def test_float16_has_sixteen_bits() -> None:
    info = np.finfo(np.float16)
    assert 1 + info.nexp + info.nmant == info.bits == 8 * np.dtype(np.float16).itemsize == 16


def test_flops_of_a_byte_of_cache() -> None:
    """A step of decoding, operation by operation."""
    g = np.random.default_rng(2)
    for _ in range(10):
        groups, per, n, d, e, batch = (int(x) for x in g.integers(1, 5, 6))
        flops = 0
        for _head in range(batch * groups * per):
            for _key in range(n):
                flops += sum(2 for _ in range(d)) + sum(2 for _ in range(e))
        read = sum(a.nbytes for a in cache(1, [n] * batch, groups, d, e, "float16"))
        assert Fraction(flops, read) == per


def test_a_window_of_one_more_leaves_the_proof_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that shows left + 1 keys before the newest."""
    right = decode_attention_definition.decode_attention

    def longer(**options: Any) -> Definition:
        made = right(**options)
        left = next((p for p in made.parameters if str(p) == "left"), sp.S.Zero)
        moved = made.expression.xreplace({left: left + 1}) if left else made.expression
        return Definition(made.name, moved, made.axes, made.arrays, made.parameters)

    monkeypatch.setattr("attnspec.spec.decode_attention.decode_attention", longer)
    decode_attention.decoded.cache_clear()
    found = still_open("decode_attention.window_from_newest")
    decode_attention.decoded.cache_clear()
    assert [says[:16] for says in found] == ["one further back", "a window that co"]


def test_reading_a_slot_too_many_leaves_the_proof_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The condition under which the cache is read one slot too wide."""
    right = decode_attention_definition.decode_attention

    def wider(**options: Any) -> Definition:
        made = right(**options)
        moved = made.expression.replace(
            lambda node: isinstance(node, choice) and "cache" in str(node.args[0]),
            lambda node: (
                choice(node.args[0], node.args[1].lhs <= node.args[1].rhs, node.args[2])
                if isinstance(node.args[1], sp.StrictLessThan)
                else node
            ),
        )
        return Definition(made.name, moved, made.axes, made.arrays, made.parameters)

    monkeypatch.setattr("attnspec.spec.decode_attention.decode_attention", wider)
    decode_attention.decoded.cache_clear()
    found = still_open("decode_attention.slots_beyond_length_are_not_read")
    decode_attention.decoded.cache_clear()
    assert found == ["at a slot n + u neither is: 0 stands for it"]
