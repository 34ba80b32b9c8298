"""T5's buckets as integers: which of a few numbers stands for a displacement.

Sources: document 004 (3.4, T5); Raffel et al., *Exploring the limits of transfer learning with a
unified text-to-text transformer*, whose code takes the displacement of a key from its query.

The first half of a side's buckets stand for one distance each. The others widen geometrically: a
distance a lies m + t buckets up if t is the greatest whole number up to
K log(a/m) / log(max_distance/m), where m is the number of single distances and K that of the
others. As no logarithm is exact, the thresholds are counted instead: t of them are met, and
a meets threshold t if and only if a^K >= max_distance^t m^(K-t).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition, choice, one_if

_a, _u = sp.symbols("a u", integer=True, nonnegative=True)
_count = sp.Symbol("count", integer=True, positive=True)
num_buckets, max_distance = sp.symbols("num_buckets max_distance", integer=True, positive=True)
_relative = sp.IndexedBase(sp.Symbol("relative_position", integer=True), shape=(_count,))

FINENESS = sp.Integer(2) ** 17
"""A logarithm in single precision tells a distance to one part in so many: the quotient of two
distances is off by u = 2^-24 of itself, and its logarithm L, with the factor and the division, by
7 u L. Together u (1 + 7 L), below 2^-17 for quotients up to exp(18)."""


@dataclass(frozen=True)
class Side:
    """The buckets of one direction."""

    buckets: sp.Expr
    """How many there are."""

    @property
    def single(self) -> sp.Expr:
        """How many of them stand for one distance, from 0 on."""
        return sp.floor(self.buckets / 2)

    @property
    def wide(self) -> sp.Expr:
        """How many are left for all others."""
        return self.buckets - self.single

    def threshold(self, t: sp.Expr) -> sp.Expr:
        """What the `wide`-th power of a distance must reach to be t buckets above `single`."""
        return max_distance**t * self.single ** (self.wide - t)

    def bucket(self, distance: sp.Expr, nudge: int = 0) -> sp.Expr:
        """The bucket of a distance >= 0; from `single` on, of the distance times
        1 + nudge / FINENESS."""
        power, threshold = distance**self.wide, self.threshold(_u + 1)
        if nudge:
            power *= (FINENESS + nudge) ** self.wide
            threshold *= FINENESS**self.wide
        reached = one_if(power >= threshold)
        above = self.single + sp.Sum(reached, (_u, 0, self.wide - 2))
        return choice(distance, distance < self.single, above)


def bucket(displacement: sp.Expr, *, bidirectional: bool, nudge: int = 0) -> sp.Expr:
    """The bucket of a key's position minus its query's: of both directions, where later keys have
    the second half of the buckets; or of earlier keys alone, where all later ones share bucket 0.
    """
    if not bidirectional:
        return Side(num_buckets).bucket(sp.Max(-displacement, 0), nudge)
    side = Side(sp.floor(num_buckets / 2))
    later = choice(side.buckets, displacement > 0, sp.Integer(0))
    return side.bucket(sp.Abs(displacement), nudge) + later


def directions(*, bidirectional: bool) -> str:
    """Which keys have buckets of their own, in words."""
    return "both directions" if bidirectional else "earlier keys only"


def _of_array(name: str, *, bidirectional: bool, nudge: int = 0) -> Definition:
    return Definition(
        name,
        bucket(_relative[_a], bidirectional=bidirectional, nudge=nudge),
        ((_a, _count),),
        (_relative,),
        (_count, num_buckets, max_distance),
        directions(bidirectional=bidirectional),
    )


def t5_bucket(*, bidirectional: bool) -> Definition:
    """relative_position[a] -> bucket[a], for at least one bucket a side.

    With a max_distance up to `single`, for which there is no logarithm, every distance from
    `single` on is in the last bucket, as every distance from max_distance on always is.
    """
    return _of_array("t5_bucket", bidirectional=bidirectional)


def t5_bucket_by_logarithm(*, bidirectional: bool) -> tuple[Definition, Definition]:
    """relative_position[a] -> the least and the greatest bucket that the usual recipe may give,
    whose logarithm runs in single precision.

    They differ next to a threshold only. There it can be one off: too low where a distance meets
    the threshold exactly, such as 21 with 12 buckets for both directions and max_distance 1029;
    too high just below one, such as 762 with 32 and 1461. At the defaults it is right everywhere.
    In double precision it still misses thresholds that are met exactly: 10 with 10 buckets for one
    direction and max_distance 160.
    """
    least, most = (
        _of_array(f"t5_bucket.{name}", bidirectional=bidirectional, nudge=nudge)
        for name, nudge in (("least", -1), ("most", 1))
    )
    return least, most


@cache
def definitions() -> tuple[Definition, ...]:
    """The exact buckets, of both directions and of one."""
    return tuple(t5_bucket(bidirectional=both) for both in (True, False))
