"""The definition of quantization: which scales and integers are right, over exact numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from attnspec.oracle.balls import BALLS, midpoints, precision
from attnspec.oracle.expected import tape_of, value_of
from attnspec.oracle.plan import planned
from attnspec.oracle.precision import snapped
from attnspec.oracle.rationals import RATIONALS
from attnspec.spec.quantize_int8_definition import (
    ENTRY_ACCEPTED,
    JUDGED,
    RESTORED,
    SCALE,
    SCALE_ACCEPTED,
)

Array = np.ndarray[Any, Any]


def run(definition: Any, **arrays: Array) -> list[Any]:
    (rows, n) = next(a for a in arrays.values() if a.ndim == 2).shape
    key = (("rows", rows), ("n", n))
    found: list[Any] = planned(tape_of(definition), RATIONALS, key)(arrays).tolist()
    return found


def quantized(x: Array, levels: int = 127) -> tuple[Array, Array]:
    """Integers and scales in float32, as code that works tensor by tensor does."""
    with np.errstate(over="ignore"):
        stored = x.astype(np.float32)
    scale = np.abs(stored).max(1, keepdims=True) / np.float32(levels)
    safe = np.where(scale == 0, np.float32(1), scale)
    q = np.clip(np.rint(stored / safe), -levels, levels).astype(np.int64)
    return q, scale[:, 0].astype(np.float64)


def rows(g: np.random.Generator, dtype: str) -> Array:
    n = int(g.choice([1, 3, 7, 64, 129]))
    x = g.standard_normal((5, n)) * 2.0 ** g.integers(-9, 9, (5, n))
    x[0] = 0.0
    x[1, 0] = 1000.0
    x[2] = np.rint(x[2]) + 0.5
    return snapped(x, dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_plain_code_is_right(dtype: str) -> None:
    g = np.random.default_rng(1)
    for _ in range(12):
        x = rows(g, dtype)
        q, scale = quantized(x)
        assert all(run(SCALE_ACCEPTED, x=x, scale=scale))
        assert all(map(all, run(ENTRY_ACCEPTED, x=x, q=q, scale=scale)))
        assert all(run(JUDGED, x=x))
        inverse = np.where(scale == 0.0, 1.0, 1.0 / np.where(scale == 0.0, 1.0, scale))
        other = np.rint(x.astype(np.float32) * inverse.astype(np.float32)[:, None])
        assert all(map(all, run(ENTRY_ACCEPTED, x=x, q=other.astype(np.int64), scale=scale)))


def test_sets_are_those_of_a_loop_over_all_integers() -> None:
    g = np.random.default_rng(2)
    x = np.concatenate([snapped(g.standard_normal((3, 4)) * 3.0, "bfloat16"), np.zeros((1, 4))])
    x[1, 2] = 0.0
    scale = np.abs(x).max(1) / 127.0
    for level in range(-129, 130):
        found = run(ENTRY_ACCEPTED, x=x, q=np.full(x.shape, level), scale=scale)
        for at in np.ndindex(x.shape):
            s, entry = Fraction(float(scale[at[0]])), Fraction(float(x[at]))
            right = -127 <= level <= 127 and abs(entry - level * s) <= s / 2 + s / 2**15
            assert found[at[0]][at[1]] == (right and (entry != 0 or level == 0))


def test_scales() -> None:
    x = np.array([[3.0, -254.0, 1.0], [0.0, 0.0, 0.0], [5e-44, 0.0, 0.0]])
    assert run(SCALE, x=x)[:2] == [2, 0]
    with precision():
        high, low = midpoints(planned(tape_of(SCALE), BALLS, (("rows", 3), ("n", 3)))({"x": x}))
    assert high[:2].tolist() == [2.0, 0.0]
    assert not low[:2].any()
    assert value_of(SCALE, {"rows": 3, "n": 3}, {"x": x})[:2].tolist() == [2.0, 0.0]
    good = np.array([2.0, 17.0, 5e-44 / 127.0])
    assert run(SCALE_ACCEPTED, x=x, scale=good) == [1, 1, 1]
    for factor in (1.0 + 2.0**-23, 1.0 - 2.0**-23):
        assert run(SCALE_ACCEPTED, x=x, scale=good * factor) == [1, 1, 1]
    for factor in (127.0 / 128.0, 1.0 + 2.0**-20, 1.0 - 2.0**-9, 0.0, -1.0):
        assert run(SCALE_ACCEPTED, x=x, scale=good * factor)[0] == 0
    assert run(JUDGED, x=x) == [1, 1, 0]
    highest = float(np.finfo(np.float32).max)
    ends = [2.0**128 - 2.0**103, highest, 127.0 * 2.0**-126, 126.0 * 2.0**-126]
    assert run(JUDGED, x=np.array(ends)[:, None]) == [0, 1, 1, 0]


def test_wrong_integers_are_refused() -> None:
    x = np.array([[-1.0, 0.25, 0.0, 1.0]])
    q, scale = quantized(x)
    assert run(ENTRY_ACCEPTED, x=x, q=q, scale=scale) == [[1, 1, 1, 1]]
    wrong = {
        "cut off at -128": (np.array([[-128, 32, 0, 127]]), [0, 1, 1, 1]),
        "rounded down": (np.array([[-127, 31, 0, 127]]), [1, 0, 1, 1]),
        "one more": (np.array([[-126, 33, 1, 126]]), [0, 0, 0, 0]),
    }
    for name, (integers, right) in wrong.items():
        assert run(ENTRY_ACCEPTED, x=x, q=integers, scale=scale) == [right], name
    past = np.array([[128.0, -128.0, 127.0]])
    found = run(ENTRY_ACCEPTED, x=past, q=np.array([[128, -128, 127]]), scale=np.array([1.0]))
    assert found == [[0, 0, 1]]
    nothing = np.zeros((1, 3))
    for s in (0.0, 1.0):
        found = run(ENTRY_ACCEPTED, x=nothing, q=np.array([[0, 1, -127]]), scale=np.array([s]))
        assert found == [[1, 0, 0]]


def test_a_tie_leaves_both_and_a_hair_beside_it_one() -> None:
    x = np.array([[254.0, 127.0, 127.0 + 2.0**-12, 127.0 - 2.0**-12]])
    for level, right in ((63, [0, 1, 0, 1]), (64, [0, 1, 1, 0])):
        q, scale = np.full((1, 4), level), np.array([2.0])
        assert run(ENTRY_ACCEPTED, x=x, q=q, scale=scale) == [right]


def test_restored_rows_are_within_half_a_step() -> None:
    x = rows(np.random.default_rng(4), "float32")
    q, scale = quantized(x)
    back = run(RESTORED, q=q, scale=scale)
    for at in np.ndindex(x.shape):
        step = Fraction(float(scale[at[0]]))
        off = abs(back[at[0]][at[1]] - Fraction(float(x[at])))
        assert off <= step * (Fraction(1, 2) + Fraction(1, 2**15))
