"""Claims about the selection of keys, against a search through all sets."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement
from math import exp, isclose, log

import pytest
import sympy as sp

from attnspec.spec import select_top_k
from attnspec.spec.select_top_k import at_every_key
from attnspec.spec.select_top_k_definition import may_be_selected, must_be_selected
from tests.registered import shown, still_open


def test_chosen_key_need_not_weigh_most() -> None:
    """C144: scores (2, 1) choose the first key, of which logits (0, log 3) weigh 1/4."""
    example = shown("select_top_k.largest_sum_of_scores")
    weights = [exp(z) / (1.0 + exp(log(3.0))) for z in (0.0, log(3.0))]
    chosen = max(range(2), key=lambda j: (2, 1)[j])
    assert isclose(weights[chosen], float(example.actual))
    assert isclose(max(weights), float(example.stated))


def test_sets_between_must_and_may_are_those_of_the_largest_sum() -> None:
    """C144 and `select_top_k.definition`: every 4 scores out of 3, every k."""
    for scores in combinations_with_replacement((2, 1, 0), 4):
        row = tuple(map(sp.Integer, scores))
        for k in (1, 2, 3, 4):
            may, must = (
                {j for j, one in enumerate(at_every_key(make, row, k)) if one == 1}
                for make in (may_be_selected, must_be_selected)
            )
            best = max(sum(scores[j] for j in chosen) for chosen in combinations(range(4), k))
            for chosen in combinations(range(4), k):
                between = must <= set(chosen) <= may
                assert between == (sum(scores[j] for j in chosen) == best)


def test_derivation_depends_on_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """With keys of equal score counted as higher, it stays open."""
    monkeypatch.setattr(select_top_k, "may_be_selected", must_be_selected)
    assert still_open("select_top_k.definition")
