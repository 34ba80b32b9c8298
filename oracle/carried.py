"""Numbers with the bound of an error, carried through the sums and products that a law forms.

Source: the machine model of `oracle/precision.py`; (a + x)(b + y) - ab = ay + bx + xy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnspec.oracle.expected import Expected
from attnspec.oracle.precision import FORMATS

Array = np.ndarray[Any, Any]

_OWN = FORMATS["float64"]


@dataclass(frozen=True, eq=False)
class Carried:
    """Right values, and how far from them the same may be that a law forms in float64 from what
    an implementation returned. Takes the operators that arrays take, so that one formula serves
    for both."""

    value: Array
    error: Array

    def __add__(self, other: Carried) -> Carried:
        return _formed(self.value + other.value, self.error + other.error)

    def __sub__(self, other: Carried) -> Carried:
        return _formed(self.value - other.value, self.error + other.error)

    def __mul__(self, other: Carried) -> Carried:
        error = np.abs(self.value) * other.error + np.abs(other.value) * self.error
        return _formed(self.value * other.value, error + self.error * other.error)

    def __getitem__(self, index: Any) -> Carried:
        return Carried(self.value[index], self.error[index])

    def sum(self, axis: int) -> Carried:
        """The sum along an axis, in any order."""
        reach = (np.abs(self.value) + self.error).sum(axis)
        room = self.error.sum(axis) + self.value.shape[axis] * _OWN.roundoff * reach
        return Carried(self.value.sum(axis), room)


def carried(right: Expected) -> Carried:
    """A right result with its allowance."""
    return Carried(right.value, right.allowance)


def _formed(value: Array, error: Array) -> Carried:
    """What one operation in float64 gives."""
    reach = np.abs(value) + error
    return Carried(value, error + _OWN.roundoff * reach + np.minimum(reach, _OWN.normal))
