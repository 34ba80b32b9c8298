"""Exact entries of definitions, and what is refused on the way to one expression of several."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import sympy as sp

from attnspec.spec import rope_definition, softmax_definition
from attnspec.spec.definition import Definition, Maximum, choice, rnd
from attnspec.spec.exact_values import entry_value
from attnspec.spec.multi_head_attention import by_projections
from attnspec.spec.multi_head_attention_definition import inside, without_piecewise

I, K = sp.symbols("i k", integer=True, nonnegative=True)  # noqa: E741
N = sp.Symbol("n", integer=True, positive=True)
X = sp.IndexedBase("x", real=True)


def probe(expression: Any) -> Definition:
    return Definition("probe", expression, ((I, N),), (X,), (N,))


def test_softmax_of_logarithms() -> None:
    given = [[sp.log(1), sp.log(3)]]
    sizes = {"rows": 1, "n": 2}
    value = entry_value(softmax_definition.DEFINITION, sizes, {"x": given}, (0, 1))
    assert sp.simplify(value) == sp.Rational(3, 4)


@pytest.mark.parametrize("layout", rope_definition.LAYOUTS)
def test_a_turned_pair(layout: str) -> None:
    """One pair of two channels at position 2, and a third that doesn't turn."""
    definition = rope_definition.rope(layout, "forward")
    sizes = {"batch": 1, "heads": 1, "length": 1, "d": 3, "r": 2, "base": 7}
    arrays = {"x": [[[[1, 5, 9]]]], "positions": [[2]]}
    found = [entry_value(definition, sizes, arrays, (0, 0, 0, c)) for c in range(3)]
    assert found == [
        sp.cos(2) - 5 * sp.sin(2),
        sp.sin(2) + 5 * sp.cos(2),
        9,
    ]


def test_sums_and_maxima_over_two_indices() -> None:
    j = sp.Symbol("j", integer=True, nonnegative=True)
    both = ((K, 0, N - 1), (j, 0, 1))
    values = [Fraction(1, 3), Fraction(5, 2), Fraction(-7)]
    exact = {"x": [sp.Rational(v.numerator, v.denominator) for v in values]}
    total = entry_value(probe(sp.Sum(X[K] * j, *both)), {"n": 3}, exact, (0,))
    assert total == sp.Rational(1, 3) + sp.Rational(5, 2) - 7
    largest = entry_value(probe(Maximum(X[K] * j, *both)), {"n": 3}, exact, (0,))
    assert largest == sp.Rational(5, 2)


def test_a_branch_that_is_not_taken_is_not_read() -> None:
    shifted = choice(X[I + 1], I < N - 1, sp.Integer(-1))
    found = [entry_value(probe(shifted), {"n": 2}, {"x": [4, 6]}, (i,)) for i in range(2)]
    assert found == [6, -1]


def test_a_piecewise_of_three_branches_is_refused() -> None:
    whole = sp.Piecewise((X[I], I < 1), (X[I] + 1, I < 2))
    with pytest.raises(ValueError, match="not two branches, the last for the rest"):
        without_piecewise(whole)


def test_an_output_inside_is_an_activation_once() -> None:
    stored = rnd(X[I], "activations")
    assert inside(rnd(stored, "output")) == stored
    assert inside(rnd(X[I] + 1, "output")) == rnd(X[I] + 1, "activations")


@pytest.mark.parametrize("fault", ["column of x", "another range"])
def test_what_is_no_projection_is_refused(fault: str) -> None:
    b, w, column = sp.symbols("b w r", integer=True, nonnegative=True)
    width = sp.Symbol("width", integer=True, positive=True)
    weight = sp.IndexedBase("w_q", real=True)
    row = X[b, w, I] if fault == "column of x" else X[b, I, w]
    last = width - 1 if fault == "column of x" else width
    with pytest.raises(ValueError, match="not a row times a column"):
        by_projections(sp.Sum(row * weight[w, column], (w, 0, last)))
