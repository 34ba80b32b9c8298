"""Marks upon marks: what stands in a format already is not rounded to it again."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

from attnspec.oracle.compiler import compiled
from attnspec.oracle.deviations import deviations_of
from attnspec.oracle.errors import errors_of
from attnspec.oracle.plan import Plan
from attnspec.oracle.precision import contract
from attnspec.spec.definition import Definition, rnd

I = sp.Symbol("i", integer=True, nonnegative=True)  # noqa: E741
N = sp.Symbol("n", integer=True, positive=True)
X = sp.IndexedBase("x", real=True)
CASES = [
    (("tables", "output"), {}, 1),
    (("scores", "activations"), {}, 1),
    (("normalised", "output"), {}, 1),
    (("tables", "output"), {"tables": "float32"}, 1),
    (("scores", "activations"), {"scores": "float16"}, 2),
    # a division may stand between these two
    (("activations", "output"), {}, 2),
]


@pytest.mark.parametrize(("marks", "declared", "roundings"), CASES, ids=str)
def test_a_value_is_not_rounded_twice_to_one_format(
    marks: tuple[str, str], declared: dict[str, str], roundings: int
) -> None:
    rules = contract("bfloat16", declared)
    twice = Definition("twice", rnd(rnd(X[I] * X[I], marks[0]), marks[1]), ((I, N),), (X,), (N,))
    tape, sizes, values = compiled(twice), {"n": 1}, {"x": np.full(1, 3.0)}
    _, error = Plan(tape, errors_of(rules), sizes)(values)
    _, _, deviation = Plan(tape, deviations_of(rules), sizes)(values)
    formats = [rules.format(mark) for mark in marks]
    units = [fmt.roundoff for fmt in formats if fmt.name != "float32"][:roundings]
    assert error.item() == pytest.approx(9.0 * (np.prod([1.0 + u for u in units]) - 1.0), rel=1e-4)
    # a deviation is that of a value which is itself uncertain
    assert deviation.item() == pytest.approx(9.0 * np.sqrt(np.sum(np.square(units)) / 3), rel=0.05)
