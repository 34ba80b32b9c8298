"""The allowances of attention and of its gradients: certified values, forms that agree, and no
rounding that the contract allows leaves them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnspec.oracle.adjoint import gradients
from attnspec.oracle.balls import BALLS, BOTH_FORMS, midpoints, precision, radii
from attnspec.oracle.compiler import compiled
from attnspec.oracle.errors import errors_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import Plan, planned
from attnspec.oracle.precision import EVALUATION, FORMATS, contract, snapped
from attnspec.oracle.tape import Tape
from attnspec.spec.attention_definition import Options
from tests.attention_cases import KINDS, Case, case
from tests.emulation import STYLES, Emulated

Array = np.ndarray[Any, Any]
EXACT = contract("float64", {"angles": "float64"})
BOTH = ("forward", "backward")


def tape_of(call: Case, direction: str) -> Tape:
    if direction == "forward":
        return compiled(call.definition)
    return gradients(call.definition, call.names)


def several(tape: Tape, given: Any) -> tuple[Any, ...]:
    return (given,) if len(tape.results) == 1 else given


@pytest.mark.parametrize("direction", BOTH)
def test_float64_lies_in_the_enclosure_widened_by_its_own_bound(direction: str) -> None:
    g = np.random.default_rng(7)
    for turn in range(40):
        call = case(g, KINDS[turn % len(KINDS)], "float64")
        tape = tape_of(call, direction)
        with precision(160):
            balls = several(tape, planned(tape, BALLS, call.key)(call.arrays))
            planned(tape, BOTH_FORMS, call.key)(call.arrays)  # forms that differ raise
        values = several(tape, planned(tape, FLOAT64, call.key)(call.arrays))
        bounds = several(tape, planned(tape, errors_of(EXACT), call.key)(call.arrays))
        for ball, value, (v, own) in zip(balls, values, bounds, strict=True):
            high, low = midpoints(ball)
            room = own * (1 + EVALUATION) + radii(ball)
            for found in (value, v):
                assert (np.abs((found - high) - low) <= room).all(), call.options
            assert (radii(ball) <= 2.0**-70 * (np.abs(high) + 2.0**-40)).all()


@pytest.mark.parametrize("direction", BOTH)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_no_emulated_rounding_leaves_the_allowance(dtype: str, direction: str) -> None:
    """Each mark and operation rounded at random and as badly as possible, both forms of each
    value, where each scale may be applied."""
    g = np.random.default_rng(11)
    declared: list[Any] = [None, "flash", "strict", {"reductions": "storage"}]
    worst = 0.0
    for turn in range(4 * len(KINDS)):
        scaling = ("any", "query", "key", "both", "scores")[turn % 5]
        call = case(g, KINDS[turn % len(KINDS)], dtype, scaling=scaling)
        tape = tape_of(call, direction)
        rules = contract(dtype, declared[turn % 4])
        bounds = several(tape, planned(tape, errors_of(rules), call.key)(call.arrays))
        for style in STYLES:
            emulated = Plan(tape, Emulated(rules, g, style), call.parameters)(call.arrays)
            for (v, e), actual in zip(bounds, several(tape, emulated), strict=True):
                room = e * (1 + EVALUATION)
                with np.errstate(invalid="ignore"):
                    assert (np.abs(actual - v) <= room).all(), (turn, style, call.options)
                    ratio = np.abs(actual - v)[room > 0] / room[room > 0]
                worst = max(worst, float(ratio[np.isfinite(ratio)].max(initial=0.0)))
    assert worst > 0.3


def test_the_scale_on_either_side_covers_query_key_and_both() -> None:
    """One form stands for three: its allowance is nowhere smaller than theirs."""
    g = np.random.default_rng(23)
    for turn in range(60):
        dtype = ("float32", "bfloat16", "float16")[turn % 3]
        call = case(g, KINDS[turn % len(KINDS)], dtype)
        rules = errors_of(contract(dtype))
        v, e = planned(compiled(call.definition), rules, call.key)(call.arrays)
        for scaling in ("query", "key", "both", "scores"):
            single = call._replace(options=replace(call.options, scaling=scaling))
            w, f = planned(compiled(single.definition), rules, call.key)(call.arrays)
            assert (np.abs(w - v) <= 2.0**-40 * (np.abs(v) + e)).all()
            assert (f <= e * (1 + EVALUATION)).all(), (scaling, call.options)


def test_sums_stored_before_the_division_and_after_it_stay_within() -> None:
    """Numerators times values are added up, stored, divided by the row's total and stored again:
    two roundings, and with weights in float32 nothing else pays for the first."""
    g, worst = np.random.default_rng(29), 0.0
    rules = contract("bfloat16", {"scores": "float32", "probabilities": "float32"})
    for _ in range(30):
        call = case(g, "normal", "bfloat16")
        call = call._replace(options=Options())
        v, e = planned(compiled(call.definition), errors_of(rules), call.key)(call.arrays)
        room = e * (1 + EVALUATION)
        error = np.abs(undivided(call) - v)
        assert (error <= room).all()
        worst = max(worst, float((error / np.maximum(np.abs(v), 1e-3)).max()))
    # more than any one rounding
    assert worst > 1.2 * FORMATS["bfloat16"].roundoff


def undivided(call: Case) -> Array:
    """Attention without options whose sums are divided once they are stored."""
    q, k, v = (call.arrays[name] for name in "qkv")
    of = np.arange(q.shape[1]) * k.shape[1] // q.shape[1]
    z = np.einsum("bhil,bhjl->bhij", q, k[:, of]) * call.parameters["scale"]
    numerators = np.exp(z - z.max(-1, keepdims=True))
    stored = snapped(np.einsum("bhij,bhjc->bhic", numerators, v[:, of]), "bfloat16")
    return snapped(stored / numerators.sum(-1, keepdims=True), "bfloat16")
