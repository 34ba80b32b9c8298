"""The definition of attention: who sees whom, rows without keys, conventions, printed source."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnspec.oracle.balls import BALLS, midpoints, precision
from attnspec.oracle.compiler import compiled
from attnspec.oracle.errors import errors_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import planned
from attnspec.oracle.precision import contract
from attnspec.oracle.source import source
from attnspec.spec import attention_definition
from attnspec.spec.attention_definition import Options
from tests.attention_cases import KINDS, Case, case

Array = np.ndarray[Any, Any]


def key_of(definition: Any, call: Case) -> tuple[tuple[str, Any], ...]:
    return tuple((str(p), call.parameters[str(p)]) for p in definition.parameters)


def run(definition: Any, call: Case) -> Array:
    """The value in float64."""
    result: Array = planned(compiled(definition), FLOAT64, key_of(definition, call))(call.arrays)
    return result


def own_error(definition: Any, call: Case) -> Array:
    """How far any evaluation in float64 may be from the exact value, twice: two of them differ by
    no more."""
    rules = errors_of(contract("float64"))
    _, error = planned(compiled(definition), rules, key_of(definition, call))(call.arrays)
    room: Array = 2.0 * error
    return room


def visible(call: Case) -> Array:
    seen: Array = run(attention_definition.visible(call.options), call) != 0.0
    return seen


def by_loops(call: Case) -> tuple[Array, Array]:
    """Output and log-sum-exp, one row at a time, over the keys that it sees."""
    p, a, options = call.parameters, call.arrays, call.options
    output = np.zeros((p["batch"], p["heads"], p["t"], p["e"]))
    lse = np.full((p["batch"], p["heads"], p["t"]), -np.inf)
    per_group = p["heads"] // p["groups"]
    for b, h, i in np.ndindex(p["batch"], p["heads"], p["t"]):
        g = h // per_group if options.head_order == "grouped" else h % p["groups"]
        scores, values = [], []
        for j in range(p["s"]):
            z = p["scale"] * float(a["q"][b, h, i] @ a["k"][b, g, j])
            z = p["cap"] * np.tanh(z / p["cap"]) if options.softcap else z
            if options.ranges:
                at = i + p["offset"]
                if not at - p["left"] <= j <= at + p["right"]:
                    continue
            if options.mask and not a["mask"][b, h, i, j]:
                continue
            if options.bias:
                spread = a["bias"].shape
                z += a["bias"][tuple(x % n for x, n in zip((b, h, i, j), spread, strict=True))]
                if z == -np.inf:
                    continue
            scores.append(z)
            values.append(a["v"][b, g, j])
        if scores:
            w = np.exp(np.array(scores) - max(scores))
            output[b, h, i] = w @ np.array(values) / w.sum()
            lse[b, h, i] = max(scores) + np.log(w.sum())
    return output, lse


@pytest.mark.parametrize("turn", range(24))
def test_output_and_log_sum_exp_are_those_of_the_visible_keys(turn: int) -> None:
    call = case(np.random.default_rng(turn), KINDS[turn % len(KINDS)], "float64")
    output, lse = by_loops(call)
    found = run(call.definition, call)
    assert (np.abs(found - output) <= own_error(call.definition, call)).all()
    definition = attention_definition.log_sum_exp(call.options)
    other = run(definition, call)
    assert np.array_equal(np.isneginf(other), np.isneginf(lse))
    finite = np.isfinite(lse)
    room = own_error(definition, call)
    assert (np.abs(other[finite] - lse[finite]) <= room[finite]).all()


def test_rows_without_keys_are_zero_in_balls_too() -> None:
    call = case(np.random.default_rng(2), "normal", "float64")
    call = call._replace(options=Options(mask=True, scaling="any"))
    call.arrays["mask"][0, 0] = 0
    with precision():
        key = key_of(call.definition, call)
        balls = planned(compiled(call.definition), BALLS, key)(call.arrays)
        high, low = midpoints(balls)
    assert not high[0, 0].any()
    assert not low[0, 0].any()
    assert np.isfinite(high).all()


def test_conditions_are_not_lost_where_an_index_is_bound_again() -> None:
    """Sympy folds a Piecewise out of a sum and can drop a condition on the way: then weights are
    divided by the sum over all keys. With values of one, every row that sees a key gives one."""
    for seed in range(8):
        call = case(np.random.default_rng(seed), "saturated", "float64")
        call.arrays["v"][...] = 1.0
        found = run(call.definition, call)
        some = visible(call).any(axis=-1)
        assert (np.abs(found - 1.0) <= own_error(call.definition, call))[some].all()
        assert not found[~some].any()


def test_where_the_frontier_lies() -> None:
    """Bottom-right: query i of t sees keys up to i + s - t; top-left: up to i."""
    call = case(np.random.default_rng(0), "normal", "float64")
    call = call._replace(options=Options(ranges=True))
    call.parameters.update(t=2, s=4, left=2**40, right=0)
    for offset, wanted in ((2, [[1, 1, 1, 0], [1, 1, 1, 1]]), (0, [[1, 0, 0, 0], [1, 1, 0, 0]])):
        call.parameters["offset"] = offset
        assert np.array_equal(visible(call)[0, 0], np.array(wanted, bool))
    call.parameters.update(offset=2, left=1, right=1)
    assert np.array_equal(visible(call)[0, 0], np.array([[0, 1, 1, 1], [0, 0, 1, 1]], bool))


@pytest.mark.parametrize("turn", range(6))
def test_printed_source_computes_what_the_tape_does(turn: int) -> None:
    call = case(np.random.default_rng(40 + turn), "normal", "float64")
    tape = compiled(call.definition)
    scope: dict[str, Any] = {"np": np}
    text = source(tape)
    exec(text, scope)  # the text is ours: running it is the test
    with np.errstate(all="ignore"):
        printed = scope["attention"](*(call.arrays[n] for n in tape.arrays), **call.parameters)
    room = own_error(call.definition, call)
    assert (np.abs(printed - run(call.definition, call)) <= room).all()
    assert "may be rounded as scores" in text
    assert "as output" in text
