"""ALiBi: slopes by the paper's recursion, biases by loops, and what each convention leaves open."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from attnspec.oracle.balls import BOTH_FORMS, midpoints, precision
from attnspec.oracle.compiler import compiled
from attnspec.oracle.errors import errors_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import Plan
from attnspec.oracle.precision import NUMPY_TYPES, contract, snapped
from attnspec.oracle.source import source
from attnspec.spec.alibi_definition import (
    FUTURES,
    ROW_CONSTANTS,
    SLOPES,
    alibi_bias,
    alibi_slopes,
    judged,
)
from attnspec.spec.definition import Definition
from tests.relative_positions import papers_exponents

Array = np.ndarray[Any, Any]

HEADS = (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 31, 32, 40, 71, 112, 128)
SHAPES = ((1, 1, 1), (3, 4, 4), (12, 1, 9), (5, 3, 7), (8, 2, 300))
"""Of heads, t, s."""
DTYPES = ("float64", "float32", "float16", "bfloat16")


def exact_slopes(heads: int, slopes: str) -> list[Any]:
    exponents = papers_exponents(heads)
    if slopes == "geometric":
        exponents = [Fraction(8 * (k + 1), heads) for k in range(heads)]
    return [mpmath.power(2, -mpmath.mpf(e.numerator) / e.denominator) for e in exponents]


def sizes(heads: int, t: int, s: int) -> dict[str, int]:
    return {"heads": heads, "t": t, "s": s}


def run(definition: Definition, algebra: Any, given: dict[str, int], **arrays: Array) -> Any:
    parameters = {str(p): given[str(p)] for p in definition.parameters}
    return Plan(compiled(definition), algebra, parameters)(arrays)


@pytest.mark.parametrize("slopes", SLOPES)
@pytest.mark.parametrize("heads", HEADS)
def test_slopes_are_the_papers(heads: int, slopes: str) -> None:
    definition, given = alibi_slopes(slopes), {"heads": heads}
    with mpmath.workdps(50):
        exact = exact_slopes(heads, slopes)
        with precision():
            high, low = midpoints(run(definition, BOTH_FORMS, given))
        found = [mpmath.mpf(a) + mpmath.mpf(b) for a, b in zip(high, low, strict=True)]
        assert len(found) == heads
        assert max(abs(a / b - 1) for a, b in zip(found, exact, strict=True)) < mpmath.mpf(2) ** -90
        value, error = run(definition, errors_of(contract("float64")), given)
        assert np.array_equal(value, run(definition, FLOAT64, given))
        off = [abs(mpmath.mpf(a) - b) for a, b in zip(value.tolist(), exact, strict=True)]
        assert all(o <= e for o, e in zip(off, error.tolist(), strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", HEADS)
def test_usual_recipes_of_slopes_are_within_their_allowance(heads: int, dtype: str) -> None:
    """Powers of the first slope, which is rounded once to where they run; a power at once; an
    exponential; the slope before times the ratio."""
    value, error = run(alibi_slopes("paper"), errors_of(contract(dtype)), {"heads": heads})
    work: Any = np.float64 if dtype == "float64" else np.float32
    below = 2 ** (heads.bit_length() - 1)
    found = []
    for recipe in range(4):
        parts = []
        for step, counts in (
            (8 / below, range(1, below + 1)),
            (4 / below, range(1, 2 * (heads - below), 2)),
        ):
            base, times = work(2.0**-step), np.array(list(counts), work)
            by_powers = (
                base**times,
                work(2.0) ** (-work(step) * times),
                np.exp(-work(step) * times * work(math.log(2.0))),
                np.array([np.multiply.reduce(np.full(int(n), base)) for n in times], work),
            )
            parts.append(by_powers[recipe])
        found.append(np.concatenate(parts).astype(np.float64))
    for slopes in found:
        assert (np.abs(snapped(slopes, dtype) - value) <= error).all()


def by_loops(slopes: Array, t: int, s: int) -> Array:
    out = np.empty((len(slopes), t, s))
    for h, i, j in np.ndindex(out.shape):
        out[h, i, j] = -slopes[h] * abs(j - (i + s - t))
    return out


@pytest.mark.parametrize("slopes", SLOPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_bias_is_minus_slope_times_distance(shape: tuple[int, int, int], slopes: str) -> None:
    definition, given = alibi_bias(slopes, "zero-diagonal"), sizes(*shape)
    with mpmath.workdps(40):
        exact = np.array([float(x) for x in exact_slopes(shape[0], slopes)])
    value, error = run(definition, errors_of(contract("float64")), given)
    assert (np.abs(value - by_loops(exact, *shape[1:])) <= error).all()
    assert np.array_equal(value, run(definition, FLOAT64, given))
    with precision():
        high, _ = midpoints(run(definition, BOTH_FORMS, given))
    assert (np.abs(high - value) <= error).all()
    own = np.arange(shape[1]) + shape[2] - shape[1]
    diagonal = value[:, np.arange(shape[1]), own]
    assert not diagonal.any()
    assert not error[:, np.arange(shape[1]), own].any()


def stored(values: Array, dtype: str) -> Array:
    """Rounded to a dtype and back, step by step as an implementation does."""
    kept: Array = values.astype(NUMPY_TYPES[dtype])
    return kept


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_bias_up_to_a_constant_is_within_its_allowance(
    shape: tuple[int, int, int], dtype: str
) -> None:
    """slope * j, slope * (j - s + 1), and a constant of each row's own, from slopes that were
    stored, are judged by what they have on the diagonal."""
    heads, t, s = shape
    work = np.float64 if dtype == "float64" else np.float32
    rng = np.random.default_rng(heads)
    with mpmath.workdps(40):
        exact = np.array([float(x) for x in exact_slopes(heads, "paper")])
    slope = stored(exact, dtype).astype(work)[:, None, None]
    j, i = np.arange(s)[None, None, :], np.arange(t)[None, :, None]
    seen = np.broadcast_to(j <= i + s - t, (heads, t, s))
    free = rng.uniform(-50, 50, (heads, t, 1)).astype(work)
    forms = (
        slope * j.astype(work),
        slope * (j - s + 1).astype(work),
        free - slope * np.abs(i + s - t - j).astype(work),
    )
    for form in forms:
        bias = stored(np.broadcast_to(form, (heads, t, s)), dtype).astype(np.float64)
        constant = bias[:, np.arange(t), np.arange(t) + s - t]
        value, error = run(
            alibi_bias("paper", "free"), errors_of(contract(dtype)), sizes(*shape),
            constant=constant,
        )  # fmt: skip
        assert (np.abs(bias - value) <= error)[seen].all()


def test_a_bonus_in_place_of_a_penalty_is_outside_of_both_allowances() -> None:
    given = sizes(4, 5, 5)
    zero = np.zeros((4, 5))
    for constant in ROW_CONSTANTS:
        arrays = {"constant": zero} if constant == "free" else {}
        value, error = run(
            alibi_bias("paper", constant), errors_of(contract("bfloat16")), given, **arrays
        )
        off = np.abs(-value - value)
        assert (off[value != 0.0] > error[value != 0.0]).all()


def test_which_entries_are_judged() -> None:
    shown = {f: run(judged(f), FLOAT64, sizes(2, 2, 4))[0].tolist() for f in FUTURES}
    assert shown == {
        "symmetric": [[1, 1, 1, 1], [1, 1, 1, 1]],
        "unspecified": [[1, 1, 1, 0], [1, 1, 1, 1]],
    }


def test_an_unlike_form_of_a_slope_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate holds both forms of a slope to each other."""
    from attnspec.spec import alibi_definition
    from attnspec.spec.definition import either

    def shifted(step: Any, k: Any) -> Any:
        return either(2 ** (-step * k), 2 ** (-step * (k - 1)))

    monkeypatch.setattr(alibi_definition, "_power", shifted)
    with precision(), pytest.raises(ArithmeticError, match="two forms of one value differ"):
        run(alibi_slopes("geometric"), BOTH_FORMS, {"heads": 6})


@pytest.mark.parametrize("slopes", SLOPES)
def test_printed_source_computes_what_the_tape_does(slopes: str) -> None:
    scope: dict[str, Any] = {"np": np}
    definitions = (alibi_slopes(slopes), alibi_bias(slopes, "zero-diagonal"))
    given = sizes(6, 3, 5)
    for definition in definitions:
        text = source(compiled(definition))
        exec(text, scope)  # the text is ours: running it is the test
        parameters = {str(p): given[str(p)] for p in definition.parameters}
        printed = scope[definition.name.replace(".", "_")](**parameters)
        assert np.array_equal(printed, run(definition, FLOAT64, given))
        assert "may be rounded as output" in text
