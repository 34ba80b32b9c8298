"""The claims on shared key heads: counterexamples and repaired statements by counting arrays."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy as sp

from attnspec.spec import gqa_cache, gqa_definition
from tests.registered import numbers, still_open

Array = np.ndarray[Any, Any]


def elements(key_heads: int, tokens: int = 3, width: int = 4) -> int:
    """Elements of keys and values, of arrays that hold them."""
    keys, values = (np.zeros((key_heads, tokens, width), np.int8) for _ in "kv")
    return keys.size + values.size


def test_cache_ratios_of_32_heads_in_8_groups() -> None:
    """C042: with h = 64 both numbers would be 8, and the swap would not show."""
    many, grouped, one = (elements(heads) for heads in (32, 8, 1))
    assert numbers("gqa.cache_ratios") == (8, Fraction(many, grouped))
    assert [Fraction(many, grouped), Fraction(grouped, one)] == [4, 8]
    hidden = elements(64)
    assert Fraction(hidden, grouped) == Fraction(grouped, one) == 8


@pytest.mark.parametrize("seed", range(12))
def test_cache_ratios_of_any_sizes(seed: int) -> None:
    draw = np.random.default_rng(seed)
    groups, members, tokens, width = (int(x) for x in draw.integers(1, 9, 4))
    heads = groups * members
    many, grouped, one = (elements(x, tokens, width) for x in (heads, groups, 1))
    assert Fraction(many, grouped) == Fraction(heads, groups)
    assert Fraction(grouped, one) == groups
    assert Fraction(many, one) == heads
    as_stated = Fraction(many, grouped) == groups
    assert as_stated == (heads == groups**2)


def test_heads_of_llama_2_7b_share_no_keys() -> None:
    """C043: 32 query heads over 32 key heads, repeated as often as each is read."""
    read = np.repeat(np.arange(32), 32 // 32)
    most = int(np.bincount(read).max())
    assert numbers("gqa.used_by_models") == (2, most)
    assert most == 1
    assert int(np.bincount(np.repeat(np.arange(8), 64 // 8)).max()) == 8


def test_three_groups_of_eight_heads_are_uneven() -> None:
    """C040: head h reads key head floor(3 h / 8)."""
    read = [3 * head // 8 for head in range(8)]
    assert numbers("gqa.heads_per_group") == (Fraction(8, 3), read.count(0))
    assert sorted(read.count(group) for group in range(3)) == [2, 3, 3]


def test_latent_of_deepseek_v2_is_wider_than_one_group() -> None:
    """C183: elements a token."""
    latent = np.zeros(512).size + np.zeros(64).size
    assert numbers("gqa.cache_hierarchy") == (elements(1, 1, 128) - 1, latent)
    sizes = [elements(heads, 1, 128) for heads in (128, 8, 1)]
    assert [*sizes, latent] == [32768, 2048, 256, 576]


def attended(q: Array, k: Array, v: Array) -> Array:
    """One head: q [t, d], k [s, d], v [s, e]."""
    weights = np.exp(q @ k.T / np.sqrt(q.shape[1]))
    averages: Array = weights @ v / weights.sum(-1, keepdims=True)
    return averages


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_stacked_scores_have_the_rank_of_the_groups(groups: int) -> None:
    """C039: integer queries and centered integer keys of one channel, in exact arithmetic."""
    draw = np.random.default_rng(groups)
    heads, tokens = 6, 9
    queries = draw.integers(1, 9, (heads, tokens))
    keys = draw.integers(-9, 9, (heads, tokens))
    shared = [keys[head * groups // heads] for head in range(heads)]
    stacked = np.concatenate([np.outer(q, k) for q, k in zip(queries, shared, strict=True)])
    assert sp.Matrix(stacked.tolist()).rank() == groups


def test_shared_heads_are_heads_of_their_own_keys() -> None:
    """C037 and C041: bit for bit, as it is the same computation."""
    draw = np.random.default_rng(0)
    q = draw.standard_normal((6, 4, 2))
    for groups in (1, 2, 3, 6):
        k, v = draw.standard_normal((2, groups, 5, 2))
        copied_k, copied_v = (np.repeat(x, 6 // groups, axis=0) for x in (k, v))
        for head in range(6):
            own = attended(q[head], copied_k[head], copied_v[head])
            shared = attended(q[head], k[head * groups // 6], v[head * groups // 6])
            assert np.array_equal(own, shared)


def test_a_key_per_query_head_in_every_variant_opens_the_ratios(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unshared(variant: str) -> sp.Expr:
        return gqa_definition.variant_elements("mha" if variant == "gqa" else variant)

    monkeypatch.setattr(gqa_cache, "variant_elements", unshared)
    for conclusion in ("cache_ratios", "cache_of_one_group", "cache_hierarchy"):
        assert still_open(f"gqa.{conclusion}"), conclusion
