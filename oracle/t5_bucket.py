"""The laws of t5_bucket.

Sources: the claims of `spec/t5_bucket.py`. A bucket is a whole number, so a result is right or
wrong; next to some thresholds of sizes that aren't T5's own two buckets are right (`t5_values`),
and what compares two results leaves such places out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle import calls
from attnspec.oracle.calls import same, same_where
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.t5_values import Setting, bucket, setting_of, settled

Array = np.ndarray[Any, Any]

FIRST_OF_LAST = {True: 91, False: 113}
"""The first distance of a side's last bucket at T5's own sizes, in both directions and in one: the
claim `t5_bucket.last_bucket`."""


def _offsets(inputs: Inputs) -> Array:
    return inputs.arrays["relative_position"]


def rises_with_distance(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """On either side no bucket is below that of a shorter distance."""
    offsets, actual = _offsets(inputs).ravel(), implementation(inputs).ravel()
    known = settled(offsets, setting_of(inputs))
    found = []
    for name, side in (("earlier", offsets <= 0), ("later", offsets > 0)):
        chosen = np.flatnonzero(side & known)
        order = chosen[np.argsort(np.abs(offsets[chosen]), kind="stable")]
        buckets = actual[order]
        what = f"buckets of {name} keys by distance, beside the greatest so far"
        found.append(same(what, buckets, np.maximum.accumulate(buckets), implementation.dtype))
    return found


def last_bucket(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """At T5's own sizes the last bucket of a side starts at 91, or 113, and has no end."""
    setting, actual = setting_of(inputs), implementation(inputs)
    offsets, first = _offsets(inputs), FIRST_OF_LAST[setting.both]
    sides = [("earlier", setting.side - 1, -offsets >= first)]
    if setting.both:
        sides.append(("later", setting.last, offsets >= first))
    return [
        same(
            f"whether an offset is in the last bucket of {name} keys",
            (actual == last) * 1.0,
            reached * 1.0,
            implementation.dtype,
        )
        for name, last, reached in sides
    ]


