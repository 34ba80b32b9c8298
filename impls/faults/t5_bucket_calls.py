"""T5's buckets, wrong about memory, shapes, or what is returned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.t5_bucket import Bucket, Functions, bucket_of, by_bucket
from attnspec.impls.faults.views import overwrite, read_as_contiguous


def kept(made: Callable[[], Bucket]) -> Functions:
    """A function with memory, which starts without it."""

    def functions() -> Mapping[str, Callable[..., Any]]:
        return by_bucket(made())()

    return functions


def _writes_over_offsets(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
    found = bucket_of(offsets, both, buckets, longest)
    overwrite(offsets, offsets.abs())
    return found


def _first_row_for_all(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
    """As for a grid of positions that count up by one."""
    if offsets.ndim < 2 or not offsets.numel():
        return bucket_of(offsets, both, buckets, longest)
    steps = torch.arange(offsets.shape[-1], device=offsets.device)
    return bucket_of(offsets[..., :1] + steps, both, buckets, longest)


def _as_later_as_the_first(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
    if not both or not offsets.numel():
        return bucket_of(offsets, both, buckets, longest)
    found = bucket_of(-offsets.abs(), both, buckets, longest)
    return found + (buckets // 2) * (offsets.flatten()[0] > 0)


def _flattened(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
    found = bucket_of(offsets, both, buckets, longest)
    return found if found.numel() else found.flatten()


def _distance_of_first_call() -> Bucket:
    first: list[int] = []

    def bucket(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
        if not first:
            first.append(longest)
        return bucket_of(offsets, both, buckets, max(first[0], buckets))

    return bucket


def _kept_by_shape() -> Bucket:
    tables: dict[tuple[object, ...], Tensor] = {}

    def bucket(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
        place = (tuple(offsets.shape), both, buckets, longest, offsets.device)
        if place not in tables:
            tables[place] = bucket_of(offsets, both, buckets, longest)
        return tables[place].clone()

    return bucket


def _handed_out() -> Bucket:
    buffers: dict[tuple[object, ...], Tensor] = {}

    def bucket(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
        found = bucket_of(offsets, both, buckets, longest)
        place = (tuple(offsets.shape), offsets.device)
        return buffers.setdefault(place, torch.empty_like(found)).copy_(found)

    return bucket


def _race() -> Bucket:
    calls = count()

    def bucket(offsets: Tensor, both: bool, buckets: int, longest: int) -> Tensor:
        found = bucket_of(offsets, both, buckets, longest)
        # every second time the last offset is written before its side is known
        late = bucket_of(-offsets.abs(), False, buckets, longest)
        return torch.cat([found[..., :-1], late[..., -1:]], -1) if next(calls) % 2 else found

    return bucket


FAULTS = (
    Fault(
        id="t5_bucket.writes_over_offsets",
        component="t5_bucket",
        kind="K20",
        reason="takes the absolute value in place, so that the caller's offsets lose their sign",
        remedy="Write distances to a new tensor.",
        law="t5_bucket.inputs_unchanged",
        functions=by_bucket(_writes_over_offsets),
    ),
    Fault(
        id="t5_bucket.reads_as_contiguous",
        component="t5_bucket",
        kind="K26",
        reason="takes the strides of a fresh tensor for granted, so that views are read in the "
        "wrong order",
        remedy="Use the tensor's strides, or copy what isn't contiguous.",
        law="t5_bucket.views_equal_copies",
        functions=by_bucket(lambda x, both, n, far: bucket_of(read_as_contiguous(x), both, n, far)),
    ),
    Fault(
        id="t5_bucket.rows_count_up",
        component="t5_bucket",
        kind="K09",
        reason="reads the first offset of a row and counts up from there; rows may hold any "
        "offsets",
        remedy="Read every offset.",
        law="t5_bucket.each_offset_for_itself",
        functions=by_bucket(_first_row_for_all),
    ),
    Fault(
        id="t5_bucket.side_of_first_offset",
        component="t5_bucket",
        kind="K17",
        reason="puts every offset on the side of the first one",
        remedy="Look at the sign of every offset.",
        law="t5_bucket.each_offset_for_itself",
        functions=by_bucket(_as_later_as_the_first),
    ),
    Fault(
        id="t5_bucket.max_distance_of_first_call",
        component="t5_bucket",
        kind="K29",
        reason="keeps the max_distance of the first call, whatever later calls ask for",
        remedy="Compute thresholds from the arguments of each call, or keep them by these.",
        law="t5_bucket.no_memory",
        functions=kept(_distance_of_first_call),
    ),
    Fault(
        id="t5_bucket.kept_by_shape",
        component="t5_bucket",
        kind="K29",
        reason="keeps buckets by the shape of the offsets, whatever these are",
        remedy="Keep buckets by offset, or don't keep any.",
        law="t5_bucket.no_memory",
        functions=kept(_kept_by_shape),
    ),
    Fault(
        id="t5_bucket.buffer_handed_out",
        component="t5_bucket",
        kind="K29",
        reason="returns a buffer that the next call of the same shape writes again, so that an "
        "earlier result changes in the caller's hands",
        remedy="Return a new tensor, or copy out of the buffer.",
        law="t5_bucket.no_memory",
        functions=kept(_handed_out),
    ),
    Fault(
        id="t5_bucket.last_offset_races",
        component="t5_bucket",
        kind="K04",
        reason="writes the last offset's bucket from two places, so that it comes out with its "
        "side or without, from call to call",
        remedy="Give every element one writer.",
        law="t5_bucket.repeatable",
        functions=kept(_race),
    ),
    Fault(
        id="t5_bucket.result_in_float32",
        component="t5_bucket",
        kind="K13",
        reason="returns floating-point numbers, which no table can be indexed with",
        remedy="Return integers.",
        law="t5_bucket.output_form",
        functions=by_bucket(lambda x, both, n, far: bucket_of(x, both, n, far).float()),
    ),
    Fault(
        id="t5_bucket.empty_flattened",
        component="t5_bucket",
        kind="K25",
        reason="returns early where there is no offset, without the other axes",
        remedy="Return an empty tensor of the input's shape.",
        law="t5_bucket.empty_batch",
        functions=by_bucket(_flattened),
    ),
)
