"""The definition of learned positions: rows to the bit, and the gradient of the table."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from attnspec.oracle.balls import BALLS, midpoints, precision, radii
from attnspec.oracle.compiler import compiled
from attnspec.oracle.errors import errors_of
from attnspec.oracle.expected import expected
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import Plan, planned
from attnspec.oracle.precision import EVALUATION, contract, snapped
from attnspec.oracle.rationals import RATIONALS
from attnspec.oracle.source import source
from attnspec.spec.definition import Definition
from attnspec.spec.learned_positions_definition import DEFINITION, TABLE_GRADIENT, definitions
from tests.emulation import STYLES, Emulated

Array = np.ndarray[Any, Any]
DTYPES = ("float64", "float32", "bfloat16", "float16")


def call(seed: int, dtype: str = "float64") -> tuple[dict[str, Any], dict[str, Array]]:
    """Sizes and arrays of one call, of odd shapes; some rows are read often, some never."""
    g = np.random.default_rng(seed)
    length, rows, width = (int(g.choice([1, 2, 3, 5, 7, 13])) for _ in range(3))
    arrays = {
        "positions": g.integers(0, rows, length),
        "table": snapped(g.standard_normal((rows, width)), dtype),
        "upstream": snapped(g.standard_normal((length, width)), dtype),
    }
    return {"length": length, "rows": rows, "width": width}, arrays


def gradient_by_loops(sizes: dict[str, Any], arrays: dict[str, Array]) -> list[list[Fraction]]:
    """Each token's upstream, exactly, added to the row that it read."""
    found = [[Fraction(0)] * sizes["width"] for _ in range(sizes["rows"])]
    for position, upstream in zip(arrays["positions"], arrays["upstream"], strict=True):
        for c in range(sizes["width"]):
            found[position][c] += Fraction(float(upstream[c]))
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(6))
def test_rows_are_read_to_the_bit(seed: int, dtype: str) -> None:
    sizes, arrays = call(seed, dtype)
    right = expected(DEFINITION, sizes, arrays, contract(dtype))
    wanted = [arrays["table"][position] for position in arrays["positions"].tolist()]
    assert np.array_equal(right.value, np.array(wanted))
    assert not right.allowance.any()
    with precision():
        balls = planned(compiled(DEFINITION), BALLS, tuple(sizes.items()))(arrays)
    assert np.array_equal(midpoints(balls)[0], right.value)
    assert not radii(balls).any()


def test_what_stands_in_other_rows_does_not_matter() -> None:
    table = np.array([[np.nan, np.inf], [1.0, -0.0], [-np.inf, np.nan]])
    sizes = {"length": 3, "rows": 3, "width": 2}
    arrays = {"table": table, "positions": np.array([1, 1, 1])}
    right = expected(DEFINITION, sizes, arrays, contract("float32"))
    assert np.array_equal(right.value, np.broadcast_to(table[1], (3, 2)))
    assert np.signbit(right.value[:, 1]).all()
    assert not right.allowance.any()


@pytest.mark.parametrize("seed", range(8))
def test_gradient_adds_up_what_each_row_was_read_for(seed: int) -> None:
    sizes, arrays = call(seed)
    wanted = gradient_by_loops(sizes, arrays)
    key, tape = tuple(sizes.items()), compiled(TABLE_GRADIENT)
    assert planned(tape, RATIONALS, key)(arrays).tolist() == wanted
    found = planned(tape, FLOAT64, key)(arrays)
    _, room = planned(tape, errors_of(contract("float64")), key)(arrays)
    with precision():
        balls = planned(tape, BALLS, key)(arrays)
    high, low = midpoints(balls)
    for at in np.ndindex(found.shape):
        exact = wanted[at[0]][at[1]]
        assert abs(Fraction(float(found[at])) - exact) <= Fraction(float(room[at]))
        enclosed = Fraction(float(high[at])) + Fraction(float(low[at]))
        assert abs(enclosed - exact) <= Fraction(float(radii(balls)[at]))
    unread = [r for r in range(sizes["rows"]) if r not in arrays["positions"]]
    assert not found[unread].any()
    assert not room[unread].any()


@pytest.mark.parametrize("reductions", ["accumulate", "storage"])
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_no_emulated_rounding_leaves_the_gradients_allowance(dtype: str, reductions: str) -> None:
    g, tape = np.random.default_rng(3), compiled(TABLE_GRADIENT)
    rules, worst = contract(dtype, {"reductions": reductions}), 0.0
    for seed in range(30):
        sizes, arrays = call(seed, dtype)
        v, e = planned(tape, errors_of(rules), tuple(sizes.items()))(arrays)
        room = e * (1 + EVALUATION)
        for style in STYLES:
            off = np.abs(Plan(tape, Emulated(rules, g, style), sizes)(arrays) - v)
            assert (off <= room).all(), (seed, style)
            worst = max(worst, float((off[room > 0] / room[room > 0]).max(initial=0.0)))
    assert worst > 0.0


def test_a_stored_running_sum_needs_its_declaration() -> None:
    """2^9 ones, added one by one in bfloat16, stop at 2^8."""
    import ml_dtypes

    length = 2**9
    arrays = {"positions": np.zeros(length, np.int64), "upstream": np.ones((length, 1))}
    sizes = {"length": length, "rows": 1, "width": 1}
    running = np.zeros((), ml_dtypes.bfloat16)
    for _ in range(length):
        running = (running.astype(np.float32) + np.float32(1)).astype(ml_dtypes.bfloat16)
    off = abs(float(running) - length)
    within = [
        off <= expected(TABLE_GRADIENT, sizes, arrays, contract("bfloat16", kept)).allowance[0, 0]
        for kept in ({}, {"reductions": "storage"})
    ]
    assert within == [False, True]


@pytest.mark.parametrize("made", definitions(), ids=lambda made: made.name)
def test_printed_source_computes_what_the_tape_does(made: Definition) -> None:
    sizes, arrays = call(5)
    tape = compiled(made)
    scope: dict[str, Any] = {"np": np}
    exec(source(tape), scope)  # the text is ours: running it is the test
    given = [arrays[name] for name in tape.arrays]
    printed = scope[made.name.replace(".", "_")](*given, **sizes)
    assert np.array_equal(printed, planned(tape, FLOAT64, tuple(sizes.items()))(arrays))
