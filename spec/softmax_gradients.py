"""The gradient of softmax, and what it leaves alone.

Source: our own derivation; the documents say only where it vanishes (`softmax_saturation`).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.closed_gradients import softmax
from attnspec.spec.derivatives import (
    derivative,
    entry_of,
    gradient_step,
    places,
    plain,
    ranges,
    shift,
)
from attnspec.spec.normal import normal
from attnspec.spec.softmax_definition import DEFINITION

_CLOSED = softmax()
_x, _upstream = _CLOSED.arrays
_moved = sp.Symbol("k_1", integer=True, nonnegative=True)


def _loss() -> sp.Expr:
    """The sum of upstream times softmax as it is evaluated, over all rows."""
    (row, rows), (column, size) = DEFINITION.axes
    weight = DEFINITION.expression.xreplace({DEFINITION.arrays[0]: _x})
    terms = _upstream[row, column] * weight
    return sp.Sum(terms, (column, 0, size - 1), (row, 0, rows - 1))


def _gradient() -> tuple[Step, ...]:
    says = "the derivative of sum(u p) with respect to x_j is p_j (u_j - sum of u p)"
    return (gradient_step(says, _CLOSED, _loss(), _x, _x),)


def _shift() -> tuple[Step, ...]:
    row = next(iter(places(_CLOSED).values()))
    found = derivative(plain(_loss(), _x), shift[row])
    return (
        Step(
            "the derivative of sum(u p) with respect to the shift of a row is zero",
            normal(found, ranges(_CLOSED)),
        ),
        *_gradient(),
    )


def _own_adjoint() -> tuple[Step, ...]:
    row, column = places(_CLOSED).values()
    size = ranges(_CLOSED)[column]
    axes = [axis for axis, _ in DEFINITION.axes]
    weight = DEFINITION.expression.xreplace({DEFINITION.arrays[0]: _x})
    here = plain(weight, _x).xreplace(dict(zip(axes, (row, column), strict=True)))
    slope = derivative(here, _x[row, _moved])
    along = sp.Sum(slope * _upstream[row, _moved], (_moved, 0, size - 1))
    says = "the derivative of p_j along a direction is the gradient for an upstream of that"
    return (Step(says, normal(along - entry_of(_CLOSED, _x), ranges(_CLOSED))),)


def _rows() -> tuple[Step, ...]:
    row, column = places(_CLOSED).values()
    size = ranges(_CLOSED)[column]
    total = sp.Sum(entry_of(_CLOSED, _x), (column, 0, size - 1))
    return (
        *_gradient(),
        Step("its entries sum to zero in each row", normal(total, {row: ranges(_CLOSED)[row]})),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="softmax.gradient",
        number="",
        statement="The gradient of softmax: the weight times how far upstream exceeds its own "
        "weighted mean.",
        latex=r"\partial_{x_j}\sum_k u_kp_k=p_j\bigl(u_j-\sum_kp_ku_k\bigr)",
        source=Source(
            "000", "2 Formulations", "Calls the derivative of softmax nearly zero, unwritten."
        ),
        verdict="holds",
        form="symbolic",
        derivation=_gradient,
    ),
    Claim(
        id="softmax.gradient_of_shift_vanishes",
        number="",
        statement="The gradient of what is subtracted from a row is zero: the row maximum may be "
        "taken for data.",
        latex=r"\partial_M\sum_ku_k\,e^{x_k-M}\big/\sum_le^{x_l-M}=0",
        source=Source(
            "004", "3.1 Why Divide", "Speaks of a stability fix without naming the one that is."
        ),
        verdict="holds",
        form="symbolic",
        derivation=_shift,
    ),
    Claim(
        id="softmax.gradient_rows_vanish",
        number="",
        statement="The gradient of softmax sums to zero in each row.",
        latex=r"\sum_jp_j\bigl(u_j-\sum_kp_ku_k\bigr)=0",
        source=Source(
            "000", "2 Formulations", "Calls the derivative of softmax nearly zero, unwritten."
        ),
        verdict="holds",
        form="symbolic",
        derivation=_rows,
    ),
    Claim(
        id="softmax.derivative_is_its_own_adjoint",
        number="",
        statement="The derivative of softmax along a direction is its gradient for an upstream of "
        "that direction: the matrix of slopes is symmetric.",
        latex=r"J=\operatorname{diag}(p)-pp^\top=J^\top",
        source=Source(
            "000", "2 Formulations", "Calls the derivative of softmax nearly zero, unwritten."
        ),
        verdict="holds",
        form="symbolic",
        derivation=_own_adjoint,
    ),
)
