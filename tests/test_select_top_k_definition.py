"""The definition of selection: the acceptable sets, against a search through all subsets."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from attnspec.oracle.balls import BALLS, midpoints, precision
from attnspec.oracle.expected import tape_of, value_of
from attnspec.oracle.plan import planned
from attnspec.spec.select_top_k_definition import (
    SELECTIONS,
    TIES,
    Selection,
    accepted,
    may_be_selected,
    must_be_selected,
    selected_count,
)

Array = np.ndarray[Any, Any]
FAR = 2**40


def run(make: Any, selection: Selection, scores: Array, k: int, offset: int, **more: Array) -> Any:
    definition = make(selection)
    batch, t, s = scores.shape
    given = {"batch": batch, "t": t, "s": s, "k": k, "offset": offset, "left": FAR, "right": 0}
    sizes = {str(p): given[str(p)] for p in definition.parameters}
    return value_of(definition, sizes, {"scores": scores, **more})


def allowed_keys(selection: Selection, row: Array, at: int) -> list[int]:
    return [j for j, z in enumerate(row) if z != -np.inf and (not selection.causal or j <= at)]


def right_sets(selection: Selection, row: Array, k: int, at: int) -> list[tuple[int, ...]]:
    """All sets of as many keys as there may be, of which none left out scores higher than one
    chosen."""
    keys = allowed_keys(selection, row, at)
    if selection.ties == "lowest-index":
        first = sorted(keys, key=lambda j: (-row[j], j))[:k]
        return [tuple(sorted(first))]
    sets = []
    for chosen in combinations(keys, min(k, len(keys))):
        rest = [row[j] for j in keys if j not in chosen]
        if not rest or not chosen or min(row[j] for j in chosen) >= max(rest):
            sets.append(chosen)
    return sets


def drawn(g: np.random.Generator, t: int, s: int) -> Array:
    scores: Array = g.integers(-1, 3, (2, t, s)).astype(np.float64)
    scores[g.random(scores.shape) < 0.2] = -np.inf
    return np.where(g.random((2, t, 1)) < 0.1, -np.inf, scores)


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
@pytest.mark.parametrize("alignment", ["bottom-right", "top-left"])
def test_may_must_and_count_are_those_of_all_right_sets(
    selection: Selection, alignment: str
) -> None:
    g = np.random.default_rng(len(alignment) + SELECTIONS.index(selection))
    for t, s, k in ((1, 1, 1), (3, 5, 2), (4, 4, 3), (5, 6, 9), (2, 7, 4), (5, 3, 2)):
        offset = s - t if alignment == "bottom-right" else 0
        scores = drawn(g, t, s)
        may, must, count = (
            run(make, selection, scores, k, offset)
            for make in (may_be_selected, must_be_selected, selected_count)
        )
        for b, i in np.ndindex(2, t):
            sets = right_sets(selection, scores[b, i], k, i + offset)
            union = {j for chosen in sets for j in chosen}
            common = set.intersection(*(set(chosen) for chosen in sets))
            assert {j for j in range(s) if may[b, i, j]} == union
            assert {j for j in range(s) if must[b, i, j]} == common
            assert count[b, i] == len(sets[0])


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_accepted_rows_are_the_right_sets_in_any_order_and_filled(selection: Selection) -> None:
    """Every row of 3 indices from -2 to 4 over 4 keys, out of range and duplicates included."""
    g = np.random.default_rng(SELECTIONS.index(selection))
    k, s = 3, 4
    every = np.array(list(product(range(-2, s + 1), repeat=k)))
    for at in (0, 1, 3):
        row = drawn(g, 1, s)[0, 0]
        sets = right_sets(selection, row, k, at)
        scores = np.broadcast_to(row, (len(every), 1, s))
        found = run(accepted, selection, scores, k, at, indices=every[:, None])[:, 0]
        for indices, one in zip(every.tolist(), found, strict=True):
            kept = sorted(j for j in indices if j != -1)
            assert bool(one) == (tuple(kept) in sets), (row, indices, at)
        assert found.any()


def test_causal_alignments() -> None:
    scores = np.arange(8.0).reshape(1, 2, 4)
    causal = Selection(causal=True)
    bottom = run(may_be_selected, causal, scores, 1, 2)[0]
    top = run(may_be_selected, causal, scores, 1, 0)[0]
    assert bottom.tolist() == [[0, 0, 1, 0], [0, 0, 0, 1]]
    assert top.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]
    assert run(selected_count, causal, scores, 3, 0)[0].tolist() == [1, 2]


def test_infinite_scores_are_never_chosen_and_differences_of_one_bit_count() -> None:
    row = np.array([[[1.0, -np.inf, np.nextafter(1.0, 2.0), -np.finfo(np.float64).max]]])
    for ties in TIES:
        selection = Selection(ties=ties)
        assert run(may_be_selected, selection, row, 1, 0)[0, 0].tolist() == [0, 0, 1, 0]
        assert run(must_be_selected, selection, row, 4, 0)[0, 0].tolist() == [1, 0, 1, 1]
    nothing = np.full((1, 1, 3), -np.inf)
    for indices, right in (([-1, -1], 1.0), ([0, -1], 0.0), ([-1, 1], 0.0)):
        given = np.array([[indices]])
        found = run(accepted, Selection(), nothing, 2, 0, indices=given)
        assert found[0, 0] == right


def test_ties_leave_a_choice_only_where_they_may() -> None:
    row = np.array([[[2.0, 2.0, 5.0, 2.0]]])
    for indices in ([2, 0], [3, 2], [2, 1]):
        given = np.array([[indices]])
        assert run(accepted, Selection(), row, 2, 0, indices=given)[0, 0] == 1.0
        lowest = run(accepted, Selection(ties="lowest-index"), row, 2, 0, indices=given)[0, 0]
        assert lowest == float(0 in indices)
    assert run(accepted, Selection(), row, 2, 0, indices=np.array([[[0, 1]]]))[0, 0] == 0.0


def test_balls_and_float64_choose_the_same() -> None:
    """Comparisons of numbers are exact in both, minus infinity included."""
    g = np.random.default_rng(9)
    scores = drawn(g, 3, 5)
    given = {"batch": 2, "t": 3, "s": 5, "k": 2, "offset": 2, "left": FAR, "right": 0}
    for selection in SELECTIONS:
        for make in (may_be_selected, must_be_selected, selected_count):
            definition = make(selection)
            key = tuple((str(p), given[str(p)]) for p in definition.parameters)
            with precision():
                balls = planned(tape_of(definition), BALLS, key)({"scores": scores})
                found, low = midpoints(balls)
            assert np.array_equal(found, run(make, selection, scores, 2, 2))
            assert not low.any()