def within_range(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Every offset has one of the buckets that there are."""
    actual, last = implementation(inputs), setting_of(inputs).last
    what = f"bucket, beside the nearest from 0 to {last}"
    return [same(what, actual, np.clip(actual, 0, last), implementation.dtype)]


def each_offset_for_itself(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The bucket of an offset depends on nothing but it: not on its place, nor on its neighbours,
    nor on the shape."""
    offsets, whole = _offsets(inputs), implementation(inputs)
    known = settled(offsets, setting_of(inputs)).ravel()
    rng = generator(inputs, "order")
    order = rng.permutation(offsets.size)
    flat = _called(implementation, inputs, offsets.ravel()[order])
    at = int(rng.integers(offsets.size))
    alone = _called(implementation, inputs, offsets.ravel()[at : at + 1])
    mixed = whole.ravel()[order]
    return [
        same_where(
            known[order], "on one axis, in another order", flat, mixed, implementation.dtype
        ),
        same_where(known[[at]], "one alone", alone, whole.ravel()[[at]], implementation.dtype),
    ]


def _called(implementation: Implementation, inputs: Inputs, offsets: Array) -> Array:
    made = inputs.with_arrays(relative_position=offsets)
    return implementation(made, layout="contiguous")


def sides_mirror(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A later key has the bucket of the earlier one as far away, in the second half; the query's
    own position has bucket 0."""
    offsets, setting = _offsets(inputs), setting_of(inputs)
    known = settled(offsets, setting) & settled(-offsets, setting)
    later, earlier = (
        _called(implementation, inputs, sign * np.abs(offsets)).astype(np.float64)
        for sign in (1, -1)
    )
    shifted = np.where(offsets == 0, 0.0, earlier + setting.side)
    zeros = offsets == 0
    return [
        same_where(known, "later keys beside earlier ones", later, shifted, implementation.dtype),
        same_where(zeros, "offset 0", earlier, np.zeros(offsets.shape), implementation.dtype),
    ]


def later_keys_share_zero(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """In one direction every key from the query's position on is in bucket 0, and no other."""
    offsets, actual = _offsets(inputs), implementation(inputs)
    return [
        same(
            "whether an offset is in bucket 0",
            (actual == 0) * 1.0,
            (offsets >= 0) * 1.0,
            implementation.dtype,
        )
    ]


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: other offsets in the same shape, the other direction, other sizes."""
    offsets = _offsets(inputs)
    made = [
        inputs.with_arrays(relative_position=(-3 * offsets - 5).astype(offsets.dtype)),
        inputs.with_arrays(relative_position=np.concatenate([offsets, offsets + 1], axis=-1)),
    ]
    changed: dict[str, dict[str, Any]] = {
        "bidirectional": {"bidirectional": not setting_of(inputs).both},
        "max_distance": {"max_distance": 2 * setting_of(inputs).max_distance + 100},
        "num_buckets": {"num_buckets": setting_of(inputs).num_buckets + 8},
    }
    for option, other in changed.items():
        options = {**inputs.options, **other}
        if implementation.accepts(option) and _legal(options):
            made.append(replace(inputs, options=options, drawn=b""))
    return made


def _legal(options: dict[str, Any]) -> bool:
    setting: Setting = setting_of(Inputs("t5_bucket", "int64", {}, options))
    return setting.legal


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    family = more.pop("inputs", "t5_bucket")
    return Law(f"t5_bucket.{name}", "t5_bucket", says, means, kind, check, inputs=family, **more)


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "every offset has the bucket that counting the thresholds gives; next to a threshold, at "
        "sizes that are not T5's own, it may be the neighbour that a float32 logarithm gives",
        "the direction, a threshold or the end of the buckets is wrong",
        "oracle",
        calls.matches_oracle(bucket),
        claims=("t5_bucket.definition",),
        rejects=(
            "t5_bucket.query_minus_key",
            "t5_bucket.halves_exchanged",
            "t5_bucket.num_buckets_ignored",
            "t5_bucket.max_distance_ignored",
            "t5_bucket.rounded_up",
            "t5_bucket.rounded_to_nearest",
            "t5_bucket.logarithm_of_whole_distance",
            "t5_bucket.quotient_in_integers",
        ),
    ),
    _law(
        "every_offset",
        "all offsets from -2000 to 2000 have the buckets that counting the thresholds gives",
        "a threshold is wrong, by little perhaps: one distance is enough",
        "oracle",
        calls.matches_oracle(bucket),
        inputs="t5_bucket_every",
        claims=("t5_bucket.definition",),
        rejects=(
            "t5_bucket.single_distances_one_short",
            "t5_bucket.one_added_in_logarithm",
            "t5_bucket.wide_as_many_as_single",
            "t5_bucket.logarithm_in_float16",
            "t5_bucket.logarithm_in_bfloat16",
        ),
    ),
    _law(
        "rises_with_distance",
        "on either side a longer distance is in the same bucket or a later one",
        "distances overflow, or are put into buckets by another rule than their length",
        "exact",
        rises_with_distance,
        claims=("t5_bucket.rises_with_distance",),
        rejects=(
            "t5_bucket.nearest_last",
            "t5_bucket.offsets_in_int8",
        ),
    ),
    _law(
        "last_bucket",
        "with 32 buckets and max_distance 128 the last bucket of a side holds the distances from "
        "91 on in both directions, or from 113 on in one, and nothing else",
        "the wide buckets end too early or too late, or far distances have none",
        "exact",
        last_bucket,
        inputs="t5_bucket_end",
        claims=("t5_bucket.last_bucket", "t5_bucket.defined_at_every_distance"),
        rejects=(
            "t5_bucket.offsets_in_int16",
            "t5_bucket.wide_buckets_linear",
            "t5_bucket.ratio_missing",
            "t5_bucket.two_bases",
            "t5_bucket.wide_buckets_one_short",
            "t5_bucket.last_bucket_from_max_distance",
            "t5_bucket.one_bucket_too_many",
        ),
    ),
    _law(
        "within_range",
        "every bucket is one of those that there are",
        "a table with a row for each bucket would be read outside of it",
        "exact",
        within_range,
        claims=("t5_bucket.defined_at_every_distance",),
        rejects=(
            "t5_bucket.half_forgotten",
            "t5_bucket.negative_for_later_keys",
            "t5_bucket.no_last_bucket",
        ),
    ),
    _law(
        "each_offset_for_itself",
        "the bucket of an offset does not depend on its place, its neighbours or the shape",
        "something is taken from other offsets of the call",
        "equivariance",
        each_offset_for_itself,
        claims=("t5_bucket.definition",),
        rejects=(
            "t5_bucket.rows_count_up",
            "t5_bucket.side_of_first_offset",
        ),
    ),
    _law(
        "sides_mirror",
        "in both directions a later key has the bucket of the earlier one as far away, "
        "num_buckets // 2 further on, and the query's own position has bucket 0",
        "the two sides are put into buckets by different rules, or position 0 is on the wrong side",
        "equivariance",
        sides_mirror,
        inputs="t5_bucket_both",
        claims=("t5_bucket.definition", "t5_bias.of_displacement"),
        rejects=(
            "t5_bucket.always_one_direction",
            "t5_bucket.zero_counts_as_later",
            "t5_bucket.later_keys_in_one_bucket",
        ),
    ),
    _law(
        "later_keys_share_zero",
        "in one direction the keys from the query's position on are in bucket 0, and no others",
        "later keys are put into buckets too, or the direction is the other one",
        "exact",
        later_keys_share_zero,
        inputs="t5_bucket_one",
        options=("bidirectional",),
        claims=("t5_bucket.definition", "t5_bias.of_displacement"),
        rejects=(
            "t5_bucket.always_both_directions",
            "t5_bucket.absolute_value_in_one_direction",
        ),
    ),
    *calls.call_laws(
        "t5_bucket",
        bucket,
        others,
        {
            "inputs_unchanged": ("t5_bucket.writes_over_offsets",),
            "repeatable": ("t5_bucket.last_offset_races",),
            "views_equal_copies": ("t5_bucket.reads_as_contiguous",),
            "no_memory": (
                "t5_bucket.max_distance_of_first_call",
                "t5_bucket.kept_by_shape",
                "t5_bucket.buffer_handed_out",
            ),
            "output_form": ("t5_bucket.result_in_float32",),
            "empty_batch": ("t5_bucket.empty_flattened",),
        },
    ),
)
