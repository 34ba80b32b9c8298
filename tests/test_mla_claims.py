"""The claims on multi-head latent attention: counterexamples and repaired statements by counting
arrays and multiplications, by exact elimination, and by loops."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy as sp

from attnspec.spec.mla_scores import Options
from tests.mla_loops import by_loops, drawn, rotary_keys
from tests.mla_numbers import V2, fractions, rank
from tests.registered import numbers, still_open

Array = np.ndarray[Any, Any]


def of_heads(heads: int, key: int, value: int) -> int:
    """Elements of the cache of a token: keys and values of so many heads."""
    return np.zeros((heads, key), np.int8).size + np.zeros((heads, value), np.int8).size


def of_latent(latent: int, rotary: int) -> int:
    return np.zeros(latent, np.int8).size + np.zeros(rotary, np.int8).size


class Counted:
    """Products of matrices by loops, with the multiplications that they take."""

    def __init__(self) -> None:
        self.multiplications = 0

    def times(self, a: Array, b: Array) -> Array:
        out = np.zeros((a.shape[0], b.shape[1]), a.dtype)
        for i, j, k in product(*map(range, (a.shape[0], b.shape[1], a.shape[1]))):
            out[i, j] += a[i, k] * b[k, j]
            self.multiplications += 1
        return out


# -- the 93 %, and what is cached ------------------------------------------------------------------


def test_93_percent_needs_fewer_bits_and_another_model() -> None:
    """A04."""
    own = of_latent(V2["latent"], V2["rotary"])
    other, every = of_heads(8, 128, 128), of_heads(128, 128, 128)
    layers = Fraction(60, 95)
    assert numbers("mla.saving_of_equal_precision") == (
        Fraction(93, 100),
        1 - Fraction(60 * own * 16, 95 * other * 16),
    )
    bits = Fraction(6, 16)
    as_deployed = 1 - Fraction(60 * own * 6, 95 * other * 16)
    assert as_deployed == 1 - layers * Fraction(own, other) * bits
    shares = (
        (as_deployed, "0.9334"),
        (1 - layers * Fraction(own, other), "0.8224"),
        (1 - Fraction(own, every), "0.9824"),
        (1 - Fraction(own, other), "0.7188"),
    )
    for share, text in shares:
        assert abs(share - Fraction(text)) <= Fraction(1, 20000)
    # neither latents against its own heads, nor latents alone against the other model
    assert all(abs(share - Fraction(93, 100)) > Fraction(1, 50) for share, _ in shares[1:])


def test_the_rotated_key_is_cached_too() -> None:
    """C048 and A11: without it the score isn't known, with it the cache has p more."""
    made = (V2["latent"], of_latent(V2["latent"], V2["rotary"]))
    assert numbers("mla.cache_has_key_too") == numbers("mla.cache_of_latent_alone") == made
    sizes, arrays = drawn(4)
    other = dict(arrays, w_kr=-arrays["w_kr"])
    same = [x["x"] @ x["w_dkv"] for x in (arrays, other)]
    assert np.array_equal(same[0], same[1])
    first, second = (by_loops(x, sizes, Options()) for x in (arrays, other))
    assert not np.allclose(first, second)
    keys = rotary_keys(arrays, sizes, Options())
    assert keys[0, 0].size + same[0][0, 0].size == sizes["latent"] + sizes["rotary"]


def test_counts_of_all_heads() -> None:
    """C046 and C049: keys and values both count, and values may be wider."""
    assert numbers("mla.latent_below_heads") == (np.zeros((2, 4)).size, of_heads(2, 4, 4))
    assert numbers("mla.cache_against_all_heads") == (2 * np.zeros((2, 2)).size, of_heads(2, 2, 3))


@pytest.mark.parametrize("seed", range(8))
def test_the_cache_is_smaller_below_the_break_even(seed: int) -> None:
    heads, key, value, rotary = (int(x) for x in np.random.default_rng(seed).integers(1, 6, 4))
    everything = of_heads(heads, key, value)
    for latent in range(1, 2 * everything):
        smaller = of_latent(latent, rotary) < everything
        assert smaller == (latent + rotary < heads * (key + value))


def test_latents_cache_more_than_one_shared_head() -> None:
    """C056, by elements and by multiplications."""
    own = of_latent(V2["latent"], V2["rotary"])
    assert numbers("mla.costs_more_than_shared_head") == (1, Fraction(own, of_heads(1, 128, 128)))
    g = np.random.default_rng(0)
    for c, p, d, e in ((3, 2, 4, 5), (5, 2, 1, 1), (1, 2, 3, 3)):
        tokens = 3
        latent, shared = Counted(), Counted()
        for counted, key, value in ((latent, c + p, c), (shared, d, e)):
            scores = counted.times(g.integers(-3, 4, (1, key)), g.integers(-3, 4, (key, tokens)))
            counted.times(scores, g.integers(-3, 4, (tokens, value)))
        ratio = Fraction(latent.multiplications, shared.multiplications)
        assert ratio == Fraction(2 * c + p, d + e)
    assert Fraction(2 * V2["latent"] + V2["rotary"], 2 * V2["d"]) == Fraction(17, 4)


# -- what a latent keeps ---------------------------------------------------------------------------


def test_heads_of_one_latent_are_dependent() -> None:
    """C050: two heads whose keys from two tokens would have rank 2."""
    keys = [[Fraction(latent * up) for up in (1, 3)] for latent in (1, 2)]
    assert numbers("mla.heads_share_latent_space") == (2, rank(keys))
    assert rank([[Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)]]) == 2


