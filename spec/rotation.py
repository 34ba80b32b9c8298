"""Rotation of channel pairs, in the forms that the claims on RoPE reason with."""

from __future__ import annotations

import sympy as sp

from attnspec.spec.symbols import d, i, theta

BASE = sp.Integer(10000)


def block(angle: sp.Expr) -> sp.ImmutableMatrix:
    """The 2 x 2 rotation by an angle, for column vectors."""
    return sp.ImmutableMatrix([[sp.cos(angle), -sp.sin(angle)], [sp.sin(angle), sp.cos(angle)]])


def frequency(pair: sp.Expr, dimension: sp.Expr) -> sp.Expr:
    """Angle per position of a pair counted from 0, base^(-2 pair / dimension)."""
    return BASE ** (-2 * pair / dimension)


def exponent(of_base: sp.Expr) -> sp.Expr:
    """The exponent of a power of the base."""
    return sp.simplify(sp.expand_log(sp.log(of_base), force=True) / sp.log(BASE))


def turned(x: sp.IndexedBase, position: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Pair i of the vector x, channels 2i and 2i+1, turned by position * theta_i."""
    cosine, sine = sp.cos(position * theta[i]), sp.sin(position * theta[i])
    first, second = x[2 * i], x[2 * i + 1]
    return first * cosine - second * sine, first * sine + second * cosine


def score(query: sp.IndexedBase, key: sp.IndexedBase, at_query: sp.Expr, at_key: sp.Expr) -> sp.Sum:
    """Dot product of a query and a key that were turned to their positions: a sum over all d/2
    pairs."""
    query_pair, key_pair = turned(query, at_query), turned(key, at_key)
    return sp.Sum(query_pair[0] * key_pair[0] + query_pair[1] * key_pair[1], (i, 0, d / 2 - 1))


def displaced(query: sp.IndexedBase, key: sp.IndexedBase, displacement: sp.Expr) -> sp.Sum:
    """q^T R_t k for the displacement t, where only the key is turned."""
    turned_key = turned(key, displacement)
    return sp.Sum(
        query[2 * i] * turned_key[0] + query[2 * i + 1] * turned_key[1], (i, 0, d / 2 - 1)
    )


def plane_kernel(pairs: int, distance: int) -> sp.Expr:
    """B(t) of that many pairs: the sum of the cosines of all angles. It is the product of two
    sinusoidal encodings that are so far apart, too."""
    size = sp.Integer(2 * pairs)
    return sp.Add(*(sp.cos(distance * frequency(sp.Integer(p), size)) for p in range(pairs)))


def plane_score(
    query: tuple[int, int], key: tuple[int, int], displacement: sp.Expr, angle: sp.Expr = sp.S.One
) -> sp.Expr:
    """q^T R(t * angle) k for one pair with given entries."""
    turned_key = block(displacement * angle) * sp.ImmutableMatrix(key)
    return (sp.ImmutableMatrix([query]) * turned_key)[0]
