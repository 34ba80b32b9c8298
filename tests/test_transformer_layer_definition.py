"""The definition of a Llama-style layer: against plain loops, at every convention; enclosures,
allowances, and what one stage hands to the next."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from attnspec.oracle.adjoint import gradients
from attnspec.oracle.balls import BALLS, BOTH_FORMS, midpoints, precision, radii
from attnspec.oracle.composition import composed
from attnspec.oracle.errors import errors_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.precision import EVALUATION, contract, snapped
from attnspec.spec.rope_definition import DIRECTIONS
from attnspec.spec.transformer_layer_definition import CALLS, LayerOptions, transformer_layer
from tests.emulation import STYLES, Emulated
from tests.turning import turned

Array = np.ndarray[Any, Any]
EXACT = contract("float64", {"angles": "float64"})
MORE = (
    LayerOptions(head_order="tiled"),
    LayerOptions(layout="half", direction="backward"),
    LayerOptions(scaling="query"),
)


def call(g: np.random.Generator, dtype: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Sizes and arrays: odd lengths, key and value heads of different size."""
    groups = int(g.integers(1, 3))
    b, n, m, d, e, f = (int(g.choice(c)) for c in ((1, 2), (1, 2, 3, 5), (3, 4, 7), (2, 4), (1, 3),
                                                   (1, 5, 6)))  # fmt: skip
    h = groups * int(g.integers(1, 4))
    sizes = {
        "batch": b, "heads": h, "groups": groups, "n": n, "width": m, "d": d, "e": e, "hidden": f,
        "base": float(g.choice([100.0, 10000.0])), "eps": float(g.choice([1e-6, 1e-2])),
    }  # fmt: skip
    shapes = {
        "w_q": (m, h * d), "w_k": (m, groups * d), "w_v": (m, groups * e), "w_o": (h * e, m),
        "w_gate": (m, f), "w_up": (m, f), "w_down": (f, m),
    }  # fmt: skip
    arrays = {name: g.standard_normal(s) / math.sqrt(s[0]) for name, s in shapes.items()}
    arrays["x"] = g.standard_normal((b, n, m))
    for name in ("norm_attention", "norm_feed_forward"):
        arrays[name] = g.uniform(0.5, 1.5, m) * g.choice([-1.0, 1.0], m)
    return sizes, {name: snapped(values, dtype) for name, values in arrays.items()}


def rms(row: Array, gain: Array, eps: float, options: LayerOptions) -> Array:
    square = sum(entry * entry for entry in row.tolist()) / len(row)
    below = {
        "inside": math.sqrt(square + eps), "outside": math.sqrt(square) + eps,
        "clamped": math.sqrt(max(square, eps)), "none": math.sqrt(square),
    }[options.eps_placement]  # fmt: skip
    return row / below * (gain + 1.0 if options.gain == "one-plus" else gain)


def by_loops(p: dict[str, Any], a: dict[str, Array], options: LayerOptions) -> Array:
    """One token, one head at a time."""
    heads, groups, d, e = (p[k] for k in ("heads", "groups", "d", "e"))
    out = np.empty_like(a["x"])
    for b in range(p["batch"]):
        n = [rms(row, a["norm_attention"], p["eps"], options) for row in a["x"][b]]
        for i in range(p["n"]):
            given = []
            for h in range(heads):
                g = h // (heads // groups) if options.head_order == "grouped" else h % groups
                q = np.array(turned((n[i] @ a["w_q"])[h * d : h * d + d], i, p["base"], options))
                keys = [
                    turned((n[j] @ a["w_k"])[g * d : g * d + d], j, p["base"], options)
                    for j in range(i + 1)
                ]
                values = [(n[j] @ a["w_v"])[g * e : g * e + e] for j in range(i + 1)]
                scores = [float(q @ k) / math.sqrt(d) for k in keys]
                w = [math.exp(z - max(scores)) for z in scores]
                given.append(sum(wj * v for wj, v in zip(w, values, strict=True)) / sum(w))
            middle = a["x"][b, i] + np.concatenate(given) @ a["w_o"]
            row = rms(middle, a["norm_feed_forward"], p["eps"], options)
            gate, up = row @ a["w_gate"], row @ a["w_up"]
            silu = [z / (1.0 + math.exp(-z)) for z in gate.tolist()]
            out[b, i] = middle + (np.array(silu) * up) @ a["w_down"]
    return out


