"""The definition of the Hadamard transform: its values, and an allowance that holds for every way
in which it is computed."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from attnspec.oracle.balls import BALLS, BOTH_FORMS, midpoints, precision, radii
from attnspec.oracle.errors import errors_of
from attnspec.oracle.expected import expected, tape_of, value_of
from attnspec.oracle.plan import Plan, planned
from attnspec.oracle.precision import EVALUATION, NUMPY_TYPES, contract, snapped
from attnspec.oracle.rationals import RATIONALS
from attnspec.oracle.source import source
from attnspec.spec.hadamard_definition import SCALINGS, hadamard
from tests.emulation import STYLES, Emulated

Array = np.ndarray[Any, Any]
FAMILIES = ("normal", "wide", "spike", "constant", "cancelling", "tiny", "sparse")


def sizes(rows: int, bits: int) -> dict[str, int]:
    return {"rows": rows, "n": 2**bits, "bits": bits}


def signed(line: int, column: int) -> int:
    return -1 if (line & column).bit_count() % 2 else 1


def by_loops(x: Array) -> list[list[Fraction]]:
    """Exact sums, one entry at a time."""
    n = x.shape[1]
    return [
        [sum((signed(e, c) * Fraction(row[e]) for e in range(n)), Fraction(0)) for c in range(n)]
        for row in x.tolist()
    ]


def drawn(g: np.random.Generator, family: str, rows: int, n: int) -> Array:
    x: Array = g.standard_normal((rows, n))
    if family == "wide":
        x *= 2.0 ** g.integers(-12, 8, (rows, n))
    elif family == "spike":
        x *= np.where(np.arange(n) == g.integers(n), 100.0, 2.0**-6)
    elif family == "constant":
        x[:] = x[:, :1]
    elif family == "cancelling":
        x = np.where(np.arange(n) % 2, -1.0, 1.0) * (1.0 + 2.0**-7 * x)
    elif family == "tiny":
        x *= 2.0 ** g.integers(-26, -18)
    elif family == "sparse":
        x[g.random((rows, n)) < 0.8] = 0.0
    return x


def butterflies(x: Array, scale: str) -> Array:
    """Stage by stage in the array's own type, each result stored: scaled first, last, in every
    stage, or not at all."""
    kind, n = x.dtype.type, x.shape[1]
    factor, half = kind(n**-0.5), kind(0.5**0.5)
    x = x * factor if scale == "first" else x
    width = 1
    while width < n:
        pairs = x.reshape(-1, n // (2 * width), 2, width)
        above, below = pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]
        x = np.stack([above, below], axis=2).reshape(-1, n)
        x = x * half if scale == "stages" else x
        width *= 2
    result: Array = x * factor if scale == "last" else x
    return result


def by_matrix(x: Array, *, backwards: bool, scaled: bool) -> Array:
    """Products with the stored matrix, added up one after another in the accumulator's type."""
    n = x.shape[1]
    wide = np.float64 if x.dtype == np.float64 else np.float32
    matrix = np.array([[signed(e, c) for c in range(n)] for e in range(n)], np.float64)
    matrix = (matrix * n**-0.5 if scaled else matrix).astype(x.dtype).astype(wide)
    total = np.zeros(x.shape, wide)
    for e in reversed(range(n)) if backwards else range(n):
        total = total + x[:, e : e + 1].astype(wide) * matrix[e]
    return total.astype(x.dtype)


