"""Statements on multi-head attention by other means: the listing in numpy, memory layouts, counts;
and proofs that a wrong definition leaves open."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy as sp

from attnspec.oracle.compiler import compiled
from attnspec.oracle.errors import errors_of
from attnspec.oracle.plan import planned
from attnspec.oracle.precision import contract
from attnspec.spec import multi_head_attention, multi_head_attention_definition
from attnspec.spec.multi_head_attention_definition import MultiHead
from tests.registered import shown, still_open

Array = np.ndarray[Any, Any]
DOUBLE = errors_of(contract("float64", {"angles": "float64"}))


def listing(x: Array, linear: dict[str, Array], heads: int, *, masked: bool = True) -> Array:
    """The listing of document 003, line for line, in numpy. A linear layer has the transposed
    weight."""
    b, t, width = x.shape
    size = width // heads
    q, k, v = (
        (x @ linear[name].T).reshape(b, t, heads, size).transpose(0, 2, 1, 3)
        for name in ("q_proj", "k_proj", "v_proj")
    )
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(size)
    if masked:
        scores = scores + np.triu(np.full((t, t), -np.inf), 1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    out = (weights @ v).transpose(0, 2, 1, 3).reshape(b, t, width)
    result: Array = out @ linear["out_proj"].T
    return result


def drawn(width: int, length: int, seed: int) -> tuple[Array, dict[str, Array]]:
    g = np.random.default_rng(seed)
    names = ("q_proj", "k_proj", "v_proj", "out_proj")
    linear = {name: g.standard_normal((width, width)) for name in names}
    return g.standard_normal((2, length, width)), linear


def defined(x: Array, linear: dict[str, Array], heads: int, call: MultiHead) -> tuple[Array, Array]:
    """The definition's value with the listing's weights, and how far two such may be apart."""
    weights = zip(("w_q", "w_k", "w_v", "w_o"), linear.values(), strict=True)
    arrays = {"x": x, **{name: weight.T for name, weight in weights}}
    size = x.shape[2] // heads
    sizes = {"batch": len(x), "heads": heads, "groups": heads, "n": x.shape[1], "base": 10000.0,
             "width": x.shape[2], "d": size, "e": size}  # fmt: skip
    definition = multi_head_attention_definition.multi_head_attention(call)
    key = tuple((str(p), sizes[str(p)]) for p in definition.parameters)
    value, error = planned(compiled(definition), DOUBLE, key)(arrays)
    return value, 2.0 * error


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 12])
def test_the_listing_is_the_definition(heads: int) -> None:
    x, linear = drawn(12, 5, heads)
    value, room = defined(x, linear, heads, MultiHead(causal=True))
    assert (np.abs(listing(x, linear, heads) - value) <= room).all()
    assert sum(weight.size for weight in linear.values()) == 4 * 12**2
    other, _ = defined(x, linear, heads, MultiHead())
    assert np.abs(other - value).max() > 2.0**20 * room.max()


@pytest.mark.parametrize("heads", [1, 2, 3, 6])
def test_the_listing_has_no_positions(heads: int) -> None:
    """Without the mask shuffled tokens give shuffled outputs; with RoPE they don't."""
    x, linear = drawn(12, 5, heads)
    order = np.random.default_rng(heads).permutation(5)
    assert not np.array_equal(order, np.arange(5))
    plain = listing(x, linear, heads, masked=False)
    shuffled = listing(x[:, order], linear, heads, masked=False)
    _, room = defined(x, linear, heads, MultiHead())
    assert (np.abs(shuffled - plain[:, order]) <= 2.0 * room[:, order]).all()
    turning = MultiHead(layout="interleaved")
    first, room = defined(x, linear, heads, turning)
    second, _ = defined(x[:, order], linear, heads, turning)
    assert np.abs(second - first[:, order]).max() > 2.0**20 * room.max()


def test_what_rope_would_change() -> None:
    """Two tokens (1, 1) and (1, -1), W_Q = W_K = diag(1, 0), W_V = diag(0, 1): by hand."""
    example = shown("multi_head_attention.listing_lacks_positions")
    linear = {
        "q_proj": np.diag([1.0, 0.0]),
        "k_proj": np.diag([1.0, 0.0]),
        "v_proj": np.diag([0.0, 1.0]),
        "out_proj": np.eye(2),
    }
    x = np.array([[[1.0, 1.0], [1.0, -1.0]]])
    assert listing(x, linear, 1)[0, 1, 1] == float(example.actual) == 0.0
    with mpmath.workdps(50):
        keys = [mpmath.expj(place) for place in (0, 1)]
        weights = [mpmath.exp((keys[1] * mpmath.conj(key)).real / mpmath.sqrt(2)) for key in keys]
        turned = (weights[0] * 1 + weights[1] * -1) / sum(weights)
        assert mpmath.almosteq(turned, mpmath.mpf(str(sp.N(example.stated, 45))), rel_eps=1e-40)
        assert turned < 0


def test_heads_that_do_not_divide_the_width() -> None:
    example = shown("multi_head_attention.heads_are_columns")
    token = list(range(6))
    size = len(token) // 4
    held = [channel for head in range(4) for channel in token[head * size : (head + 1) * size]]
    assert example.stated == len(token)
    assert example.actual == len(held) == 4


@pytest.mark.parametrize(("length", "heads", "size"), [(2, 2, 1), (3, 2, 5), (5, 4, 3)])
def test_heads_are_columns_after_the_right_view(length: int, heads: int, size: int) -> None:
    x = np.arange(length * heads * size).reshape(1, length, heads * size)
    split = x.reshape(1, length, heads, size).transpose(0, 2, 1, 3)
    direct = x.reshape(1, heads, length, size)
    columns = np.stack([x[..., a * size : (a + 1) * size] for a in range(heads)], axis=1)
    assert np.array_equal(split, columns)
    assert not np.array_equal(direct, columns)


