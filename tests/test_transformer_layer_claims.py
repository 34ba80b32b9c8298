"""The claims on the layer, without their derivations: plain loops over tokens."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy as sp

from attnspec.spec import transformer_layer
from attnspec.spec.claim import is_closed
from attnspec.spec.composition import Composition, Stage
from attnspec.spec.definition import Definition, rnd
from attnspec.spec.transformer_layer_definition import LayerOptions
from attnspec.spec.transformer_layer_definition import transformer_layer as defined
from tests.registered import numbers, still_open


def quarter_turned(vector: tuple[int, int], times: int) -> tuple[int, int]:
    a, b = vector
    for _ in range(times % 4):
        a, b = -b, a
    return a, b


def attended(
    q: list[Any], k: list[Any], v: list[Any], shift: int, *, turn_values: bool
) -> list[tuple[float, float]]:
    """Causal attention with RoPE of a quarter turn a position, which is exact in integers, at
    positions from `shift`."""
    out = []
    for i, query in enumerate(q):
        turned = quarter_turned(query, i + shift)
        keys = [quarter_turned(key, j + shift) for j, key in enumerate(k[: i + 1])]
        scores = [turned[0] * key[0] + turned[1] * key[1] for key in keys]
        w = [math.exp(score) for score in scores]
        values = [quarter_turned(value, j + shift) if turn_values else value
                  for j, value in enumerate(v[: i + 1])]  # fmt: skip
        out.append(tuple(
            sum(wj * value[c] for wj, value in zip(w, values, strict=True)) / sum(w)
            for c in range(2)
        ))  # fmt: skip
    return out  # type: ignore[return-value]


def test_a_shift_of_all_positions_is_seen_only_by_turned_values() -> None:
    g = np.random.default_rng(1)
    for _ in range(10):
        q, k, v = (
            [tuple(int(e) for e in row) for row in g.integers(-2, 3, (4, 2))] for _ in range(3)
        )
        v[0] = (2, 1)
        still = [attended(q, k, v, shift, turn_values=False) for shift in (0, 1, 2, 2**26 + 3)]
        assert all(run == still[0] for run in still)
        turned = [attended(q, k, v, shift, turn_values=True) for shift in (0, 1, 4)]
        assert turned[1] != turned[0]
        assert turned[2] == turned[0]
        by_turning = [quarter_turned(row, 1) for row in turned[0]]  # type: ignore[arg-type]
        assert by_turning == turned[1]


def test_equal_words_at_two_places_get_different_outputs() -> None:
    values = [Fraction(1), Fraction(0), Fraction(0)]
    added = []
    for i in range(3):
        weights = [Fraction(1)] * (i + 1)  # exp(0), for each visible key
        terms = [w * v for w, v in zip(weights, values[: i + 1], strict=True)]
        added.append(sum(terms, Fraction(0)) / sum(weights))
    assert tuple(added[1:]) == numbers("transformer_layer.position_enters_in_attention")


def test_both_ways_to_the_gate_agree() -> None:
    for x in (-30.0, -3.0, -0.0, 0.5, 20.0):
        by_exponential = x / (1.0 + math.exp(-x))
        by_tangent = x * (1.0 + math.tanh(x / 2.0)) / 2.0
        assert abs(by_exponential - by_tangent) <= 2.0**-50 * max(1.0, abs(x))


def exchanged(options: LayerOptions) -> Composition:
    """The last stage with gate and value exchanged."""
    first, second, third = defined(options)
    arrays = {str(a.label): a for a in third.definition.arrays}
    gate, up, spare = arrays["w_gate"], arrays["w_up"], sp.IndexedBase("spare")
    wrong = third.definition.expression.replace(
        lambda node: isinstance(node, sp.Indexed) and node.base in (gate, up),
        lambda node: spare[(*node.indices, node.base == gate)],
    ).replace(
        lambda node: isinstance(node, sp.Indexed) and node.base == spare,
        lambda node: (up if node.indices[-1] == sp.true else gate)[node.indices[:-1]],
    )
    assert wrong != third.definition.expression
    return (first, second, _with(third, wrong))


def added_to_the_norm(options: LayerOptions) -> Composition:
    """Without the stream in the last sum."""
    first, second, third = defined(options)
    whole = third.definition.expression.args[0]
    *_, network = whole.args
    return (first, second, _with(third, rnd(network, "output")))


def _with(stage: Stage, expression: sp.Expr) -> Stage:
    right = stage.definition
    made = Definition(right.name, expression, right.axes, right.arrays, right.parameters)
    return Stage(stage.result, made)


@pytest.mark.parametrize("wrong", [exchanged, added_to_the_norm])
def test_another_wiring_opens_the_derivation(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer_layer, "transformer_layer", wrong)
    assert not all(is_closed(step) for step in transformer_layer.definition())


def test_turned_values_open_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rotation of what is normalised would turn values as well."""

    def turned(options: LayerOptions) -> Composition:
        first, second, third = defined(options)
        definition = second.definition
        base = definition.arrays[0]
        wrong = definition.expression.replace(
            lambda node: isinstance(node, sp.Indexed) and node.base == base,
            lambda node: node * sp.cos(node.indices[1]),
        )
        return (first, _with(second, wrong), third)

    monkeypatch.setattr(transformer_layer, "transformer_layer", turned)
    opened = still_open("transformer_layer.chain")
    assert len(opened) == 1
    assert "no value is turned" in opened[0]


def test_every_counterexample_of_this_component_is_tested_here() -> None:
    found = {entry.id for entry in transformer_layer.CLAIMS if entry.counterexample}
    assert found == {"transformer_layer.position_enters_in_attention"}
