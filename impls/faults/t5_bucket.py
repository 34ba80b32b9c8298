"""T5's buckets, wrong about directions, thresholds or number formats."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import t5_bucket as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.t5_bucket import sides

Functions = Callable[[], Mapping[str, Callable[..., Any]]]
Bucket = Callable[[Tensor, bool, int, int], Tensor]
"""From offsets, whether both directions count, num_buckets and max_distance."""
Wide = Callable[[Tensor, int, int, int], Tensor]
"""Bucket of a distance beyond the single ones, before the last bucket ends them: from distances,
single buckets, buckets of a side and max_distance."""


def by_bucket(bucket: Bucket) -> Functions:
    """The wrong function under the contract's signature."""

    def t5_bucket(
        relative_position: Tensor,
        *,
        bidirectional: bool = True,
        num_buckets: int = 32,
        max_distance: int = 128,
    ) -> Tensor:
        return bucket(relative_position, bidirectional, num_buckets, max_distance)

    return lambda: {"t5_bucket": t5_bucket}


def bucket_of(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
    """The right bucket."""
    return right.t5_bucket(offsets, bidirectional=both, num_buckets=buckets, max_distance=longest)


def logarithm(
    distance: Tensor, single: int, side: int, longest: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Where a distance lies among the wide buckets, in some floating-point type: 0 for the first
    one's first distance. The recipe as it should be."""
    quotient = distance.clamp(min=1).to(dtype) / single
    return quotient.log() / math.log(longest / single) * (side - single)


def whole(share: Tensor) -> Tensor:
    """Rounded down, kept within 32 bits."""
    return share.to(torch.float32).clamp(min=-(2.0**30), max=2.0**30).to(torch.int64)


def by_wide(wide: Wide, *, clamped: bool = True, fewer: int = 0) -> Functions:
    """A bucket whose wide part comes from `wide`; with `fewer` single buckets than half."""

    def bucket(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
        distance, later, side = sides(offsets, both, buckets)
        single = max(side // 2 - fewer, 1)
        far = wide(distance, single, side, longest)
        far = far.clamp(max=side - 1) if clamped else far
        return later + torch.where(distance < single, distance, far)

    return by_bucket(bucket)


def by_share(share: Callable[[Tensor, int, int, int], Tensor]) -> Functions:
    """A bucket whose place among the wide ones comes from `share`, and is rounded down."""
    return by_wide(lambda d, single, side, longest: single + whole(share(d, single, side, longest)))


def in_dtype(dtype: torch.dtype) -> Functions:
    """A bucket whose logarithm runs in a floating-point type."""
    return by_share(lambda d, m, side, longest: logarithm(d, m, side, longest, dtype))


def stored_in(dtype: torch.dtype) -> Functions:
    """A bucket of offsets that were stored in fewer bits."""
    return by_bucket(lambda x, both, n, longest: bucket_of(x.to(dtype), both, n, longest))


def _half_forgotten(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
    later = (buckets // 2) * (offsets > 0) if both else 0
    distance = -offsets.abs() if both else offsets
    return later + bucket_of(distance, False, buckets, longest)


def _zero_counts_as_later(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
    found = bucket_of(offsets, both, buckets, longest)
    return torch.where(offsets == 0, buckets // 2, found) if both else found


def _later_keys_share_zero(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
    found = bucket_of(offsets.clamp(max=0), both, buckets, longest)
    return found + (buckets // 2) * (offsets > 0) if both else found


def _sides_exchanged(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
    if not both:
        return bucket_of(offsets, both, buckets, longest)
    found = bucket_of(-offsets.abs(), both, buckets, longest)
    return found + (buckets // 2) * (offsets < 0)


def _length_of_later_keys(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
    return bucket_of(offsets if both else -offsets.abs(), both, buckets, longest)


def _sign_kept(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
    found = bucket_of(offsets, both, buckets, longest)
    return found if both else torch.where(offsets > 0, -offsets.to(torch.int64), found)


def _second_half_first(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
    if not both:
        return bucket_of(offsets, both, buckets, longest)
    side = buckets // 2
    return side - 1 - bucket_of(-offsets.abs(), both, buckets, longest) + side * (offsets > 0)


FAULTS = (
    Fault(
        id="t5_bucket.query_minus_key",
        component="t5_bucket",
        kind="K17",
        reason="takes the offset for the query's position minus the key's; it is the key's minus "
        "the query's",
        remedy="Negate the offset, or exchange the two positions.",
        law="t5_bucket.matches_oracle",
        functions=by_bucket(lambda x, both, n, far: bucket_of(-x, both, n, far)),
        report="lucidrains/x-transformers #10",
    ),
    Fault(
        id="t5_bucket.always_both_directions",
        component="t5_bucket",
        kind="K29",
        reason="accepts `bidirectional` and gives later keys buckets of their own whatever it says",
        remedy="With bidirectional=False put later keys into bucket 0 and all buckets on one side.",
        law="t5_bucket.later_keys_share_zero",
        functions=by_bucket(lambda x, both, n, far: bucket_of(x, True, n, far)),
    ),
    Fault(
        id="t5_bucket.always_one_direction",
        component="t5_bucket",
        kind="K29",
        reason="puts later keys into bucket 0 in both directions too",
        remedy="With bidirectional=True give later keys the second half of the buckets.",
        law="t5_bucket.sides_mirror",
        functions=by_bucket(lambda x, both, n, far: bucket_of(x, False, n, far)),
    ),
    Fault(
        id="t5_bucket.half_forgotten",
        component="t5_bucket",
        kind="K17",
        reason="gives each side all buckets in both directions, so that later keys go beyond the "
        "last one; a side has num_buckets // 2",
        remedy="Halve num_buckets before the buckets of a side are computed.",
        law="t5_bucket.within_range",
        functions=by_bucket(_half_forgotten),
    ),
    Fault(
        id="t5_bucket.zero_counts_as_later",
        component="t5_bucket",
        kind="K17",
        reason="counts the query's own position as later, so that it is in bucket num_buckets // 2",
        remedy="Compare with > 0, not with >= 0.",
        law="t5_bucket.sides_mirror",
        functions=by_bucket(_zero_counts_as_later),
    ),
    Fault(
        id="t5_bucket.later_keys_in_one_bucket",
        component="t5_bucket",
        kind="K17",
        reason="drops the distance of later keys in both directions, so that all are in bucket "
        "num_buckets // 2",
        remedy="Take the absolute value in both directions, the maximum with 0 in one.",
        law="t5_bucket.sides_mirror",
        functions=by_bucket(_later_keys_share_zero),
    ),
    Fault(
        id="t5_bucket.halves_exchanged",
        component="t5_bucket",
        kind="K17",
        reason="gives earlier keys the second half of the buckets; later ones have it",
        remedy="Add num_buckets // 2 where the key comes after the query.",
        law="t5_bucket.matches_oracle",
        functions=by_bucket(_sides_exchanged),
    ),
    Fault(
        id="t5_bucket.absolute_value_in_one_direction",
        component="t5_bucket",
        kind="K17",
        reason="takes the absolute value in one direction too, so that a later key has the bucket "
        "of the earlier one as far away",
        remedy="In one direction take the maximum of the distance back and 0.",
        law="t5_bucket.later_keys_share_zero",
        functions=by_bucket(_length_of_later_keys),
    ),
    Fault(
        id="t5_bucket.negative_for_later_keys",
        component="t5_bucket",
        kind="K17",
        reason="leaves negative distances of later keys as they are in one direction, so that "
        "buckets are negative and a table is read from its end",
        remedy="Take the maximum of the distance back and 0 first.",
        law="t5_bucket.within_range",
        functions=by_bucket(_sign_kept),
    ),
    Fault(
        id="t5_bucket.nearest_last",
        component="t5_bucket",
        kind="K17",
        reason="numbers the buckets of a side from the farthest distance to the nearest",
        remedy="Give distance 0 the first bucket of its side.",
        law="t5_bucket.rises_with_distance",
        functions=by_bucket(_second_half_first),
    ),
    Fault(
        id="t5_bucket.num_buckets_ignored",
        component="t5_bucket",
        kind="K29",
        reason="accepts `num_buckets` and uses 32 whatever it says",
        remedy="Hand num_buckets on, or refuse other values.",
        law="t5_bucket.matches_oracle",
        functions=by_bucket(lambda x, both, n, far: bucket_of(x, both, 32, far)),
    ),
    Fault(
        id="t5_bucket.max_distance_ignored",
        component="t5_bucket",
        kind="K29",
        reason="accepts `max_distance` and uses 128 whatever it says",
        remedy="Hand max_distance on, or refuse other values.",
        law="t5_bucket.matches_oracle",
        functions=by_share(lambda d, m, side, far: logarithm(d, m, side, max(128, m + 1))),
    ),
    Fault(
        id="t5_bucket.offsets_in_int8",
        component="t5_bucket",
        kind="K12",
        reason="stores offsets in eight bits, so that they wrap round from 128 on",
        remedy="Keep offsets in 32 bits or more; only the bucket fits into eight.",
        law="t5_bucket.rises_with_distance",
        functions=stored_in(torch.int8),
    ),
    Fault(
        id="t5_bucket.offsets_in_int16",
        component="t5_bucket",
        kind="K12",
        reason="stores offsets in sixteen bits, so that they wrap round from 32768 on",
        remedy="Keep offsets in 32 bits or more.",
        law="t5_bucket.last_bucket",
        functions=stored_in(torch.int16),
    ),
)
