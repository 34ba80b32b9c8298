"""Counts of windows, costs and caches against counting: pairs, reach, operations, elements."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from attnspec.oracle.compiler import compiled
from attnspec.oracle.expected import value_of
from attnspec.oracle.plan import planned
from attnspec.oracle.rationals import RATIONALS
from attnspec.spec import (
    attention_cost_definition,
    attention_definition,
    gqa_definition,
    window_definition,
)
from attnspec.spec.definition import Definition

FARTHER = 2**40
"""More keys to one side than there are."""


def counted(definition: Definition, **parameters: int) -> Any:
    """The definition's value, in exact arithmetic and in float64."""
    ordered = {str(p): parameters[str(p)] for p in definition.parameters}
    exact = planned(compiled(definition), RATIONALS, tuple(ordered.items()))({})
    assert np.array_equal(value_of(definition, ordered, {}), exact.astype(float))
    return exact if exact.ndim else exact.item()


def pairs(t: int, s: int, offset: int, left: int, right: int) -> int:
    """The visible pairs, by looking at each."""
    found = 0
    for i in range(t):
        for j in range(s):
            ahead = j - (i + offset)
            found += ahead <= right and -ahead <= left
    return found


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (3, 3), (2, 7), (7, 2), (5, 6)], ids=str)
@pytest.mark.parametrize("alignment", ["bottom-right", "top-left"])
def test_visible_pairs_are_counted(shape: tuple[int, int], alignment: str) -> None:
    t, s = shape
    offset = s - t if alignment == "bottom-right" else 0
    for left, right in product((0, 1, 2, 4, FARTHER), (0, 1, 3, FARTHER)):
        found = counted(
            window_definition.VISIBLE_PAIRS, t=t, s=s, offset=offset, left=left, right=right
        )
        assert found == pairs(t, s, offset, left, right)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10])
def test_the_closed_form_counts_the_same(n: int) -> None:
    for left, right in product((0, 1, 2, 6, 9, 10, FARTHER), repeat=2):
        found = counted(window_definition.BAND_PAIRS, n=n, left=left, right=right)
        assert found == pairs(n, n, 0, left, right)


def test_the_closed_form_of_long_sequences() -> None:
    n, w = 10**6, 4096
    band = counted(window_definition.BAND_PAIRS, n=n, left=w, right=w)
    assert band == n * (2 * w + 1) - w * (w + 1)
    assert counted(window_definition.BAND_PAIRS, n=n, left=FARTHER, right=0) == 500_000_500_000
    assert counted(window_definition.BAND_PAIRS, n=n, left=FARTHER, right=FARTHER) == 10**12
    # windows that count the own key: w keys, of which w - 1 are before it
    total = counted(window_definition.BAND_PAIRS, n=n, left=w - 1, right=0)
    assert total == n * w - w * (w - 1) // 2


@pytest.mark.parametrize(("left", "right"), [(1, 1), (2, 0), (0, 0), (3, 1), (0, 2)])
def test_layers_reach_as_far_as_products_of_bands(left: int, right: int) -> None:
    n = 13
    band = np.array([[i - left <= j <= i + right for j in range(n)] for i in range(n)], np.int64)
    through = np.eye(n, dtype=np.int64)
    for layers in range(1, 6):
        through = np.minimum(through @ band, 1)
        found = counted(window_definition.REACH, n=n, layers=layers, left=left, right=right)
        assert np.array_equal(found.astype(np.int64), through)


class Counting:
    """A number that counts the products and sums that it goes into."""

    done = 0

    def __mul__(self, other: object) -> Counting:
        Counting.done += 1
        return Counting()

    def __add__(self, other: object) -> Counting:
        Counting.done += 1
        return Counting()


def matrix_product(rows: int, terms: int, columns: int) -> None:
    """A product of matrices whose sums begin with 0, so that a term is a product and a sum."""
    for _ in range(rows * columns):
        total = Counting()
        for _ in range(terms):
            total = total + Counting() * Counting()


def operations(*products: tuple[int, int, int]) -> int:
    Counting.done = 0
    for shape in products:
        matrix_product(*shape)
    return Counting.done


def test_operations_of_attention_are_counted() -> None:
    sizes = {"batch": 2, "heads": 3, "t": 4, "s": 5, "d": 2, "e": 3}
    for left, right in ((FARTHER, FARTHER), (FARTHER, 0), (1, 0)):
        limits = {"offset": 1, "left": left, "right": right}
        seen = [pairs(1, 5, i + 1, left, right) for i in range(4)]
        a_head = sum(operations((1, 2, keys), (1, keys, 3)) for keys in seen)
        found = counted(attention_cost_definition.ATTENTION_FLOPS, **sizes, **limits)
        assert found == 2 * 3 * a_head


def test_operations_of_projections_are_counted() -> None:
    sizes = {"batch": 2, "heads": 4, "groups": 2, "t": 3, "d": 2, "e": 1, "m": 5}
    found = counted(attention_cost_definition.PROJECTION_FLOPS, **sizes)
    # queries, keys, values, and heads put together
    assert found == 2 * operations((3, 5, 8), (3, 5, 4), (3, 5, 2), (3, 4, 5))


@pytest.mark.parametrize("heads_and_groups", [(32, 8), (64, 8), (6, 3), (5, 1), (4, 4)], ids=str)
def test_elements_of_variants_are_those_of_arrays(heads_and_groups: tuple[int, int]) -> None:
    heads, groups = heads_and_groups
    sizes = {"batch": 2, "heads": heads, "groups": groups, "s": 7, "d": 3, "e": 2, "c": 5, "p": 4}
    held = {"mha": heads, "gqa": groups, "mqa": 1}
    for name, keys in held.items():
        arrays = np.empty((2, keys, 7, 3)), np.empty((2, keys, 7, 2))
        assert counted(gqa_definition.variant(name), **sizes) == sum(x.size for x in arrays)
    latent = np.empty((2, 7, 5)).size + np.empty((2, 7, 4)).size
    assert counted(gqa_definition.variant("mla"), **sizes) == latent


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown variant 'mla2'; allowed: mha, gqa, mqa, mla"):
        gqa_definition.variant_elements("mla2")


@pytest.mark.parametrize("order", ["grouped", "tiled"])
def test_groups_share_query_heads_evenly(order: str) -> None:
    for heads, groups in ((32, 8), (6, 2), (5, 5), (7, 1)):
        definition = attention_definition.key_heads(order)
        found = counted(definition, heads=heads, groups=groups)
        repeated = np.repeat(np.arange(groups), heads // groups)
        wanted = repeated if order == "grouped" else np.tile(np.arange(groups), heads // groups)
        assert np.array_equal(found.astype(np.int64), wanted)
