"""What a right implementation returns, and how far it may be off: a tape run for one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from attnspec.oracle.balls import BALLS, midpoints, precision
from attnspec.oracle.compiler import compiled
from attnspec.oracle.errors import errors_of
from attnspec.oracle.plan import planned
from attnspec.oracle.precision import Contract
from attnspec.oracle.tape import Tape
from attnspec.spec.definition import Definition

Array = np.ndarray[Any, Any]

SHARP = 2.0**-45
"""Below this share of the value an allowance is too close to float64's own errors: then the value
comes from balls. float64 keeps 2^-53 of a result; the tapes' longest chains lose under 2^6 of
it beside what their own allowance accounts for."""


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


def expected(
    definition: Definition,
    parameters: Mapping[str, Any],
    arrays: Mapping[str, Any],
    contract: Contract,
) -> Expected:
    """Value and allowance under a contract. An array may be a pair (values, errors) that comes
    from another tape. The value comes from balls where float64 is too coarse to judge with."""
    tape = tape_of(definition)
    key = tuple(parameters.items())
    value, allowance = planned(tape, errors_of(contract), key)(arrays)
    if contract.storage != "float64" or not _is_sharp(value, allowance):
        return Expected(value, allowance)
    exact = {k: v[0] if isinstance(v, tuple) else v for k, v in arrays.items()}
    with precision():
        high, low = midpoints(planned(tape, BALLS, key)(exact))
    return Expected(high, allowance, low)


def _is_sharp(value: Array, allowance: Array) -> bool:
    return bool(((allowance < SHARP * np.abs(value)) & (allowance > 0.0)).any())
