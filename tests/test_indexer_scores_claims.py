"""Claims about the indexer's scores, against plain numbers."""

from __future__ import annotations

import numpy as np

from tests.registered import shown


def relu(x: int) -> int:
    return max(0, x)


def top(scores: list[int], k: int) -> set[frozenset[int]]:
    """All sets of k keys of which none left out scores higher."""
    from itertools import combinations

    return {
        frozenset(chosen)
        for chosen in combinations(range(len(scores)), k)
        if min(scores[j] for j in chosen)
        >= max((scores[j] for j in range(len(scores)) if j not in chosen), default=-99)
    }


def test_two_heads_are_no_single_query() -> None:
    """C145: heads of q = 1 and q = -1 see both k = 1 and k = -1; their sum sees neither."""
    example = shown("indexer_scores.weighted_sum_over_heads")
    assert relu(1 * 1) + relu(-1 * 1) == int(example.actual) == 1
    assert relu((1 - 1) * 1) == int(example.stated) == 0
    for q in range(-50, 51):
        assert (relu(q), relu(-q)) != (1, 1)


def test_keys_of_negative_products_are_chosen() -> None:
    """C148: every choice of 3 among max(3, -1, -2, -5; 0) has two keys of negative products."""
    example = shown("indexer_scores.same_selection_of_k_positive")
    products = [3, -1, -2, -5]
    chosen = top([relu(x) for x in products], 3)
    assert {sum(products[j] < 0 for j in one) for one in chosen} == {int(example.actual)} == {2}
    assert int(example.stated) == 0
    assert any(3 in one for one in chosen)
    assert not any(3 in one for one in top(products, 3))
    assert top([-relu(3), -relu(-1)], 1) == {frozenset({1})}


def test_with_k_positive_scores_the_relu_changes_nothing() -> None:
    """C148, on random integers with ties; with fewer it may."""
    g = np.random.default_rng(0)
    changed = 0
    for _ in range(500):
        scores = g.integers(-4, 5, int(g.integers(1, 7))).tolist()
        k = int(g.integers(1, len(scores) + 1))
        same = top(scores, k) == top([relu(x) for x in scores], k)
        if sum(x > 0 for x in scores) >= k:
            assert same
        changed += not same
    assert changed > 50
