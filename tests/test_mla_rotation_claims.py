"""Statements on the rotation of latent keys, evaluated without their derivations."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy as sp
from mpmath import iv

from attnspec.spec.mla_definition import CALLS
from attnspec.spec.mla_scores import Options
from tests.mla_numbers import V2, fractions, rank
from tests.registered import numbers, shown
from tests.turning import turned

Array = np.ndarray[Any, Any]


def holds(interval: Any, number: sp.Expr) -> bool:
    """Whether an interval of 60 digits holds a number of which sympy gives 40."""
    near = iv.mpf(str(sp.N(number, 40)))
    return bool(abs(interval - near) < iv.mpf(10) ** -38)


@pytest.fixture
def _digits() -> Any:
    kept, iv.dps = iv.dps, 60
    yield
    iv.dps = kept


@pytest.mark.usefixtures("_digits")
def test_a_key_is_rotated_by_its_own_position() -> None:
    """C121: at position 2 by 2, wherever the query is."""
    example = shown("mla.key_turns_once")
    assert holds(iv.cos(iv.mpf(1)), example.stated)
    assert holds(iv.cos(iv.mpf(2)), example.actual)
    assert not holds(iv.cos(iv.mpf(1)), example.actual)


@pytest.mark.usefixtures("_digits")
@pytest.mark.parametrize("options", CALLS[::2], ids=str)
def test_keys_rotated_once_serve_all_queries(options: Options) -> None:
    """The score of a cached rotated key depends on the displacement, for every later query: the
    intervals that hold both numbers meet, and are narrow."""
    g = np.random.default_rng(0)
    query, key = ([int(x) for x in g.integers(-3, 4, 6)] for _ in "qk")
    base = iv.mpf(10000)

    def score(at_query: int, rotated: list[Any]) -> Any:
        asks = turned(query, at_query, base, options, iv)
        return sum((a * b for a, b in zip(asks, rotated, strict=True)), iv.mpf(0))

    for n in (1, 2, 9):
        cached = turned(key, n, base, options, iv)
        for m in (n, n + 1, n + 30):
            gap = score(m, cached) - score(0, turned(key, n - m, base, options, iv))
            assert 0 in gap
            assert gap.delta < iv.mpf(10) ** -50
    assert 0 not in score(2, cached) - score(1, cached)


@pytest.mark.usefixtures("_digits")
def test_a_matrix_merged_at_one_displacement_is_wrong_at_another() -> None:
    """C180: with unit up-projections A(0) = I scores 1, and the rotated pair cos 1."""
    example = shown("mla.rope_in_the_way")
    assert example.stated == 1
    assert holds(iv.cos(iv.mpf(1)), example.actual)


@pytest.mark.parametrize("seed", range(4))
def test_no_one_matrix_serves_two_displacements(seed: int) -> None:
    """A(t) of full-rank up-projections, in whole quarter turns so that it is exact; shared heads
    rotate as they are."""
    g = np.random.default_rng(seed)
    r, c, d = 4, 5, 2
    while True:
        up_q, up_k = g.integers(-3, 4, (r, d)), g.integers(-3, 4, (c, d))
        if rank(fractions(up_q)) == rank(fractions(up_k)) == d:
            break
    quarter = np.array([[0, -1], [1, 0]])
    matrices = [up_q @ np.linalg.matrix_power(quarter, t) @ up_k.T for t in range(4)]
    for s, t in product(range(4), repeat=2):
        assert np.array_equal(matrices[s], matrices[t]) == (s == t)
    keys = g.integers(-3, 4, (2, d))
    repeated = np.repeat(keys, 3, axis=0)
    assert np.array_equal(repeated @ quarter.T, np.repeat(keys @ quarter.T, 3, axis=0))


def test_query_latents_are_wider() -> None:
    """A21: the widths of both down-projections of DeepSeek-V2."""
    assert numbers("mla.content_and_position") == (V2["latent"], V2["query_latent"])
