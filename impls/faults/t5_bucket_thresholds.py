"""T5's buckets with thresholds in the wrong places."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.t5_bucket import (
    by_share,
    by_wide,
    in_dtype,
    logarithm,
    whole,
)


def _linear(distance: Tensor, single: int, side: int, longest: int) -> Tensor:
    return (distance - single) / (longest - single) * (side - single)


def _without_ratio(distance: Tensor, single: int, side: int, longest: int) -> Tensor:
    return (distance.clamp(min=1) / single).log() * (side - single)


def _of_whole_distance(distance: Tensor, single: int, side: int, longest: int) -> Tensor:
    return distance.clamp(min=1).log() / math.log(longest) * (side - single)


def _two_bases(distance: Tensor, single: int, side: int, longest: int) -> Tensor:
    return (distance.clamp(min=1) / single).log2() / math.log(longest / single) * (side - single)


def _one_added(distance: Tensor, single: int, side: int, longest: int) -> Tensor:
    return (distance / single).log1p() / math.log1p(longest / single) * (side - single)


def _as_many_as_single(distance: Tensor, single: int, side: int, longest: int) -> Tensor:
    return logarithm(distance, single, side, longest) / (side - single) * single


def _one_short(distance: Tensor, single: int, side: int, longest: int) -> Tensor:
    share = logarithm(distance, single, side, longest)
    return share * (side - single - 1) / (side - single)


def _whole_quotient(distance: Tensor, single: int, side: int, longest: int) -> Tensor:
    return logarithm(distance // single * single, single, side, longest)


def _up(distance: Tensor, single: int, side: int, longest: int) -> Tensor:
    return single + whole(logarithm(distance, single, side, longest).ceil())


def _nearest(distance: Tensor, single: int, side: int, longest: int) -> Tensor:
    return single + whole(logarithm(distance, single, side, longest).round())


def _right(distance: Tensor, single: int, side: int, longest: int) -> Tensor:
    return single + whole(logarithm(distance, single, side, longest))


def _only_at_the_end(distance: Tensor, single: int, side: int, longest: int) -> Tensor:
    before = _right(distance, single, side, longest).clamp(max=side - 2)
    return torch.where(distance >= longest, side - 1, before)


def _one_beyond(distance: Tensor, single: int, side: int, longest: int) -> Tensor:
    return _right(distance, single, side, longest).clamp(max=side)


FAULTS = (
    Fault(
        id="t5_bucket.rounded_up",
        component="t5_bucket",
        kind="K17",
        reason="rounds the place among the wide buckets up; it is rounded down",
        remedy="Convert to an integer by rounding down.",
        law="t5_bucket.matches_oracle",
        functions=by_wide(_up),
    ),
    Fault(
        id="t5_bucket.rounded_to_nearest",
        component="t5_bucket",
        kind="K17",
        reason="rounds the place among the wide buckets to the nearest; it is rounded down",
        remedy="Convert to an integer by rounding down.",
        law="t5_bucket.matches_oracle",
        functions=by_wide(_nearest),
    ),
    Fault(
        id="t5_bucket.single_distances_one_short",
        component="t5_bucket",
        kind="K17",
        reason="lets the wide buckets start one distance early; as many distances as half of a "
        "side's buckets have one of their own",
        remedy="Start the wide buckets at half of a side's buckets.",
        law="t5_bucket.every_offset",
        functions=by_wide(_right, fewer=1),
    ),
    Fault(
        id="t5_bucket.wide_buckets_linear",
        component="t5_bucket",
        kind="K17",
        reason="divides the distances up to max_distance into wide buckets of one size; they "
        "widen geometrically",
        remedy="Take the logarithm of the distance.",
        law="t5_bucket.last_bucket",
        functions=by_share(_linear),
    ),
    Fault(
        id="t5_bucket.ratio_missing",
        component="t5_bucket",
        kind="K17",
        reason="leaves the logarithm of max_distance out, so that the last bucket comes too early",
        remedy="Divide by the logarithm of max_distance over the number of single distances.",
        law="t5_bucket.last_bucket",
        functions=by_share(_without_ratio),
    ),
    Fault(
        id="t5_bucket.logarithm_of_whole_distance",
        component="t5_bucket",
        kind="K17",
        reason="does not divide distance and max_distance by the number of single distances "
        "before the logarithm, so that the first wide buckets are skipped",
        remedy="Divide both by the number of single distances.",
        law="t5_bucket.matches_oracle",
        functions=by_share(_of_whole_distance),
    ),
    Fault(
        id="t5_bucket.two_bases",
        component="t5_bucket",
        kind="K17",
        reason="divides a logarithm to base 2 by a natural one",
        remedy="Take both logarithms to one base.",
        law="t5_bucket.last_bucket",
        functions=by_share(_two_bases),
    ),
    Fault(
        id="t5_bucket.one_added_in_logarithm",
        component="t5_bucket",
        kind="K17",
        reason="adds 1 in the logarithm to keep it from log 0, and so moves every threshold",
        remedy="Replace distances below the first wide one before the logarithm, or add nothing.",
        law="t5_bucket.every_offset",
        functions=by_share(_one_added),
    ),
    Fault(
        id="t5_bucket.wide_as_many_as_single",
        component="t5_bucket",
        kind="K17",
        reason="counts as many wide buckets as single ones; where a side has an odd number of "
        "buckets, there is one more",
        remedy="Multiply by the side's buckets less the single ones.",
        law="t5_bucket.every_offset",
        functions=by_share(_as_many_as_single),
    ),
    Fault(
        id="t5_bucket.wide_buckets_one_short",
        component="t5_bucket",
        kind="K17",
        reason="spreads the wide buckets so that the last one starts at max_distance; it starts "
        "before and holds what is beyond too",
        remedy="Multiply by the number of wide buckets, not by one less.",
        law="t5_bucket.last_bucket",
        functions=by_share(_one_short),
    ),
    Fault(
        id="t5_bucket.last_bucket_from_max_distance",
        component="t5_bucket",
        kind="K17",
        reason="keeps the last bucket for distances from max_distance on; it starts before, at 91 "
        "or 113 for T5's sizes",
        remedy="Take the minimum of the bucket and the last one, and treat max_distance no "
        "differently.",
        law="t5_bucket.last_bucket",
        functions=by_wide(_only_at_the_end),
    ),
    Fault(
        id="t5_bucket.quotient_in_integers",
        component="t5_bucket",
        kind="K11",
        reason="divides the distance as an integer before the logarithm, so that a wide bucket "
        "starts at multiples only",
        remedy="Divide as floating-point numbers.",
        law="t5_bucket.matches_oracle",
        functions=by_share(_whole_quotient),
    ),
    Fault(
        id="t5_bucket.one_bucket_too_many",
        component="t5_bucket",
        kind="K17",
        reason="ends the wide buckets at the side's number of buckets; the last is one less",
        remedy="Take the minimum with the number of buckets less 1.",
        law="t5_bucket.last_bucket",
        functions=by_wide(_one_beyond, clamped=False),
    ),
    Fault(
        id="t5_bucket.no_last_bucket",
        component="t5_bucket",
        kind="K17",
        reason="does not end the wide buckets, so that far distances are beyond the table",
        remedy="Take the minimum with the number of buckets less 1.",
        law="t5_bucket.within_range",
        functions=by_wide(_right, clamped=False),
    ),
    Fault(
        id="t5_bucket.logarithm_in_float16",
        component="t5_bucket",
        kind="K12",
        reason="takes the logarithm in float16, so that distances beside a threshold are in the "
        "wrong bucket",
        remedy="Take the logarithm in float32, or compare with thresholds in whole numbers.",
        law="t5_bucket.every_offset",
        functions=in_dtype(torch.float16),
    ),
    Fault(
        id="t5_bucket.logarithm_in_bfloat16",
        component="t5_bucket",
        kind="K12",
        reason="takes the logarithm in bfloat16, so that distances beside a threshold are in the "
        "wrong bucket",
        remedy="Take the logarithm in float32, or compare with thresholds in whole numbers.",
        law="t5_bucket.every_offset",
        functions=in_dtype(torch.bfloat16),
    ),
)