@pytest.mark.parametrize("seed", range(6))
def test_rank_of_all_heads_is_at_most_the_latent(seed: int) -> None:
    g = np.random.default_rng(seed)
    tokens, heads, width, latent = 7, 3, 2, int(g.integers(1, 5))
    c = g.integers(-5, 6, (tokens, latent))
    stacked = c @ g.integers(-5, 6, (latent, 2 * heads * width))
    assert rank(fractions(stacked)) <= latent
    free = g.integers(-5, 6, (tokens, 2 * heads * width))
    assert rank(fractions(free)) == tokens  # which heads of their own reach


def test_something_is_lost_below_full_rank() -> None:
    """C057: no pair of a down- and an up-projection restores two independent channels."""
    steps = [Fraction(k, 4) for k in range(-6, 7)]

    def lost(a: Fraction, b: Fraction, u: Fraction, v: Fraction) -> Fraction:
        return (1 - a * u) ** 2 + (a * v) ** 2 + (b * u) ** 2 + (1 - b * v) ** 2

    least = min(lost(*point) for point in product(steps, repeat=4))
    assert numbers("mla.compression_is_lossy") == (0, least)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_up_to_the_rank(seed: int) -> None:
    """Projections of rank c, from their own columns: the latent restores all of it, exactly."""
    g = np.random.default_rng(seed)
    latent, width, columns = 2, 4, 6
    left, right = g.integers(-3, 4, (width, latent)), g.integers(-3, 4, (latent, columns))
    left[:latent], right[:, :latent] = np.eye(latent), np.eye(latent)
    whole = left @ right
    assert rank(fractions(whole)) == latent
    # down: the first columns of the whole; up: its first rows
    x = g.integers(-9, 10, (5, width))
    assert np.array_equal((x @ whole[:, :latent]) @ whole[:latent], x @ whole)
    more = whole.copy()
    more[-1, -1] += 1
    assert rank(fractions(more)) == latent + 1


# -- the order of products -------------------------------------------------------------------------


def test_a_row_does_not_follow_the_merged_matrix() -> None:
    """C053: numpy refuses the product as printed, and takes the transposed row."""
    query, merged, latent = np.ones((1, 2)), np.eye(2), np.array([[1.0, 2.0]])
    with pytest.raises(ValueError, match="mismatch"):
        query @ merged @ latent
    assert (query @ merged @ latent.T).shape == (1, 1)
    assert numbers("mla.score_in_latents") == (merged.shape[1], latent.shape[0])


def test_scores_of_ones() -> None:
    """C051 and C124: four ones in all, without and with the root."""
    assert numbers("mla.score_of_projections") == (sum([1] * 4), Fraction(4, 2))
    assert numbers("mla.score_adds_streams") == (sum([1] * 2) + sum([1] * 2), Fraction(4, 2))


def test_a_merged_matrix_multiplies_more_often() -> None:
    """C055: counted at small sizes, and for DeepSeek-V2 by the same product of sizes."""
    g = np.random.default_rng(1)

    def counts(r: int, d: int, c: int) -> tuple[int, int]:
        query, up_q, up_k = (g.integers(-3, 4, s) for s in ((1, r), (r, d), (d, c)))
        factors, merged = Counted(), Counted()
        apart = factors.times(factors.times(query, up_q), up_k)
        assert np.array_equal(apart, merged.times(query, up_q @ up_k))
        return factors.multiplications, merged.multiplications

    for r, d, c in ((3, 1, 4), (2, 3, 2), (6, 2, 3)):
        factors, merged = counts(r, d, c)
        assert (factors, merged) == (r * d + d * c, r * c)
        assert (merged > factors) == (Fraction(1, d) > Fraction(1, r) + Fraction(1, c))
    r, d, c = V2["query_latent"], V2["d"], V2["latent"]
    assert numbers("mla.absorption_saves_of_rebuilt_keys") == (r * d + d * c, r * c)


@pytest.mark.parametrize("tokens", [2, 3, 7])
def test_absorbed_order_saves_over_rebuilt_keys(tokens: int) -> None:
    g = np.random.default_rng(tokens)
    for r, d, c in ((3, 2, 5), (2, 4, 3), (1, 2, 9)):
        query, up_q, up_k = (g.integers(-3, 4, s) for s in ((1, r), (r, d), (c, d)))
        latents = g.integers(-3, 4, (tokens, c))
        absorbed, rebuilt = Counted(), Counted()
        moved = absorbed.times(absorbed.times(query, up_q), up_k.T)
        first = absorbed.times(moved, latents.T)
        second = rebuilt.times(rebuilt.times(query, up_q), rebuilt.times(latents, up_k).T)
        assert np.array_equal(first, second)
        assert absorbed.multiplications < rebuilt.multiplications


# -- derivations notice a wrong definition ---------------------------------------------------------


def test_a_wrong_absorption_opens_the_derivation(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the value up-projection in the query, absorbed and built scores are no longer equal."""
    from attnspec.spec import mla_definition, mla_orders

    right = mla_definition.latent_query

    def wrong(latent: sp.Expr) -> sp.Expr:
        made = right(latent)
        arrays = {str(a.base): a.base for a in made.atoms(sp.Indexed)}
        other = sp.IndexedBase("w_uv", shape=arrays["w_uk"].shape, real=True)
        return made.xreplace({arrays["w_uk"]: other})

    monkeypatch.setattr(mla_definition, "latent_query", wrong)
    opened = still_open("mla.absorbed_matrix")
    assert "entry by entry, on the expression that the suite evaluates" in opened
    assert mla_orders.absorbed_content() != mla_orders.absorbed_content(1)
