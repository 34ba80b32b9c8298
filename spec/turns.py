"""Cosines and sines of many positions in integer arithmetic, with a proved error.

cos((t+1) a) = 2 cos(a) cos(t a) - cos((t-1) a), and the same for sines. In units of 2^-BITS the
start is off by at most 1 and each step adds at most 4 (rounding down, and the error of cos(a)
times a value of at most 1). An error added at step r has grown to at most t - r times itself by
step t, since sin(t a) / sin(a) is at most t in size: so after t steps, at most 4 t^2 units.
"""

from __future__ import annotations

from functools import cache
from math import isqrt

import sympy as sp

from attnspec.spec.rotation import BASE

BITS = 96
UNIT = 1 << BITS


def _table(start: int, first: int, cosine: int, length: int) -> list[int]:
    before, now, table = start, first, [start]
    for _ in range(length):
        table.append(now)
        before, now = now, ((2 * cosine * now) >> BITS) - before
    return table


def turn_tables(pairs: int, length: int) -> list[tuple[list[int], list[int]]]:
    """For each pair, cos(t theta_i) and sin(t theta_i) for t = 0 to `length`, times 2^BITS, off
    by at most `error(t)`."""
    return [
        (_table(UNIT, cosine, cosine, length), _table(0, sine, cosine, length))
        for cosine, sine in _first_turns(pairs)
    ]


@cache
def _first_turns(pairs: int) -> tuple[tuple[int, int], ...]:
    """cos(theta_i) and sin(theta_i) times 2^BITS, rounded down."""
    angles = [BASE ** sp.Rational(-pair, pairs) for pair in range(pairs)]
    return tuple(
        (int(sp.floor(UNIT * sp.cos(angle))), int(sp.floor(UNIT * sp.sin(angle))))
        for angle in angles
    )


def error(t: int) -> int:
    """How far an entry of a table can be off at t, in units of 2^-BITS."""
    return 4 * t * t


def kernel(pairs: int, length: int) -> list[tuple[int, int]]:
    """B(t) = sum of cos(t theta_i) for t = 0 to `length`: a lower and an upper end, times
    2^BITS."""
    tables = turn_tables(pairs, length)
    sums = [sum(cosines[t] for cosines, _ in tables) for t in range(length + 1)]
    return [(b - pairs * error(t), b + pairs * error(t)) for t, b in enumerate(sums)]


def partial_sum_means(pairs: int, times: tuple[int, ...]) -> list[tuple[int, int]]:
    """Mean over j = 1 to `pairs` of |sum of exp(i t theta) over the first j pairs|, at each of
    the `times`: a lower and an upper end, times `pairs` 2^BITS."""
    tables = turn_tables(pairs, max(times))
    ends = []
    for t in times:
        real = imaginary = total = slack = 0
        for j, (cosines, sines) in enumerate(tables, start=1):
            real, imaginary = real + cosines[t], imaginary + sines[t]
            total += isqrt(real * real + imaginary * imaginary)
            slack += 2 * j * error(t) + 1
        ends.append((total - slack, total + slack))
    return ends
