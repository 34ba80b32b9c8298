"""The definition of multi-head attention against loops: values, enclosures, gradients, counts."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy as sp
from sympy.core.cache import clear_cache

from attnspec.oracle.adjoint import gradients
from attnspec.oracle.balls import BALLS, BOTH_FORMS, midpoints, precision, radii
from attnspec.oracle.compiler import compiled
from attnspec.oracle.errors import errors_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import planned
from attnspec.oracle.precision import contract
from attnspec.oracle.rationals import RATIONALS
from attnspec.oracle.source import source
from attnspec.spec.exact_values import entry_value
from attnspec.spec.multi_head_attention_definition import (
    CALLS,
    MultiHead,
    definitions,
    multi_head_attention,
    projection_parameters,
)
from attnspec.spec.substitution import substituted
from tests.multi_head_loops import by_loops, drawn

Array = np.ndarray[Any, Any]
WEIGHTS = ("x", "w_q", "w_k", "w_v", "w_o")
DOUBLE = errors_of(contract("float64", {"angles": "float64"}))
"""By default angles may be formed in float32: these tests form them in double precision too."""


def key_of(definition: Any, sizes: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((str(p), sizes[str(p)]) for p in definition.parameters)


def named(call: MultiHead) -> str:
    way = f"{call.layout}-{call.direction}" if call.layout else "no-rope"
    return f"{'causal' if call.causal else 'full'}-{way}-{call.head_order}"


@pytest.mark.parametrize("call", CALLS, ids=named)
def test_value_is_that_of_loops(call: MultiHead) -> None:
    definition = multi_head_attention(call)
    tape = compiled(definition)
    for seed in range(4):
        arrays, sizes = drawn(seed, call)
        key = key_of(definition, sizes)
        _, error = planned(tape, DOUBLE, key)(arrays)
        found = planned(tape, FLOAT64, key)(arrays)
        assert found.shape == arrays["x"].shape
        # two evaluations in float64 differ by no more than twice what one may be off
        assert (np.abs(found - by_loops(arrays, call, sizes)) <= 2.0 * error).all()


@pytest.mark.parametrize("call", CALLS[::3], ids=named)
def test_enclosures_are_narrow_and_hold_both_forms(call: MultiHead) -> None:
    definition = multi_head_attention(call)
    arrays, sizes = drawn(3, call)
    key = key_of(definition, sizes)
    _, error = planned(compiled(definition), DOUBLE, key)(arrays)
    with precision():
        balls = planned(compiled(definition), BALLS, key)(arrays)
        planned(compiled(definition), BOTH_FORMS, key)(arrays)
        high, low = midpoints(balls)
        width = radii(balls)
    assert (np.abs(high + low - by_loops(arrays, call, sizes)) <= 2.0 * error).all()
    assert (width < 2.0**-20 * error).all()


def by_mpmath(arrays: dict[str, Array], sizes: dict[str, Any], place: int, out: int) -> Any:
    """One entry of causal attention with RoPE, interleaved, a head for every key head: 60 digits,
    as complex numbers."""
    x, d, e = arrays["x"][0], sizes["d"], sizes["e"]

    def entry(name: str, token: int, column: int) -> Any:
        weights = arrays[name][:, column]
        return mpmath.fsum(
            mpmath.mpf(a) * mpmath.mpf(w) for a, w in zip(x[token], weights, strict=True)
        )

    def pairs(name: str, token: int, head: int) -> list[Any]:
        found = []
        for pair in range(d // 2):
            first = head * d + 2 * pair
            angle = token * mpmath.mpf(sizes["base"]) ** (-mpmath.mpf(2 * pair) / d)
            plain = mpmath.mpc(entry(name, token, first), entry(name, token, first + 1))
            found.append(plain * mpmath.expj(angle))
        return found

    total = mpmath.mpf(0)
    for head in range(sizes["heads"]):
        query = pairs("w_q", place, head)
        weights = []
        for j in range(place + 1):
            keyed = pairs("w_k", j, head)
            score = mpmath.fsum(
                (a * mpmath.conj(b)).real for a, b in zip(query, keyed, strict=True)
            )
            weights.append(mpmath.exp(score / mpmath.sqrt(d)))
        for c in range(e):
            average = mpmath.fsum(
                w * entry("w_v", j, head * e + c) for j, w in enumerate(weights)
            ) / mpmath.fsum(weights)
            total += average * mpmath.mpf(arrays["w_o"][head * e + c, out])
    return total


def test_enclosure_holds_the_value_in_sixty_digits() -> None:
    call = MultiHead(causal=True, layout="interleaved")
    sizes = {"batch": 1, "heads": 2, "groups": 2, "n": 3, "width": 3, "d": 4, "e": 3, "base": 5.0}
    g = np.random.default_rng(0)
    shapes = {"x": (1, 3, 3), "w_q": (3, 8), "w_k": (3, 8), "w_v": (3, 6), "w_o": (6, 3)}
    arrays = {name: g.standard_normal(shape) for name, shape in shapes.items()}
    definition = multi_head_attention(call)
    with precision():
        balls = planned(compiled(definition), BALLS, key_of(definition, sizes))(arrays)
    with mpmath.workdps(60):
        for at in np.ndindex(balls.shape):
            exact = by_mpmath(arrays, sizes, at[1], at[2])
            ball = balls[at]
            middle = mpmath.mpf(ball.mid().str(50, radius=False))
            radius = mpmath.mpf(ball.rad().str(10, radius=False)) * 2
            assert abs(exact - middle) <= radius


def test_conventions_differ() -> None:
    """Values tell the conventions apart: a test in which two agreed would see no difference."""
    sizes = {"batch": 1, "heads": 4, "groups": 2, "n": 5, "width": 3, "d": 4, "e": 3, "base": 5.0}
    g = np.random.default_rng(8)
    shapes = {"x": (1, 5, 3), "w_q": (3, 16), "w_k": (3, 8), "w_v": (3, 6), "w_o": (12, 3)}
    arrays = {name: g.standard_normal(shape) for name, shape in shapes.items()}
    found, room = [], 0.0
    for call in CALLS:
        definition = multi_head_attention(call)
        value, error = planned(compiled(definition), DOUBLE, key_of(definition, sizes))(arrays)
        found.append(value)
        room = max(room, float(error.max()))
    for first, second in combinations(found, 2):
        assert np.abs(first - second).max() > 2.0**20 * room


@pytest.mark.parametrize("call", CALLS[1::4], ids=named)
def test_gradients_are_those_of_a_complex_step(call: MultiHead) -> None:
    definition = multi_head_attention(call)
    arrays, sizes = drawn(11, call)
    g = np.random.default_rng(12)
    upstream = g.standard_normal(arrays["x"].shape)
    key = key_of(definition, sizes)
    tape = gradients(definition, WEIGHTS)
    results = planned(tape, DOUBLE, key)({**arrays, "upstream": upstream})
    for name, (value, error) in zip(WEIGHTS, results, strict=True):
        assert value.shape == arrays[name].shape
        step = 2.0**-100
        for at in {tuple(int(g.integers(size)) for size in value.shape) for _ in range(4)}:
            moved = {key: array.astype(complex) for key, array in arrays.items()}
            moved[name][at] += 1j * step
            slope = float((by_loops(moved, call, sizes).imag / step * upstream).sum())
            assert abs(slope - value[at]) <= 2.0 * error[at], name


@pytest.mark.parametrize("call", [MultiHead(), MultiHead(causal=True, layout="half")], ids=named)
def test_exact_entries_are_those_of_the_tape(call: MultiHead) -> None:
    """The evaluation by sympy, on whole numbers."""
    sizes = {"batch": 1, "heads": 2, "groups": 1, "n": 2, "width": 2, "d": 2, "e": 1, "base": 3}
    arrays = {
        "x": [[[1, 2], [0, -1]]],
        "w_q": [[1, 0, 2, 1], [0, 1, -1, 1]],
        "w_k": [[1, 1], [0, 2]],
        "w_v": [[1], [-2]],
        "w_o": [[1, 0], [3, 1]],
    }
    definition = multi_head_attention(call)
    given = {name: np.array(values, float) for name, values in arrays.items()}
    value, error = planned(compiled(definition), DOUBLE, key_of(definition, sizes))(given)
    for at in np.ndindex(value.shape):
        exact = entry_value(definition, sizes, arrays, at)
        assert abs(sp.N(exact, 30) - sp.Float(float(value[at]), 30)) <= 2.0 * error[at]


@pytest.mark.parametrize("call", [MultiHead(), MultiHead(causal=True, layout="half")], ids=named)
def test_printed_source_computes_what_the_tape_does(call: MultiHead) -> None:
    definition = multi_head_attention(call)
    arrays, sizes = drawn(5, call)
    text = source(compiled(definition))
    scope: dict[str, Any] = {"np": np}
    exec(text, scope)  # the text is ours: running it is the test
    given = dict(key_of(definition, sizes))
    printed = scope["multi_head_attention"](*(arrays[name] for name in WEIGHTS), **given)
    _, error = planned(compiled(definition), DOUBLE, tuple(given.items()))(arrays)
    assert (np.abs(printed - by_loops(arrays, call, sizes)) <= 2.0 * error).all()
    assert "may be rounded as activations" in text


def test_parameters_are_the_entries_of_the_arrays() -> None:
    definition = projection_parameters()
    for seed in range(8):
        arrays, sizes = drawn(seed, MultiHead())
        plan = planned(compiled(definition), RATIONALS, key_of(definition, sizes))
        assert plan({}).item() == sum(arrays[name].size for name in WEIGHTS[1:])


def test_names_of_definitions() -> None:
    names = [definition.name for definition in definitions()]
    assert names == ["multi_head_attention"] * 2 + ["multi_head_attention.parameters"]


def test_substitution_is_that_of_sympy() -> None:
    whole = multi_head_attention(MultiHead(causal=True)).expression
    names = {str(symbol): symbol for symbol in whole.free_symbols if symbol.is_Symbol}
    given = {names["d"]: names["e"] + 1, names["heads"]: sp.Integer(4)}
    assert substituted(whole, given) == whole.xreplace(given)
    assert substituted(whole, {}) is whole


def test_what_nothing_is_put_into_stays_the_object_that_it_is() -> None:
    """With equal parts that are two objects, as there are once sympy's cache has run over."""
    x = sp.Symbol("x")
    first = sp.sin(x + 1)
    clear_cache()
    both = sp.Tuple(first, sp.cos(sp.sin(x + 1)))
    assert both.args[0] is not both.args[1].args[0]
    assert substituted(both, {}) is both


def test_a_mark_on_an_index_is_a_comment_of_its_line() -> None:
    """Places of tokens are formed as angles are: the mark of an index, which has no other."""
    text = source(compiled(multi_head_attention(MultiHead(causal=True, layout="half"))))
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("index")]
    marked = [line for line in lines if "angles" in line]
    assert marked
    assert all("  # may be rounded as angles" in line for line in marked)
