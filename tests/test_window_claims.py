"""The claims on windows, Longformer attention and cost: their counterexamples by plain loops."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import isqrt
from typing import Any

import numpy as np
import pytest
import sympy as sp

from attnspec.spec import longformer_attention, window, window_definition
from attnspec.spec import longformer_attention_definition as longformer_definition
from tests.registered import numbers, still_open

Array = np.ndarray[Any, Any]


def band(n: int, left: int, right: int) -> Array:
    """1 where a query sees a key."""
    rows = [[int(i - left <= j <= i + right) for j in range(n)] for i in range(n)]
    return np.array(rows)


def longformer(n: int, w: int, tokens: tuple[int, ...]) -> Array:
    seen = band(n, w, w)
    seen[list(tokens), :] = 1
    seen[:, list(tokens)] = 1
    return seen


def through(seen: Array, layers: int) -> Array:
    """1 where a token can count in another after so many layers."""
    reached = np.eye(len(seen), dtype=np.int64)
    for _ in range(layers):
        reached = np.minimum(reached @ seen, 1)
    return reached


def first_layer_that_reaches(distance: int, w: int) -> tuple[int, int]:
    """Layers, one after another, until they reach that far; and how far they then reach."""
    layers, reached = 0, 0
    while reached < distance:
        layers, reached = layers + 1, reached + w
    return layers, reached


def test_a_window_of_radius_one_has_three_keys() -> None:
    assert numbers("window.radius") == (1, band(5, 1, 1)[2].sum())


def test_a_window_of_the_length_saves_nothing() -> None:
    assert numbers("window.cost_is_linear") == (8, band(3, 2, 2).sum())


def test_two_layers_of_radius_one_see_five_tokens() -> None:
    assert numbers("window.reach") == (2, through(band(9, 1, 1), 2)[4].sum())


@pytest.mark.parametrize(
    ("claim_id", "distance", "layers"),
    [("window.far_token_never_direct", 100_000, 25), ("window.far_position_missed", 300_000, 74)],
)
def test_far_tokens_arrive_by_layers(claim_id: str, distance: int, layers: int) -> None:
    needed, reached = first_layer_that_reaches(distance, 4096)
    assert needed == layers
    assert numbers(claim_id) == (distance - 1, reached)
    assert distance > 4096


def test_mistral_reaches_131072_back() -> None:
    assert first_layer_that_reaches(131_072, 4096) == (32, 131_072)
    assert first_layer_that_reaches(131_040, 4095) == (32, 131_040)
    # the variance of one hop, every key of the window alike, 32 times
    w = 4096
    square = Fraction(2 * sum(u * u for u in range(1, w + 1)), 2 * w + 1)
    assert isqrt(int(32 * square)) == 13_379


def test_a_global_token_sees_nothing_ahead_of_a_causal_mask() -> None:
    seen = longformer(2, 0, (0,))
    assert numbers("longformer_attention.global_tokens") == (
        seen[0].sum(),
        (seen * band(2, 2, 0))[0].sum(),
    )


def test_streams_hold_less_than_the_matrix() -> None:
    """A million rows, each with a maximum, a sum and 128 channels."""
    n, channels = 10**6, 128
    held = sum(n for _ in ("maximum", "sum", *range(channels)))
    assert numbers("attention.matrix_too_large_to_store") == (n * n, held)
    assert 2 * n * n == 2 * 10**12


def test_streamed_rows_are_attention_in_exact_arithmetic() -> None:
    """Powers of two for the exponentials, so that nothing is rounded: key after key, with the sums
    about the largest exponent so far."""
    draw = np.random.default_rng(0)
    for _ in range(20):
        powers = [int(x) for x in draw.integers(-9, 9, 6)]
        values = [Fraction(int(x), 7) for x in draw.integers(-9, 9, 6)]
        weights = [Fraction(2) ** p for p in powers]
        whole = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
        largest, total, weighed = powers[0], Fraction(0), Fraction(0)
        for power, value in zip(powers, values, strict=True):
            moved = max(largest, power)
            factor = Fraction(2) ** (largest - moved)
            fresh = Fraction(2) ** (power - moved)
            total, weighed = total * factor + fresh, weighed * factor + fresh * value
            largest = moved
        assert weighed / total == whole


@pytest.mark.parametrize("seed", range(15))
def test_pairs_of_global_tokens_are_bounded_and_two_layers_connect_all(seed: int) -> None:
    """C142, and the bound that the lemma gives: equal where nothing global is in the window of
    another."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(2, 14))
    w, g = int(draw.integers(0, n)), int(draw.integers(1, n + 1))
    tokens = tuple(int(x) for x in draw.permutation(n)[:g])
    seen = longformer(n, w, tokens)
    inside, flags = band(n, w, w), np.isin(np.arange(n), tokens).astype(np.int64)
    either = flags[:, None] + flags[None, :] - np.outer(flags, flags)
    assert seen.sum() == inside.sum() + ((1 - inside) * either).sum()
    assert seen.sum() <= n * (2 * w + 1) - w * (w + 1) + 2 * g * n - g * g
    assert through(seen, 2).all()
    assert seen[tokens[0]].all()
    assert seen[:, tokens[0]].all()


def test_two_layers_of_a_window_alone_do_not_connect_all() -> None:
    assert not through(longformer(9, 1, ()), 2).all()


def layer(x: Array, seen: Array) -> Array:
    """One layer of attention of x over itself."""
    weights = np.exp(x @ x.T) * seen
    out: Array = weights @ x / weights.sum(-1, keepdims=True)
    return out


@pytest.mark.parametrize(("left", "right"), [(1, 1), (2, 0), (3, 2)])
def test_outputs_move_with_tokens_in_reach_and_with_no_others(left: int, right: int) -> None:
    """C139: by moving each token of three layers of attention. No score is above 1, so that
    no influence is lost in rounding."""
    n, layers = 15, 3
    x = np.random.default_rng(left).uniform(-0.5, 0.5, (n, 2))
    seen = band(n, left, right)

    def outputs(tokens: Array) -> Array:
        for _ in range(layers):
            tokens = layer(tokens, seen)
        return tokens

    before, reached = outputs(x), through(seen, layers)
    for token in range(n):
        moved = x.copy()
        moved[token] += 0.5
        changed = (outputs(moved) != before).any(axis=-1)
        assert np.array_equal(changed, reached[:, token] == 1)
    for i, j in product(range(n), repeat=2):
        assert reached[i, j] == (i - layers * left <= j <= i + layers * right)


def test_a_window_that_lacks_its_ends_opens_the_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_ends() -> sp.Basic:
        bounds = window_definition.sees().args
        return sp.And(*(sp.StrictLessThan(bound.lts, bound.gts) for bound in bounds))

    monkeypatch.setattr(window, "sees", without_ends)
    for conclusion in ("radius", "band", "cost_is_linear", "reach", "far_position_missed"):
        assert still_open(f"window.{conclusion}"), conclusion


def test_global_keys_that_no_one_sees_open_the_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows_alone() -> sp.Basic:
        conditions = longformer_definition.sees().args
        key = next(part for part in conditions if isinstance(part, sp.Ne) and "j" in str(part))
        return sp.Or(*(part for part in conditions if part != key))

    monkeypatch.setattr(longformer_attention, "sees", rows_alone)
    for conclusion in ("definition", "global_tokens", "two_layers", "visible_pairs"):
        assert still_open(f"longformer_attention.{conclusion}"), conclusion