@pytest.mark.parametrize("bits", [0, 1, 2, 3, 6])
def test_value_is_that_of_plain_loops(bits: int) -> None:
    g = np.random.default_rng(bits)
    x = drawn(g, "wide", 3, 2**bits)
    exact = by_loops(x)
    key = tuple(sizes(3, bits).items())
    rational = planned(tape_of(hadamard("none")), RATIONALS, key)({"x": x})
    assert rational.tolist() == exact
    rules = errors_of(contract("float64"))
    for scaling in SCALINGS:
        tape = tape_of(hadamard(scaling))
        with precision(120):
            balls = planned(tape, BALLS, key)({"x": x})
            planned(tape, BOTH_FORMS, key)({"x": x})  # forms that differ raise
        assert (radii(balls) <= 2.0**-90 * (1.0 + np.abs(midpoints(balls)[0]))).all()
        value, error = planned(tape, rules, key)({"x": x})
        found = value_of(hadamard(scaling), sizes(3, bits), {"x": x})
        divisor = Fraction(2**bits) if scaling == "orthonormal" else Fraction(1)
        for at in np.ndindex(x.shape):
            square = exact[at[0]][at[1]] ** 2 / divisor
            high, low = (Fraction(float(part[at])) for part in midpoints(balls))
            assert abs((high + low) ** 2 - square) <= Fraction(1, 2**90) * (1 + square)
            assert (high >= 0) == (exact[at[0]][at[1]] >= 0) or square == 0
            for one in (found[at], value[at]):
                assert abs(Fraction(float(one)) - high - low) <= Fraction(float(error[at]))


def test_rationals_find_both_forms_equal() -> None:
    """Zeros and negative entries too: an `either` of different values raises."""
    x = np.array([[0.0, -1.5, 2.0, -0.25], [-0.0, 0.0, 0.0, 0.0], [-1.0, -2.0, -3.0, -4.0]])
    tape = tape_of(hadamard("none"))
    found = planned(tape, RATIONALS, tuple(sizes(3, 2).items()))({"x": x})
    assert found.tolist() == by_loops(x)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_allowance_holds_for_butterflies_scaled_anywhere_and_for_the_matrix(
    dtype: str, family: str
) -> None:
    g = np.random.default_rng(FAMILIES.index(family))
    rules, kind = contract(dtype), NUMPY_TYPES[dtype]
    largest = 0.0
    for bits in (0, 1, 2, 4, 6):
        x = snapped(drawn(g, family, 5, 2**bits), dtype)
        stored = x.astype(kind)
        for scaling in SCALINGS:
            scaled = scaling == "orthonormal"
            right = expected(hadamard(scaling), sizes(5, bits), {"x": x}, rules)
            rest = 0.0 if right.residual is None else right.residual
            ways = [butterflies(stored, scale) for scale in ("first", "last", "stages")]
            ways = ways if scaled else [butterflies(stored, "none")]
            ways += [by_matrix(stored, backwards=b, scaled=scaled) for b in (False, True)]
            room = right.allowance * (1.0 + EVALUATION)
            for way in ways:
                off = np.abs((way.astype(np.float64) - right.value) - rest)
                assert (off <= room).all(), (bits, scaling)
                largest = max(largest, float((off[room > 0] / room[room > 0]).max(initial=0.0)))
    assert largest > 0.0


def test_allowance_is_about_as_tight_as_the_bound_by_hand() -> None:
    """||x||_1 / sqrt(n) times the relative bounds of butterflies and of the matrix, whichever is
    larger: within a factor of 2 from 16 entries on."""
    g = np.random.default_rng(3)
    for dtype, unit, own in (("float32", 0.0, 2.0**-24), ("bfloat16", 2.0**-8, 2.0**-24)):
        for bits in (4, 6, 7):
            n = 2**bits
            x = snapped(g.standard_normal((4, n)), dtype)
            right = expected(hadamard("orthonormal"), sizes(4, bits), {"x": x}, contract(dtype))
            step = -np.log1p(-unit) - np.log1p(-own)
            stages, matrix = 3 * bits * step, n * own / (1.0 - n * own) + 2 * step
            largest = np.expm1(max(stages, matrix))
            by_hand = np.abs(x).sum(1, keepdims=True) * n**-0.5 * largest + step * np.abs(
                right.value
            )
            assert (right.allowance <= 2.0 * by_hand).all()
            assert (right.allowance >= 0.5 * by_hand).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_no_emulated_rounding_leaves_the_allowance(dtype: str) -> None:
    g = np.random.default_rng(17)
    worst = 0.0
    for turn in range(3 * len(FAMILIES)):
        bits = turn % 5
        x = snapped(drawn(g, FAMILIES[turn % len(FAMILIES)], 3, 2**bits), dtype)
        rules = contract(dtype, ["eager", "flash", "strict"][turn % 3])
        for scaling in SCALINGS:
            tape = tape_of(hadamard(scaling))
            v, e = planned(tape, errors_of(rules), tuple(sizes(3, bits).items()))({"x": x})
            room = e * (1.0 + EVALUATION)
            for style in STYLES:
                actual = Plan(tape, Emulated(rules, g, style), sizes(3, bits))({"x": x})
                assert (np.abs(actual - v) <= room).all(), (turn, style)
                ratio = np.abs(actual - v)[room > 0] / room[room > 0]
                worst = max(worst, float(ratio.max(initial=0.0)))
    assert worst > 0.3


