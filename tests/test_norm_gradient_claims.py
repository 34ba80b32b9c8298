"""The closed gradients of the norms and of T5's table: that a wrong one is no derivative, and that
the adjoint tapes give the same numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

from attnspec.oracle.adjoint import gradients
from attnspec.oracle.balls import BALLS, precision
from attnspec.oracle.compiler import compiled
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import planned
from attnspec.spec import claim, norm_gradients
from attnspec.spec.claim import is_closed
from attnspec.spec.definition import Definition
from attnspec.spec.norm_closed_gradients import norm_gradients as closed_gradients
from attnspec.spec.t5_bias_definition import t5_bias
from attnspec.spec.t5_bias_gradients import table_gradient

Array = np.ndarray[Any, Any]


def broken(of: str, made: Definition) -> Definition:
    """Without what is subtracted from the gradient of a row; a mean over the rows for a sum."""
    expression = made.expression
    if of == "x":
        factor, difference = expression.as_independent(sp.Add, as_Add=False)
        kept = [term for term in difference.args if not term.could_extract_minus_sign()]
        return replace(made, expression=factor * sp.Add(*kept))
    return replace(made, expression=expression / made.parameters[0])


@pytest.mark.parametrize(
    ("conclusion", "of"),
    [
        ("rms_norm.gradient", "x"),
        ("rms_norm.gradient_of_weight", "weight"),
        ("rms_norm.gradient_orthogonal_to_x", "x"),
        ("layer_norm.gradient", "x"),
        ("layer_norm.gradient_of_affine", "bias"),
        ("layer_norm.derivative_is_its_own_adjoint", "x"),
    ],
)
def test_a_wrong_formula_leaves_a_residual(
    conclusion: str, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {
        name: (broken(of, made), given) if name.endswith(f".{of}") else (made, given)
        for name, (made, given) in closed_gradients().items()
    }
    monkeypatch.setattr(norm_gradients, "norm_gradients", lambda: wrong)
    derivation = claim(conclusion).derivation
    assert derivation is not None
    assert not all(is_closed(step) for step in derivation())


def test_rows_without_the_mean_do_not_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the mean of upstream times weight a row's gradient doesn't add up to zero."""
    rms = {name: pair for name, pair in closed_gradients().items() if name.startswith("rms")}
    swapped = {
        name: (rms[f"rms_norm.{name.split('.')[1]}.plain.x"][0], given)
        if name in ("layer_norm.inside.x", "layer_norm.outside.x")
        else (made, given)
        for name, (made, given) in closed_gradients().items()
    }
    monkeypatch.setattr(norm_gradients, "norm_gradients", lambda: swapped)
    derivation = claim("layer_norm.gradient_rows_vanish").derivation
    assert derivation is not None
    assert not any(is_closed(step) for step in derivation())


@pytest.mark.parametrize("name", closed_gradients())
def test_the_tape_is_the_closed_formula(name: str) -> None:
    closed, given = closed_gradients()[name]
    g = np.random.default_rng(41)
    drawn = {
        "x": 0.5 + g.standard_normal((3, 5)),
        "weight": g.standard_normal(5),
        "bias": g.standard_normal(5),
        "upstream": g.standard_normal((3, 5)),
    }
    drawn_sizes = {"rows": 3, "d": 5, "eps": 0.25}

    def run(tape: Any, parameters: Any, arrays: Any) -> Array:
        key = tuple((str(p), drawn_sizes[str(p)]) for p in parameters)
        read = {str(getattr(a, "label", a)): drawn[str(getattr(a, "label", a))] for a in arrays}
        found: Array = planned(tape, BALLS, key)(read)
        return found

    with precision(200):
        tape = gradients(given, (name.rpartition(".")[2],))
        by_tape = run(tape, given.parameters, (*given.arrays, "upstream"))
        by_formula = run(compiled(closed), closed.parameters, closed.arrays)
        assert by_tape.shape == by_formula.shape
        for one, other in zip(by_tape.ravel(), by_formula.ravel(), strict=True):
            assert one.overlaps(other)
            assert float(one.rad()) <= 2.0**-100 * (1.0 + abs(float(one.mid())))


@pytest.mark.parametrize("both", [True, False], ids=["both directions", "one direction"])
def test_the_tape_of_a_table_is_its_closed_formula(both: bool) -> None:
    g = np.random.default_rng(43)
    sizes = {"heads": 2, "t": 5, "s": 9, "num_buckets": 8, "max_distance": 6}
    upstream = g.integers(-8, 9, (2, 5, 9)) * 1.0
    made, closed = t5_bias(bidirectional=both), table_gradient(bidirectional=both)
    arrays = {"table": g.standard_normal((8, 2)), "upstream": upstream}
    key = tuple((str(p), sizes[str(p)]) for p in made.parameters)
    by_tape = planned(gradients(made, ("table",)), FLOAT64, key)(arrays)
    by_formula = planned(compiled(closed), FLOAT64, key)({"upstream": upstream})
    assert np.array_equal(by_tape, by_formula)
    assert np.count_nonzero(by_tape) > 0
