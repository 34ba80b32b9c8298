"""The definition of sinusoidal positions against plain loops, in float64, in balls, and as code
that keeps its precision contract computes it."""

from __future__ import annotations

from typing import Any

import flint
import ml_dtypes
import mpmath
import numpy as np
import pytest

from attnspec.oracle.balls import BALLS, precision
from attnspec.oracle.compiler import compiled
from attnspec.oracle.errors import errors_of
from attnspec.oracle.expected import Expected, expected
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import Plan, planned
from attnspec.oracle.precision import EVALUATION, FORMATS, LIBRARY_ULPS, Contract, contract
from attnspec.oracle.source import source
from attnspec.spec import claim, sinusoidal_definition
from attnspec.spec.claim import is_closed
from attnspec.spec.definition import Definition
from attnspec.spec.sinusoidal_definition import LAYOUTS, definitions, sinusoidal
from tests.emulation import STYLES, Emulated

Array = np.ndarray[Any, Any]
DIGITS = 40
SHAPES = ((2, 10000.0), (4, 10000.0), (6, 100.0), (10, 2.5), (14, 10000.0))
"""Even sizes, most of them no power of two, with their bases."""
POSITIONS = np.array([0, 1, 2, 3, 7, 255, 257, 2049, 4095, 65535, 131071, 1000003])
RECIPES = ("power", "inverse power", "exponential")
ALL_FLOAT64 = contract("float64", {"angles": "float64"})