def test_nothing_is_known_where_a_partial_sum_may_overflow() -> None:
    """60000 + 60000 is no number of float16, though the transform's entry is."""
    x = np.array([[60000.0, 60000.0, -60000.0, -60000.0], [9000.0, 9000.0, -9000.0, -9000.0]])
    with np.errstate(over="ignore", invalid="ignore"):
        last = butterflies(x.astype(np.float16), "last").astype(np.float64)
    assert not np.isfinite(last[0]).all()
    right = expected(hadamard("orthonormal"), sizes(2, 2), {"x": x}, contract("float16"))
    assert np.isinf(right.allowance[0]).all()
    assert np.isfinite(right.allowance[1]).all()
    assert (np.abs(last[1] - right.value[1]) <= right.allowance[1]).all()
    assert np.isfinite(
        expected(hadamard("orthonormal"), sizes(2, 2), {"x": x}, contract("bfloat16")).allowance
    ).all()


def test_a_plan_keeps_the_signs_and_not_what_they_were_made_from() -> None:
    """Held: the signs and the two choices by sign, as numbers; made: one more axis of digits."""
    bits, n = 8, 256
    tape = tape_of(hadamard("orthonormal"))
    rules = errors_of(contract("float32"))
    tracemalloc.start()
    plan = Plan(tape, rules, sizes(1, bits))
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most > bits * n * n * 8
    assert held < 5 * n * n * 8
    assert np.isfinite(plan({"x": np.ones((1, n))})[1]).all()


def test_printed_source_computes_what_the_tape_does() -> None:
    x = np.random.default_rng(2).standard_normal((3, 8))
    for scaling in SCALINGS:
        scope: dict[str, Any] = {"np": np}
        text = source(tape_of(hadamard(scaling)))
        exec(text, scope)  # the text is ours: running it is the test
        printed = scope[f"hadamard_{scaling}"](x, **sizes(3, 3)).astype(np.float64)
        key = tuple(sizes(3, 3).items())
        rules = errors_of(contract("float64"))
        value, error = planned(tape_of(hadamard(scaling)), rules, key)({"x": x})
        assert (np.abs(printed - value) <= 2.0 * error).all()
        assert "may be rounded as activations" in text


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_other_orders_and_scalings_leave_the_allowance(dtype: str) -> None:
    g = np.random.default_rng(5)
    x = snapped(g.standard_normal((4, 16)), dtype)
    right = expected(hadamard("orthonormal"), sizes(4, 4), {"x": x}, contract(dtype))
    matrix = np.array([[signed(e, c) for c in range(16)] for e in range(16)]) / 4.0
    changes = np.count_nonzero(np.diff(matrix, axis=0), axis=0)
    wrong = {
        "by sequency": x @ matrix[:, np.argsort(changes, kind="stable")],
        "unscaled": x @ matrix * 4.0,
        "over n": x @ matrix / 4.0,
        "reversed digits": x @ matrix[:, [int(f"{c:04b}"[::-1], 2) for c in range(16)]],
        "one stage missing": x @ np.kron(np.eye(2), matrix[:8, :8] * 2.0**0.5),
    }
    for name, found in wrong.items():
        assert (np.abs(found - right.value) > right.allowance).any(), name
