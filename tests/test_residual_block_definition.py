"""The definition of residual blocks: against loops, at both placements and with every norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnspec.oracle.errors import errors_of
from attnspec.oracle.expected import tape_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import planned
from attnspec.oracle.precision import EVALUATION, contract
from attnspec.oracle.rationals import RATIONALS
from attnspec.spec.residual_block_definition import NORMS, PLACEMENTS, block, residual_block
from tests.norm_cases import FAMILIES, rows
from tests.norm_tapes import arrays, parameters, worst_emulated

Array = np.ndarray[Any, Any]
EPS = 1e-5


def layers(g: np.random.Generator, size: int) -> dict[str, Array]:
    """Powers of two with signs, some channels dropped, and permutations."""
    found = {}
    for name in ("sublayer", "norm"):
        signs = g.choice([-1.0, 0.0, 1.0], size)
        found[f"{name}_factor"] = signs * 2.0 ** g.integers(-3, 4, size)
        found[f"{name}_order"] = g.permutation(size)
    return found


def normed(row: list[float], norm: str, given: dict[str, Array]) -> list[float]:
    """One row through a norm, entry by entry."""
    if norm == "moved":
        return [
            float(given["norm_factor"][c]) * row[int(given["norm_order"][c])]
            for c in range(len(row))
        ]
    middle = sum(row) / len(row) if norm == "layer_norm" else 0.0
    square = sum((entry - middle) ** 2 for entry in row) / len(row)
    return [(entry - middle) / (square + EPS) ** 0.5 for entry in row]


def by_loops(x: Array, placement: str, norm: str, given: dict[str, Array]) -> Array:
    factor, order = given["sublayer_factor"], given["sublayer_order"]

    def sublayer(row: list[float]) -> list[float]:
        return [float(factor[c]) * row[int(order[c])] for c in range(len(row))]

    out = []
    for row in x.tolist():
        if placement == "pre":
            branch = sublayer(normed(row, norm, given))
            out.append([a + b for a, b in zip(row, branch, strict=True)])
        else:
            total = [a + b for a, b in zip(row, sublayer(row), strict=True)]
            out.append(normed(total, norm, given))
    return np.array(out)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("norm", NORMS)
def test_every_block_is_what_loops_give(placement: str, norm: str) -> None:
    g, definition = np.random.default_rng(3), residual_block(placement, norm)
    tape = tape_of(definition)
    for turn in range(3 * len(FAMILIES)):
        x = rows(g, list(FAMILIES)[turn % len(FAMILIES)], "float64")
        given = {"x": x} | layers(g, x.shape[1])
        key = tuple(parameters(definition, x, EPS).items())
        read = arrays(definition, given)
        value = planned(tape, FLOAT64, key)(read)
        wanted = by_loops(x, placement, norm, given)
        _, own = planned(tape, errors_of(contract("float64")), key)(read)
        known = np.isfinite(own)
        assert (np.abs(value - wanted)[known] <= 2.0 * own[known]).all()
        assert known.mean() > 0.5 or not x.any()


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_exact_layers_are_exact(placement: str) -> None:
    """Small integers, powers of two and permutations lose nothing: rationals agree to the bit."""
    g, definition = np.random.default_rng(4), residual_block(placement, "moved")
    for _ in range(20):
        x = g.integers(-8, 9, (int(g.integers(1, 5)), int(g.choice([1, 3, 8])))).astype(float)
        given = {"x": x} | layers(g, x.shape[1])
        key = tuple(parameters(definition, x, EPS).items())
        read = arrays(definition, given)
        exact = planned(tape_of(definition), RATIONALS, key)(read)
        assert (exact.astype(float) == by_loops(x, placement, "moved", given)).all()


def test_a_sublayer_of_zero_leaves_the_stream_alone_in_pre_norm_only() -> None:
    x = np.array([[3.0, 1.0, -2.0]])
    nothing = {"sublayer_factor": np.zeros(3), "sublayer_order": np.arange(3)}
    for placement in PLACEMENTS:
        definition = residual_block(placement, "layer_norm")
        key = tuple(parameters(definition, x, EPS).items())
        value = planned(tape_of(definition), FLOAT64, key)({"x": x} | nothing)
        assert np.array_equal(value, x) == (placement == "pre")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("norm", NORMS)
def test_no_emulated_rounding_leaves_the_allowance(placement: str, norm: str, dtype: str) -> None:
    g, definition, worst = np.random.default_rng(9), residual_block(placement, norm), 0.0
    for turn in range(2 * len(FAMILIES)):
        x = rows(g, list(FAMILIES)[turn % len(FAMILIES)], dtype)
        given = arrays(definition, {"x": x} | layers(g, x.shape[1]))
        rules = contract(dtype, (None, "strict")[turn % 2])
        worst = max(
            worst, worst_emulated(definition, parameters(definition, x, EPS), given, rules, g)
        )
    assert worst > 0.3


def test_a_placement_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown placement 'sandwich'; allowed: pre, post"):
        block("sandwich", lambda c: c, lambda row: row, lambda row: row)


def test_the_norm_of_another_operand_is_told_apart() -> None:
    """norm(x) + f(norm(x)) and x + norm(f(x)), the two usual wrong wirings."""
    g, definition = np.random.default_rng(8), residual_block("pre", "rms_norm")
    x = g.standard_normal((3, 5))
    given = {"x": x} | layers(g, 5) | {"sublayer_factor": np.array([2.0, -1.0, 0.5, 4.0, 1.0])}
    key = tuple(parameters(definition, x, EPS).items())
    read = arrays(definition, given)
    v, e = planned(tape_of(definition), errors_of(contract("bfloat16")), key)(read)
    factor, order = given["sublayer_factor"], given["sublayer_order"]
    hat = np.array([normed(row, "rms_norm", given) for row in x.tolist()])
    of_sublayer = (x[:, order] * factor).tolist()
    wrong = (
        hat + hat[:, order] * factor,
        x + np.array([normed(row, "rms_norm", given) for row in of_sublayer]),
    )
    assert (np.abs(x + hat[:, order] * factor - v) <= e * (1 + EVALUATION)).all()
    for value in wrong:
        assert (np.abs(value - v) > e).any()