def by_loops(layout: str, positions: Array, dim: int, base: float) -> list[list[Any]]:
    """Every channel by the document's formula, in 40 digits."""
    with mpmath.workdps(DIGITS):
        rows = []
        for position in positions.tolist():
            sines, cosines = [], []
            for pair in range(dim // 2):
                angle = position / mpmath.mpf(base) ** (mpmath.mpf(2 * pair) / dim)
                sines.append(mpmath.sin(angle))
                cosines.append(mpmath.cos(angle))
            if layout == "concatenated":
                rows.append(sines + cosines)
            else:
                rows.append([x for pair in zip(sines, cosines, strict=True) for x in pair])
        return rows


def parameters(positions: Array, dim: int, base: float) -> dict[str, Any]:
    return {"length": len(positions), "dim": dim, "base": base}


def judged(layout: str, positions: Array, dim: int, base: float, kept: Contract) -> Expected:
    sizes = parameters(positions, dim, base)
    return expected(sinusoidal(layout), sizes, {"positions": positions}, kept)


def as_float64(rows: list[list[Any]]) -> Array:
    return np.array([[float(x) for x in row] for row in rows])


@pytest.mark.parametrize(("dim", "base"), SHAPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_value_is_the_documents_formula(layout: str, dim: int, base: float) -> None:
    key = tuple(parameters(POSITIONS, dim, base).items())
    tape = compiled(sinusoidal(layout))
    arrays = {"positions": POSITIONS}
    found = planned(tape, FLOAT64, key)(arrays)
    _, room = planned(tape, errors_of(ALL_FLOAT64), key)(arrays)
    wanted = as_float64(by_loops(layout, POSITIONS, dim, base))
    # the loops' numbers are themselves rounded to float64 here
    room = room + FORMATS["float64"].roundoff * np.abs(wanted)
    assert found.shape == (len(POSITIONS), dim)
    assert (np.abs(found - wanted) <= room).all()


@pytest.mark.parametrize(("dim", "base"), SHAPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_balls_enclose_the_documents_formula(layout: str, dim: int, base: float) -> None:
    key = tuple(parameters(POSITIONS, dim, base).items())
    with precision():
        balls = planned(compiled(sinusoidal(layout)), BALLS, key)({"positions": POSITIONS})
    wanted = by_loops(layout, POSITIONS, dim, base)
    with precision(4 * DIGITS):
        for at in np.ndindex(balls.shape):
            with mpmath.workdps(DIGITS):
                exact = flint.arb(mpmath.nstr(wanted[at[0]][at[1]], DIGITS), 10.0 ** (8 - DIGITS))
            assert balls[at].overlaps(exact), at
            assert float(balls[at].rad()) < FORMATS["float64"].roundoff ** 1.5


def test_conventions_are_one_permutation_apart() -> None:
    dim = 10
    by_turns, in_halves = (
        judged(layout, POSITIONS, dim, 10000.0, contract("bfloat16")) for layout in LAYOUTS
    )
    order = [*range(0, dim, 2), *range(1, dim, 2)]
    assert np.array_equal(by_turns.value[:, order], in_halves.value)
    assert np.array_equal(by_turns.allowance[:, order], in_halves.allowance)
    assert not np.array_equal(by_turns.value, in_halves.value)


def table_in_float32(positions: Array, dim: int, base: float, recipe: str) -> Array:
    """Ordinary model code, interleaved: everything in float32, frequencies by a usual recipe."""
    single = np.float32
    exponent = np.arange(0, dim, 2, dtype=single) / single(dim)
    if recipe == "power":
        frequency = single(base) ** -exponent
    elif recipe == "inverse power":
        frequency = single(1) / single(base) ** exponent
    else:
        frequency = np.exp(-exponent * np.log(single(base)))
    angle = positions.astype(single)[:, None] * frequency
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(len(positions), dim)


def stored(table: Array, dtype: str) -> Array:
    if dtype == "bfloat16":
        table = table.astype(ml_dtypes.bfloat16)
    return table.astype(np.float16 if dtype == "float16" else np.float32).astype(np.float64)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_code_that_keeps_the_contract_is_within_the_allowance(dtype: str, recipe: str) -> None:
    positions = np.concatenate([POSITIONS, np.random.default_rng(1).integers(0, 10**5, 200)])
    for dim, base in SHAPES:
        right = judged("interleaved", positions, dim, base, contract(dtype))
        found = stored(table_in_float32(positions, dim, base, recipe), dtype)
        assert (np.abs(found - right.value) <= right.allowance).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_code_that_breaks_the_contract_is_not(dtype: str) -> None:
    positions, dim, base = np.arange(300), 14, 10000.0
    right = judged("interleaved", positions, dim, base, contract(dtype))
    rounded = positions.astype(ml_dtypes.bfloat16).astype(np.int64)
    frequencies_swapped = table_in_float32(positions, dim, base, "power")[:, [*range(1, 14), 0]]
    wrong = {
        "positions in bfloat16": table_in_float32(rounded, dim, base, "power"),
        "another base": table_in_float32(positions, dim, 9999.0, "power"),
        "positions from 1": table_in_float32(positions + 1, dim, base, "power"),
        "channels moved": frequencies_swapped,
    }
    for name, table in wrong.items():
        off = np.abs(stored(table, dtype) - right.value) > right.allowance
        assert off.any(), name


def test_truncated_tables_are_not_within_the_allowance() -> None:
    """The result of a table function is rounded once, so cutting digits off is too much."""
    positions = np.arange(1, 300)
    right = judged("interleaved", positions, 14, 10000.0, contract("bfloat16"))
    table = table_in_float32(positions, 14, 10000.0, "power")
    cut = (table.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
    assert (np.abs(cut - right.value) > right.allowance).any()


def test_a_table_that_is_the_result_is_rounded_once() -> None:
    one = np.array([1])
    narrow, wide = FORMATS["bfloat16"].roundoff, FORMATS["float32"].roundoff
    eager = judged("interleaved", one, 2, 10000.0, contract("bfloat16"))
    size = np.abs(eager.value)
    # one rounding, and what sine and cosine in float32 may be off, relative to 1
    most = narrow * (size + 4 * LIBRARY_ULPS * wide) + 4 * LIBRARY_ULPS * wide
    assert (eager.allowance <= most).all()
    assert (eager.allowance >= narrow * size).all()
    for tables in ("float32", "storage"):
        kept = contract("bfloat16", {"tables": tables})
        assert np.array_equal(judged("interleaved", one, 2, 10000.0, kept).allowance,
                              eager.allowance)  # fmt: skip
    # in another format than the result's they are rounded to both
    both = judged("interleaved", one, 2, 10000.0, contract("bfloat16", {"tables": "float16"}))
    assert (both.allowance >= (narrow + FORMATS["float16"].roundoff) * size).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("made", definitions(), ids=lambda made: made.name)
def test_no_emulated_rounding_leaves_the_allowance(made: Definition, dtype: str) -> None:
    g = np.random.default_rng(11)
    tape, worst = compiled(made), 0.0
    declared: list[Any] = [None, "strict", {"tables": "float16", "angles": "bfloat16"}]
    for turn in range(60):
        rules = contract(dtype, declared[turn % 3])
        positions = g.integers(0, int(g.choice([2, 300, 3000, 2**17])), 5)
        sizes = parameters(positions, 2 * int(g.integers(1, 9)), float(g.choice([10000.0, 2.0])))
        v, e = planned(tape, errors_of(rules), tuple(sizes.items()))({"positions": positions})
        room = e * (1 + EVALUATION)
        for style in STYLES:
            actual = Plan(tape, Emulated(rules, g, style), sizes)({"positions": positions})
            assert (np.abs(actual - v) <= room).all(), (turn, style)
            if turn % 3 == 0:
                worst = max(worst, float((np.abs(actual - v)[room > 0] / room[room > 0]).max()))
    assert worst > 0.5


@pytest.mark.parametrize("made", definitions(), ids=lambda made: made.name)
def test_printed_source_computes_what_the_tape_does(made: Definition) -> None:
    sizes = parameters(POSITIONS, 6, 10000.0)
    text = source(compiled(made))
    scope: dict[str, Any] = {"np": np}
    exec(text, scope)  # the text is ours: running it is the test
    printed = scope[made.name.replace(".", "_")](POSITIONS, **sizes)
    run = planned(compiled(made), FLOAT64, tuple(sizes.items()))({"positions": POSITIONS})
    assert np.array_equal(printed, run)
    assert "may be rounded as tables, then as output" in text


def test_the_claim_is_about_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another frequency in the definition, the claim that ties it to the formula stays
    open."""

    def doubled(i: Any, r: Any, base: Any) -> Any:
        return base ** (-4 * i / r)

    derivation = claim("sinusoidal.definition").derivation
    assert derivation is not None
    assert all(is_closed(step) for step in derivation())
    monkeypatch.setattr(sinusoidal_definition, "frequency", doubled)
    assert not any(is_closed(step) for step in derivation())