@pytest.mark.parametrize("options", [*CALLS, *MORE], ids=str)
def test_every_convention_is_what_loops_give(options: LayerOptions) -> None:
    g, composition = np.random.default_rng(6), transformer_layer(options)
    for _ in range(4):
        sizes, arrays = call(g, "float64")
        wanted = by_loops(sizes, arrays, options)
        value = composed(composition, FLOAT64, sizes, arrays)
        _, own = composed(composition, errors_of(EXACT), sizes, arrays)
        assert np.isfinite(own).all()
        assert (np.abs(value - wanted) <= 2.0 * own).all()
        assert (own <= 1e-9 * np.abs(wanted).max()).all()


@pytest.mark.parametrize("options", [CALLS[0], CALLS[-1], *MORE], ids=str)
def test_enclosures_hold_both_forms_and_what_loops_give(options: LayerOptions) -> None:
    g, composition = np.random.default_rng(7), transformer_layer(options)
    for _ in range(3):
        sizes, arrays = call(g, "float64")
        with precision(160):
            balls = composed(composition, BALLS, sizes, arrays)
            composed(composition, BOTH_FORMS, sizes, arrays)  # forms that differ raise
            high, low = midpoints(balls)
        _, own = composed(composition, errors_of(EXACT), sizes, arrays)
        wanted = by_loops(sizes, arrays, options)
        assert (np.abs((wanted - high) - low) <= own * (1 + EVALUATION) + radii(balls)).all()
        assert (radii(balls) <= 2.0**-90 * (np.abs(high) + 1.0)).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_emulated_rounding_leaves_the_allowance(dtype: str) -> None:
    g, judged = np.random.default_rng(8), []
    for turn in range(16):
        options = CALLS[(7 * turn) % len(CALLS)]
        composition, (sizes, arrays) = transformer_layer(options), call(g, dtype)
        rules = contract(dtype, (None, "flash", "strict")[turn % 3])
        v, e = composed(composition, errors_of(rules), sizes, arrays)
        known = np.isfinite(e)
        for style in STYLES:
            actual = composed(composition, Emulated(rules, g, style), sizes, arrays)
            assert (np.abs(actual - v)[known] <= (e * (1 + EVALUATION))[known]).all()
        judged.append(bool((e <= 0.25 * math.sqrt(np.mean(v * v))).all()))
    # in bfloat16 the worst case of all steps behind each other is larger than the output of some
    assert all(judged) == (dtype == "float32")


def gradient_of_a_weight(options: LayerOptions) -> list[int]:
    return [len(gradients(stage.definition, tuple(str(a.label) for a in stage.definition.arrays
                                                  )).results)
            for stage in transformer_layer(options)]  # fmt: skip


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_stage_has_gradients_for_all_that_it_reads(direction: str) -> None:
    assert gradient_of_a_weight(LayerOptions(direction=direction)) == [2, 5, 6]


WRONG = {
    "gate and value exchanged": lambda o, p, a: by_loops(
        p, a | {"w_gate": a["w_up"], "w_up": a["w_gate"]}, o
    ),
    "norms exchanged": lambda o, p, a: by_loops(
        p,
        a
        | {
            "norm_attention": a["norm_feed_forward"],
            "norm_feed_forward": a["norm_attention"],
        },
        o,
    ),
    "no rotation": lambda o, p, a: by_loops(p, a, LayerOptions(layout=None)),
    "other head order": lambda o, p, a: by_loops(p, a, LayerOptions(head_order="tiled")),
}


@pytest.mark.parametrize("wrong", list(WRONG))
def test_wrong_layers_leave_the_allowance_of_float32(wrong: str) -> None:
    g, options, seen = np.random.default_rng(12), CALLS[0], False
    for _ in range(8):
        sizes, arrays = call(g, "float32")
        v, e = composed(transformer_layer(options), errors_of(contract("float32")), sizes, arrays)
        assert (np.abs(by_loops(sizes, arrays, options) - v) <= e).all()
        seen |= bool((np.abs(WRONG[wrong](options, sizes, arrays) - v) > e).any())
    assert seen