def test_concatenated_heads_are_a_sum_of_blocks() -> None:
    g = np.random.default_rng(0)
    for _ in range(20):
        rows, heads, size, width = (int(n) for n in g.integers(1, 6, 4))
        outputs = [
            [
                [Fraction(int(a), int(b)) for a, b in g.integers(1, 9, (size, 2))]
                for _ in range(rows)
            ]
            for _ in range(heads)
        ]
        matrix = [
            [Fraction(int(n), 7) for n in g.integers(-9, 9, width)] for _ in range(heads * size)
        ]

        def product(left: Any, right: Any) -> list[list[Fraction]]:
            return [
                [sum((a * b for a, b in zip(row, column, strict=True)), Fraction(0))
                 for column in zip(*right, strict=True)]
                for row in left
            ]  # fmt: skip

        packed = [[entry for head in outputs for entry in head[row]] for row in range(rows)]
        blocks = [
            product(head, matrix[a * size : (a + 1) * size]) for a, head in enumerate(outputs)
        ]
        total = [
            [sum((block[row][c] for block in blocks), Fraction(0)) for c in range(width)]
            for row in range(rows)
        ]
        assert product(packed, matrix) == total


def test_shapes_of_a_head() -> None:
    example = shown("multi_head_attention.head_of_embeddings")
    x, w_q, of_head = np.zeros((3, 512)), np.zeros((512, 64)), np.zeros((512, 64))
    assert (x @ of_head).shape == (3, 64)
    assert example.stated == of_head.shape[0]
    assert example.actual == (x @ w_q).shape[1]
    with pytest.raises(ValueError, match="size 512 is different from 64"):
        (x @ w_q) @ of_head


def entries(width: int, heads: int, d: int, e: int, *, output: bool = True) -> int:
    """Weights of one layer, matrix by matrix, a head at a time."""
    shapes = [(width, d), (width, d), (width, e)] * heads + [(heads * e, width)] * output
    return sum(rows * columns for rows, columns in shapes)


def test_parameters_of_heads_and_of_one_wide_head() -> None:
    example = shown("multi_head_attention.parameters_eq_single_head")
    assert example.actual == entries(512, 8, 64, 64) == entries(512, 1, 512, 512) == 1048576
    assert example.stated == entries(512, 1, 512, 512, output=False)
    assert Fraction(int(example.actual), int(example.stated)) == Fraction(4, 3)
    g = np.random.default_rng(1)
    for _ in range(50):
        width, heads, d = (int(n) for n in g.integers(1, 20, 3))
        equal = entries(width, heads, d, d) == entries(width, 1, width, width)
        assert equal == (heads * d == width)
    for heads in (1, 2, 3, 4, 6, 12):
        assert entries(12, heads, 12 // heads, 12 // heads) == 4 * 12**2


def test_equal_heads_have_equal_gradients() -> None:
    """By differences in whole numbers: a loss that is a polynomial of two equal heads."""

    def loss(first: Fraction, second: Fraction, one: Fraction, two: Fraction) -> Fraction:
        head = [3 * weight**3 - weight for weight in (first, second)]
        total = head[0] * one + head[1] * two
        return total**3 - 5 * total

    w, o, step = Fraction(2, 3), Fraction(-1, 4), Fraction(1, 1000)
    assert loss(w + step, w, o, o) == loss(w, w + step, o, o) != loss(w, w, o, o)
    assert loss(w, w, o + step, o) == loss(w, w, o, o + step) != loss(w, w, o, o)


def test_a_definition_of_other_columns_leaves_the_proof_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Heads as the inner factor of the packed axis: column l heads + h."""
    right = multi_head_attention.output

    def inner(call: MultiHead) -> sp.Expr:
        channel, heads = multi_head_attention.l, multi_head_attention.count
        return right(call).replace(
            lambda node: isinstance(node, sp.Indexed) and str(node.base) == "Xw_q",
            lambda node: node.base[(*node.indices[:2], channel * heads + multi_head_attention.h)],
        )

    monkeypatch.setattr("attnspec.spec.multi_head_attention.output", inner)
    assert [says[:10] for says in still_open("multi_head_attention.definition")] == [
        "the output",
        "the output",
        "queries of",
    ]


def test_a_definition_without_turned_keys_leaves_the_proof_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = multi_head_attention_definition.entries

    def queries_alone(call: MultiHead) -> Any:
        def made(node: sp.Indexed) -> sp.Expr:
            return right(MultiHead() if str(node.base) == "k" else call)(node)

        return made

    monkeypatch.setattr("attnspec.spec.multi_head_attention.entries", queries_alone)
    still = still_open("multi_head_attention.rope_at_own_positions")
    assert len(still) == 4
    assert all("pair c of k" in says for says in still)


def test_the_listing_needs_the_causal_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a definition that hides a query's own key too, the proof stays open."""
    right = multi_head_attention.output
    i, j = multi_head_attention.i, multi_head_attention.j

    def strict(call: MultiHead) -> sp.Expr:
        return right(call).replace(
            lambda node: isinstance(node, sp.LessThan) and node.has(j), lambda _: j < i
        )

    monkeypatch.setattr("attnspec.spec.multi_head_attention_listing.output", strict)
    assert still_open("multi_head_attention.listing_is_causal_attention") == ["and seen"]
