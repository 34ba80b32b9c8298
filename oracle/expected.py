"""What a right implementation returns, and how far it may be off: a tape run for one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from attnspec.oracle.adjoint import gradients
from attnspec.oracle.balls import BALLS, midpoints, precision
from attnspec.oracle.compiler import compiled
from attnspec.oracle.errors import errors_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import planned
from attnspec.oracle.precision import Contract
from attnspec.oracle.tape import Tape
from attnspec.spec.definition import Definition

Array = np.ndarray[Any, Any]

SHARP = 2.0**-45
"""Below this share of the value an allowance is too close to float64's own errors: then the value
comes from balls. float64 keeps 2^-53 of a result; the tapes' longest chains lose under 2^6 of
it beside what their own allowance accounts for."""

MOST_BALLS = 2**16
"""Elements of the largest operation that is done in balls."""


@dataclass(frozen=True)
class Expected:
    """The right result of one call, element by element."""

    value: Array
    allowance: Array
    residual: Array | None = None
    """What the value's float64 lacks to the exact one, where that matters."""

    def __getitem__(self, index: Any) -> Expected:
        rest = None if self.residual is None else self.residual[index]
        return Expected(self.value[index], self.allowance[index], rest)

    def reshaped(self, shape: tuple[int, ...]) -> Expected:
        """The same elements in another shape."""
        if self.value.shape == shape:
            return self
        rest = None if self.residual is None else self.residual.reshape(shape)
        return Expected(self.value.reshape(shape), self.allowance.reshape(shape), rest)

    def moved(self, source: int, destination: int) -> Expected:
        """The same elements with one axis moved."""
        if destination in (source, source % self.value.ndim):
            return self
        move = np.moveaxis
        rest = None if self.residual is None else move(self.residual, source, destination)
        return Expected(
            move(self.value, source, destination), move(self.allowance, source, destination), rest
        )


@cache
def tape_of(definition: Definition) -> Tape:
    """The tape of a definition, compiled once."""
    return compiled(definition)


@cache
def gradient_tape_of(definition: Definition, names: tuple[str, ...]) -> Tape:
    """The tape of a definition's gradients, made once."""
    return gradients(definition, names)


def expected(
    definition: Definition,
    parameters: Mapping[str, Any],
    arrays: Mapping[str, Any],
    contract: Contract,
    *,
    exact: bool = True,
) -> Expected:
    """Value and allowance under a contract. An array may be a pair (values, errors) that comes
    from another tape. The value comes from balls where float64 is too coarse to judge with, if
    it is to be `exact`."""
    (right,) = _expected(tape_of(definition), parameters, arrays, contract, exact=exact)
    return right


def expected_gradients(
    definition: Definition,
    names: tuple[str, ...],
    parameters: Mapping[str, Any],
    arrays: Mapping[str, Any],
    contract: Contract,
) -> tuple[Expected, ...]:
    """The gradients with respect to the arrays of these names; `arrays` has `upstream` too."""
    return _expected(gradient_tape_of(definition, names), parameters, arrays, contract)


def value_of(
    definition: Definition, parameters: Mapping[str, Any], arrays: Mapping[str, Any]
) -> Array:
    """The value alone, in float64."""
    plan = planned(tape_of(definition), FLOAT64, tuple(parameters.items()))
    value: Array = plan(arrays)
    return value


def _expected(
    tape: Tape,
    parameters: Mapping[str, Any],
    arrays: Mapping[str, Any],
    contract: Contract,
    *,
    exact: bool = True,
) -> tuple[Expected, ...]:
    key = tuple(parameters.items())

    def run(algebra: Any, given: Mapping[str, Any]) -> tuple[tuple[Any, ...], int]:
        plan = planned(tape, algebra, key)
        return _several(tape, plan(given)), plan.work

    return enclosed(run, arrays, contract, exact=exact)


Run = Callable[[Any, Mapping[str, Any]], tuple[tuple[Any, ...], int]]
"""Under an algebra and for arrays the results, and the elements of the largest operation."""


def enclosed(
    run: Run, arrays: Mapping[str, Any], contract: Contract, *, exact: bool = True
) -> tuple[Expected, ...]:
    """What a tape, or a row of them, gives under a contract. The values come from balls where
    float64 is too coarse to judge with, if they are to be `exact`."""
    pairs, work = run(errors_of(contract), arrays)
    sharp = contract.storage == "float64" and any(_is_sharp(v, e) for v, e in pairs)
    if not exact or not sharp:
        return tuple(Expected(v, e) for v, e in pairs)
    if work > MOST_BALLS:
        # a float64 value is itself off by no more than an implementation in float64 may be
        return tuple(Expected(v, 2.0 * e) for v, e in pairs)
    points = {k: v[0] if isinstance(v, tuple) else v for k, v in arrays.items()}
    with precision():
        balls, _ = run(BALLS, points)
        found = []
        for (value, allowance), ball in zip(pairs, balls, strict=True):
            high, low = midpoints(ball)
            # logits of which not even the balls know the exponential
            lost = ~np.isfinite(high) & np.isfinite(value)
            found.append(
                Expected(
                    np.where(lost, value, high),
                    np.where(lost, 2.0 * allowance, allowance),
                    np.where(lost, 0.0, low),
                )
            )
    return tuple(found)


def _several(tape: Tape, given: Any) -> tuple[Any, ...]:
    return (given,) if len(tape.results) == 1 else given


def _is_sharp(value: Array, allowance: Array) -> bool:
    return bool(((allowance < SHARP * np.abs(value)) & (allowance > 0.0)).any())
