"""The definition of Longformer attention against plain loops: values, certificates, gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest

from attnspec.oracle.adjoint import gradients
from attnspec.oracle.balls import BALLS, BOTH_FORMS, midpoints, precision
from attnspec.oracle.compiler import compiled
from attnspec.oracle.errors import errors_of
from attnspec.oracle.expected import expected, expected_gradients
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import Plan, planned
from attnspec.oracle.precision import EVALUATION, contract, snapped
from attnspec.oracle.rationals import RATIONALS
from attnspec.spec import attention_definition
from attnspec.spec import longformer_attention_definition as longformer
from attnspec.spec.attention_definition import SCALINGS, Options
from tests.attention_cases import KINDS, fill
from tests.emulation import STYLES, Emulated

Array = np.ndarray[Any, Any]
CLOSE = mpmath.mpf(2) ** -90
SHAPES = ((1, 1, 1, 1, 1), (2, 3, 7, 5, 2), (1, 2, 9, 1, 3), (3, 1, 2, 4, 4), (1, 1, 17, 3, 1))


class Case(NamedTuple):
    """A call as the definition takes it."""

    parameters: dict[str, Any]
    arrays: dict[str, Array]

    @property
    def key(self) -> tuple[tuple[str, Any], ...]:
        return tuple(self.parameters.items())


def case(turn: int, share: float) -> Case:
    """A call drawn at random, in which that share of the tokens is global."""
    g = np.random.default_rng(turn)
    batch, heads, n, d, e = SHAPES[turn % len(SHAPES)]
    shapes = {"q": (batch, heads, n, d), "k": (batch, heads, n, d), "v": (batch, heads, n, e)}
    arrays: dict[str, Array] = {name: g.standard_normal(shape) for name, shape in shapes.items()}
    arrays["is_global"] = (g.random((batch, n)) < share).astype(np.int64)
    window = int(g.choice([0, 1, 2, n, 40]))
    scale = float(g.choice([d**-0.5, 1.0, 3.0]))
    sizes = {"batch": batch, "heads": heads, "n": n, "d": d, "e": e}
    return Case({**sizes, "scale": scale, "window": window}, arrays)


def seen_by_loops(call: Case, b: int, i: int) -> list[int]:
    """The keys that query i sees, in no particular order, each once."""
    window, n = call.parameters["window"], call.parameters["n"]
    flags = call.arrays["is_global"][b]
    if flags[i]:
        return list(range(n))
    local = range(max(0, i - window), min(n, i + window + 1))
    return [*local, *(j for j in range(n) if flags[j] and j not in local)]


def by_loops(call: Case) -> Array:
    """The output in 40 digits, one row at a time, as Python objects."""
    q, k, v = (call.arrays[name] for name in "qkv")
    output = np.empty(v.shape, object)
    scale = mpmath.mpf(call.parameters["scale"])
    with mpmath.workdps(40):
        for b, h, i in np.ndindex(q.shape[:3]):
            keys = seen_by_loops(call, b, i)
            dots = [mpmath.fdot(zip(q[b, h, i], k[b, h, j], strict=True)) for j in keys]
            weights = [mpmath.exp(scale * dot) for dot in dots]
            for c in range(v.shape[3]):
                total = mpmath.fdot((w, v[b, h, j, c]) for w, j in zip(weights, keys, strict=True))
                output[b, h, i, c] = total / mpmath.fsum(weights)
    return output


CASES = [(turn, share) for turn in range(10) for share in (0.0, 0.3)] + [(1, 1.0)]


@pytest.mark.parametrize(("turn", "share"), CASES)
def test_the_output_is_that_of_the_visible_keys(turn: int, share: float) -> None:
    call = case(turn, share)
    definition = longformer.longformer_attention()
    tape = compiled(definition)
    assert tuple(str(p) for p in definition.parameters) == tuple(call.parameters)
    exact = by_loops(call)
    value = planned(tape, FLOAT64, call.key)(call.arrays)
    _, error = planned(tape, errors_of(contract("float64")), call.key)(call.arrays)
    with precision():
        high, low = midpoints(planned(tape, BALLS, call.key)(call.arrays))
    assert value.shape == exact.shape
    with mpmath.workdps(40):
        for at in np.ndindex(exact.shape):
            assert abs(mpmath.mpf(high[at]) + mpmath.mpf(low[at]) - exact[at]) < CLOSE
            assert abs(mpmath.mpf(value[at]) - exact[at]) <= error[at]


def allowed(call: Case, scaling: str, dtype: str) -> tuple[Array, Array]:
    """The value and how far it may be off, in an arithmetic."""
    tape = compiled(longformer.longformer_attention(scaling))
    rules = errors_of(contract(dtype, {"scaling": scaling}))
    value, error = planned(tape, rules, call.key)(call.arrays)
    return value, error


@pytest.mark.parametrize("scaling", [*SCALINGS, "any"])
def test_where_the_scale_is_applied_changes_no_value(scaling: str) -> None:
    call = case(1, 0.3)
    exact = by_loops(call)
    value, error = allowed(call, scaling, "float64")
    with mpmath.workdps(40):
        for at in np.ndindex(exact.shape):
            assert abs(mpmath.mpf(value[at]) - exact[at]) <= error[at]
    _, room = allowed(call, scaling, "bfloat16")
    _, most = allowed(call, "any", "bfloat16")
    assert (room <= most).all()


@pytest.mark.parametrize(("turn", "share"), CASES)
def test_who_sees_whom_is_counted_exactly(turn: int, share: float) -> None:
    call = case(turn, share)
    flags = {"is_global": call.arrays["is_global"]}
    key = tuple((name, call.parameters[name]) for name in ("batch", "n", "window"))
    seen = planned(compiled(longformer.visible()), RATIONALS, key)(flags)
    pairs = planned(compiled(longformer.visible_pairs()), RATIONALS, key)(flags)
    for b in range(call.parameters["batch"]):
        rows = [seen_by_loops(call, b, i) for i in range(call.parameters["n"])]
        assert [[j for j, one in enumerate(row) if one == 1] for row in seen[b]] == [
            sorted(row) for row in rows
        ]
        assert pairs[b] == sum(len(row) for row in rows)


def masked(call: Case) -> tuple[dict[str, Any], dict[str, Array]]:
    """The same call of attention, with a mask made by loops."""
    p = call.parameters
    mask = np.zeros((p["batch"], p["heads"], p["n"], p["n"]), np.int8)
    for b, i in np.ndindex(p["batch"], p["n"]):
        mask[b, :, i, seen_by_loops(call, b, i)] = 1
    sizes = {"batch": p["batch"], "heads": p["heads"], "groups": p["heads"], "t": p["n"]}
    sizes |= {"s": p["n"], "d": p["d"], "e": p["e"], "scale": p["scale"]}
    return sizes, {**{name: call.arrays[name] for name in "qkv"}, "mask": mask}


@pytest.mark.parametrize("turn", range(5))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_values_and_gradients_are_those_of_attention_under_the_mask(turn: int, dtype: str) -> None:
    call = case(turn, 0.3)
    sizes, arrays = masked(call)
    own = longformer.longformer_attention()
    other = attention_definition.attention(Options(mask=True))
    held = contract(dtype)
    one = expected(own, call.parameters, call.arrays, held)
    two = expected(other, sizes, arrays, held)
    assert np.array_equal(one.value, two.value)
    assert np.array_equal(one.allowance, two.allowance)
    upstream = np.random.default_rng(turn).standard_normal(one.value.shape)
    mine = expected_gradients(
        own, ("q", "k", "v"), call.parameters, {**call.arrays, "upstream": upstream}, held
    )
    theirs = expected_gradients(
        other, ("q", "k", "v"), sizes, {**arrays, "upstream": upstream}, held
    )
    for gradient, wanted in zip(mine, theirs, strict=True):
        assert np.array_equal(gradient.value, wanted.value)
        # attention may also store what each head adds to the keys that heads share
        assert (gradient.allowance <= wanted.allowance).all()


def test_a_local_token_does_not_move_with_what_it_cannot_see() -> None:
    call = case(1, 0.0)
    call.parameters["window"] = 1
    call.arrays["is_global"][:, 3] = 1
    plan = planned(compiled(longformer.longformer_attention()), FLOAT64, call.key)
    before = plan(call.arrays)
    moved = {**call.arrays, "k": call.arrays["k"].copy(), "v": call.arrays["v"].copy()}
    moved["k"][:, :, 6], moved["v"][:, :, 6] = 5.0, 7.0
    changed = (before != plan(moved)).any(axis=(0, 1, 3))
    assert changed.tolist() == [False, False, False, True, False, True, True]


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_no_emulated_rounding_leaves_the_allowance(dtype: str, direction: str) -> None:
    """Each mark and operation rounded at random and as badly as possible, both forms of each
    value."""
    g, worst = np.random.default_rng(5), 0.0
    for turn, kind in enumerate(3 * KINDS):
        call = case(turn, 0.3)
        arrays = {
            name: snapped(fill(g, kind, values.shape, name), dtype)
            for name, values in call.arrays.items()
            if name != "is_global"
        }
        arrays["upstream"] = snapped(fill(g, kind, arrays["v"].shape, "upstream"), dtype)
        arrays["is_global"] = call.arrays["is_global"]
        scaling = (*SCALINGS, "any")[turn % 5]
        definition = longformer.longformer_attention(scaling)
        backward = direction == "backward"
        tape = gradients(definition, ("q", "k", "v")) if backward else compiled(definition)
        rules = contract(dtype, {"scaling": scaling})
        bounds = planned(tape, errors_of(rules), call.key)(arrays)
        with precision(160):
            planned(tape, BOTH_FORMS, call.key)(arrays)  # forms that differ raise
        for style in STYLES:
            found = Plan(tape, Emulated(rules, g, style), call.parameters)(arrays)
            results = zip(bounds, found, strict=True) if backward else [(bounds, found)]
            for (value, error), actual in results:
                room = error * (1 + EVALUATION)
                off = np.abs(actual - value)
                assert (off <= room).all(), (kind, style)
                worst = max(worst, float((off[room > 0] / room[room > 0]).max(initial=0.0)))
    assert worst > 0.3
