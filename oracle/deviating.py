"""The element of the algebra with variances, and what its rules share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnspec.oracle.algebra import Array, Closure
from attnspec.oracle.errors import Erring
from attnspec.oracle.precision import DEVIATIONS, Format
from attnspec.oracle.tape import Op


class Deviating(NamedTuple):
    """An element of the algebra."""

    v: Array
    e: Any
    w: Any
    c: Any

    @property
    def pair(self) -> Erring:
        return self.v, self.e

    @property
    def deviation(self) -> Any:
        """Standard deviation of everything together."""
        return np.sqrt(self.w) + self.c


def variance_of_rounding(u: float, fmt: Format) -> Closure:
    """Variance of a rounding of a value of size |v| that is off by `deviation`: uniform within
    u times its size, and no more than the size itself where it underflows."""

    def function(v: Array, deviation: Any) -> Any:
        size = np.abs(v) + DEVIATIONS * deviation
        return (u * size) ** 2 / 3.0 + np.minimum(size, fmt.underflow) ** 2

    return function


def full(x: Any, like: Array) -> Array:
    """x at every element of `like`."""
    return np.broadcast_to(x, like.shape)


def total_over(x: Any, like: Array, op: Op) -> Any:
    """x added up over the axes that an operation sums, an entry for every element."""
    result: Any = np.sum(full(x, like), axis=op.extra, keepdims=True)
    return result
