"""Whichever of two buckets an implementation gives next to a threshold, and wherever in an array,
it is right; one that is neither, or wrong where there is only one, is seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import Tensor

from attnspec.driving import scope_of
from attnspec.impls import t5_bias as references_of_bias
from attnspec.impls import t5_bucket as references
from attnspec.judging import judged
from attnspec.oracle import law
from attnspec.oracle.inputs import sampled
from attnspec.oracle.law import Inputs, Law
from attnspec.oracle.t5_bucket import FIRST_OF_LAST
from attnspec.oracle.t5_values import Setting, bucket_range, setting_of, settled_pairs
from attnspec.subject import Subject
from tests.stubs import target
from tests.t5_cases import BUCKETS, Reading, of_biases, of_buckets, settled_offsets, subject


def ranges(offsets: Tensor, both: bool, count: int, longest: int) -> tuple[Tensor, Tensor]:
    least, most = bucket_range(offsets.numpy(), Setting(both, count, longest))
    return torch.from_numpy(least).long(), torch.from_numpy(most).long()


def least_of(least: Tensor, most: Tensor) -> Tensor:
    return least


def most_of(least: Tensor, most: Tensor) -> Tensor:
    return most


def by_place(least: Tensor, most: Tensor) -> Tensor:
    """Every third place is computed in another way, as the end of a vector is."""
    places = torch.arange(least.numel()).reshape(least.shape)
    return torch.where(places % 3 == 0, most, least)


def bucket_function(chosen: Callable[[Tensor, Tensor], Tensor]) -> Reading:
    def t5_bucket(
        relative_position: Tensor,
        *,
        bidirectional: bool = True,
        num_buckets: int = 32,
        max_distance: int = 128,
    ) -> Tensor:
        return chosen(*ranges(relative_position, bidirectional, num_buckets, max_distance))

    return t5_bucket


def bias_function(chosen: Callable[[Tensor, Tensor], Tensor]) -> Reading:
    def t5_bias(
        table: Tensor, t: int, s: int, *, bidirectional: bool = True, max_distance: int = 128
    ) -> Tensor:
        offsets = references_of_bias.displacements(table, t, s)
        both = ranges(offsets, bidirectional, table.shape[0], max_distance)
        return references_of_bias.read(table, chosen(*both))

    return t5_bias


@cache
def unsettled_calls(family: str, dtype: str) -> list[Inputs]:
    """Drawn calls with some place of two buckets; none in families of T5's own sizes."""
    made = subject(dtype=dtype) if family.startswith("t5_bias") else BUCKETS
    calls = sampled(family, scope_of(made), 800, 4)
    known = settled_pairs if family.startswith("t5_bias") else settled_offsets
    return [inputs for inputs in calls if not known(inputs).all()][:8]


AT_THE_DEFAULTS = ("t5_bucket_end", "t5_bucket_empty", "t5_bias_empty")
choices = pytest.mark.parametrize("chosen", [least_of, most_of, by_place])


@choices
@of_buckets
def test_either_bucket_next_to_a_threshold_passes(
    row: Law, chosen: Callable[[Tensor, Tensor], Tensor]
) -> None:
    mine = Subject(target(t5_bucket=bucket_function(chosen)), "t5_bucket", "int64")
    calls = unsettled_calls(row.inputs, "int64")
    assert bool(calls) == (row.inputs not in AT_THE_DEFAULTS)
    assert not any(judged(row, mine, inputs).fails for inputs in calls)


@pytest.mark.parametrize(
    ("chosen", "dtype"),
    [(least_of, "float64"), (most_of, "bfloat16"), (by_place, "float32")],
)
@of_biases
def test_either_row_next_to_a_threshold_passes(
    row: Law, chosen: Callable[[Tensor, Tensor], Tensor], dtype: str
) -> None:
    made = target(t5_bias=bias_function(chosen), t5_bucket=bucket_function(most_of))
    mine = Subject(made, "t5_bias", dtype)
    calls = unsettled_calls(row.inputs, dtype)
    assert bool(calls) == (row.inputs not in AT_THE_DEFAULTS)
    assert not any(judged(row, mine, inputs).fails for inputs in calls)


@pytest.mark.parametrize("step", [-1, 1])
@pytest.mark.parametrize("both", [True, False])
def test_one_threshold_moved_by_one_at_the_defaults_is_seen(both: bool, step: int) -> None:
    """And nothing but that one distance is wrong."""
    first = FIRST_OF_LAST[both]
    moved = first - 1 if step < 0 else first

    def t5_bucket(relative_position: Tensor, *, bidirectional: bool = True) -> Tensor:
        right = references.t5_bucket(relative_position, bidirectional=bidirectional)
        at = (relative_position == -moved) & (bidirectional is both)
        return torch.where(at, right - step, right)

    mine = Subject(target(t5_bucket=t5_bucket), "t5_bucket", "int64")
    found = list(sampled("t5_bucket_every", scope_of(mine), 30, 1))
    verdicts = [judged(law("t5_bucket.every_offset"), mine, inputs) for inputs in found]
    for inputs, verdict in zip(found, verdicts, strict=True):
        assert verdict.fails == (setting_of(inputs).both is both)


def test_a_bucket_beyond_the_two_is_seen() -> None:
    """One more than the greatest that a logarithm may give, at a threshold that is met exactly."""

    def t5_bucket(
        relative_position: Tensor,
        *,
        bidirectional: bool = True,
        num_buckets: int = 32,
        max_distance: int = 128,
    ) -> Tensor:
        least, most = ranges(relative_position, bidirectional, num_buckets, max_distance)
        return torch.where(least < most, most + 1, most)

    mine = Subject(target(t5_bucket=t5_bucket), "t5_bucket", "int64")
    for inputs in unsettled_calls("t5_bucket", "int64"):
        assert judged(law("t5_bucket.matches_oracle"), mine, inputs).fails
