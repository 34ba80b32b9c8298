"""T5's bias: which entry of the table each pair of tokens reads, and what its gradient gathers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnspec.oracle.adjoint import gradients
from attnspec.oracle.balls import BALLS, midpoints, precision
from attnspec.oracle.compiler import compiled
from attnspec.oracle.errors import errors_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import Plan
from attnspec.oracle.precision import contract
from attnspec.oracle.source import source
from attnspec.spec.t5_bias_definition import t5_bias
from tests.relative_positions import bucket

Array = np.ndarray[Any, Any]

SHAPES = ((1, 1, 1, 32, 128), (3, 5, 5, 32, 128), (2, 1, 7, 8, 20), (3, 4, 300, 32, 128),
          (1, 7, 9, 12, 6))  # fmt: skip
"""Of heads, t, s, num_buckets, max_distance."""


def parameters(shape: tuple[int, ...]) -> dict[str, int]:
    names = ("heads", "t", "s", "num_buckets", "max_distance")
    return dict(zip(names, shape, strict=True))


def by_loops(table: Array, shape: tuple[int, ...], both: bool) -> Array:
    heads, t, s, buckets, longest = shape
    out = np.empty((heads, t, s))
    for h, i, j in np.ndindex(heads, t, s):
        out[h, i, j] = table[bucket(j - (i + s - t), buckets, longest, both), h]
    return out


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_entries_are_those_of_the_buckets(shape: tuple[int, ...], both: bool) -> None:
    table = np.random.default_rng(0).standard_normal((shape[3], shape[0]))
    plan = Plan(compiled(t5_bias(bidirectional=both)), FLOAT64, parameters(shape))
    assert np.array_equal(plan({"table": table}), by_loops(table, shape, both))


@pytest.mark.parametrize("both", [True, False])
def test_entries_are_read_exactly_in_every_precision(both: bool) -> None:
    shape = SHAPES[1]
    table = np.random.default_rng(1).standard_normal((32, 3))
    tape = compiled(t5_bias(bidirectional=both))
    value, error = Plan(tape, errors_of(contract("bfloat16")), parameters(shape))({"table": table})
    assert np.array_equal(value, by_loops(table, shape, both))
    assert not np.any(error)
    with precision():
        high, low = midpoints(Plan(tape, BALLS, parameters(shape))({"table": table}))
    assert np.array_equal(high, value)
    assert not low.any()


@pytest.mark.parametrize("both", [True, False])
def test_the_gradient_of_an_entry_gathers_the_pairs_that_read_it(both: bool) -> None:
    shape = SHAPES[1]
    rng = np.random.default_rng(2)
    table, upstream = rng.standard_normal((32, 3)), rng.integers(-9, 10, (3, 5, 5)).astype(float)
    tape = gradients(t5_bias(bidirectional=both), ("table",))
    found = Plan(tape, FLOAT64, parameters(shape))({"table": table, "upstream": upstream})
    expected = np.zeros_like(table)
    for h, i, j in np.ndindex(3, 5, 5):
        expected[bucket(j - i, 32, 128, both), h] += upstream[h, i, j]
    assert np.array_equal(found, expected)


def test_one_query_has_the_last_row_of_the_whole() -> None:
    table = np.random.default_rng(3).standard_normal((32, 2))
    for both in (True, False):
        tape = compiled(t5_bias(bidirectional=both))
        whole = Plan(tape, FLOAT64, parameters((2, 150, 150, 32, 128)))({"table": table})
        row = Plan(tape, FLOAT64, parameters((2, 1, 150, 32, 128)))({"table": table})
        assert np.array_equal(row, whole[:, -1:])


def test_printed_source_computes_what_the_tape_does() -> None:
    shape = SHAPES[2]
    table = np.random.default_rng(4).standard_normal((8, 2))
    scope: dict[str, Any] = {"np": np}
    exec(source(compiled(t5_bias(bidirectional=True))), scope)  # the text is ours
    printed = scope["t5_bias"](table, **parameters(shape))
    assert np.array_equal(printed, by_loops(table, shape, True))
