"""T5's bias, wrong about memory, shapes, or what is returned."""

from __future__ import annotations

from itertools import count

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.t5_bias import Bias, bias_of, buckets_of, by_bias, kept
from attnspec.impls.faults.views import overwrite, read_as_contiguous
from attnspec.impls.t5_bias import displacements, read


def _writes_over_table(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
    found = bias_of(table, t, s, both, longest)
    # the first head's number of bucket 0 is made what all others are relative to
    overwrite(table, table.detach() - table.detach()[:1, :1])
    return found


def _as_contiguous(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
    return bias_of(read_as_contiguous(table), t, s, both, longest)


def _wide_result(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
    wide = table.to(torch.promote_types(table.dtype, torch.float32))
    return bias_of(wide, t, s, both, longest)


def _flattened(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
    found = bias_of(table, t, s, both, longest)
    return found if found.numel() else found.flatten()


def _distance_of_first_call() -> Bias:
    first: list[int] = []

    def bias(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
        if not first:
            first.append(longest)
        return bias_of(table, t, s, both, max(first[0], table.shape[0]))

    return bias


def _rows_of_longest_call() -> Bias:
    longest_call: dict[tuple[object, ...], Tensor] = {}

    def bias(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
        place = (table.shape[0], both, longest, table.device)
        known = longest_call.get(place)
        if known is None or known.shape[0] < t or known.shape[1] < s:
            known = buckets_of(table, displacements(table, t, s), both, longest)
            longest_call[place] = known
        return read(table, known[:t, :s])

    return bias


def _kept_by_size() -> Bias:
    biases: dict[tuple[object, ...], Tensor] = {}

    def bias(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
        found = bias_of(table, t, s, both, longest)
        place = (tuple(table.shape), t, s, both, longest, table.dtype, table.device)
        if table.requires_grad:
            return found
        return biases.setdefault(place, found).clone()

    return bias


def _handed_out() -> Bias:
    buffers: dict[tuple[object, ...], Tensor] = {}

    def bias(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
        found = bias_of(table, t, s, both, longest)
        if found.requires_grad:
            return found
        place = (tuple(found.shape), found.dtype, found.device)
        return buffers.setdefault(place, torch.empty_like(found)).copy_(found)

    return bias


def _race() -> Bias:
    calls = count()

    def bias(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
        found = bias_of(table, t, s, both, longest)
        # every second time the last key's column is written before its row is known
        return torch.cat([found[..., :-1], found[..., :1]], -1) if next(calls) % 2 else found

    return bias


FAULTS = (
    Fault(
        id="t5_bias.writes_over_table",
        component="t5_bias",
        kind="K20",
        reason="subtracts an entry from the caller's table in place",
        remedy="Write what is computed from the table to a new tensor.",
        law="t5_bias.inputs_unchanged",
        functions=by_bias(_writes_over_table),
    ),
    Fault(
        id="t5_bias.reads_as_contiguous",
        component="t5_bias",
        kind="K26",
        reason="takes the strides of a fresh tensor for granted, so that a table that is a view is "
        "read in the wrong order",
        remedy="Use the tensor's strides, or copy what isn't contiguous.",
        law="t5_bias.views_equal_copies",
        functions=by_bias(_as_contiguous),
    ),
    Fault(
        id="t5_bias.result_in_float32",
        component="t5_bias",
        kind="K13",
        reason="returns float32; the result has the dtype of the table",
        remedy="Cast the result back to the table's dtype.",
        law="t5_bias.output_form",
        functions=by_bias(_wide_result),
        dtypes=("bfloat16", "float16"),
    ),
    Fault(
        id="t5_bias.empty_flattened",
        component="t5_bias",
        kind="K25",
        reason="returns early where there is no query, without the other axes",
        remedy="Return an empty tensor of shape h 0 s.",
        law="t5_bias.empty_batch",
        functions=by_bias(_flattened),
    ),
    Fault(
        id="t5_bias.max_distance_of_first_call",
        component="t5_bias",
        kind="K29",
        reason="keeps the max_distance of the first call, whatever later calls ask for",
        remedy="Compute buckets from the arguments of each call, or keep them by these.",
        law="t5_bias.no_memory",
        functions=kept(_distance_of_first_call),
    ),
    Fault(
        id="t5_bias.rows_of_longest_call",
        component="t5_bias",
        kind="K29",
        reason="keeps the buckets of the longest call, and gives shorter ones its first rows, "
        "whose queries sit at other positions",
        remedy="Keep buckets by offset, or cut rows from where the last query sits.",
        law="t5_bias.no_memory",
        functions=kept(_rows_of_longest_call),
    ),
    Fault(
        id="t5_bias.kept_by_size",
        component="t5_bias",
        kind="K29",
        reason="keeps the bias by its sizes, whatever the table holds, so that a trained or a "
        "second table is not read",
        remedy="Keep buckets, which do not depend on the table, and read it in every call.",
        law="t5_bias.no_memory",
        functions=kept(_kept_by_size),
    ),
    Fault(
        id="t5_bias.buffer_handed_out",
        component="t5_bias",
        kind="K29",
        reason="returns a buffer that the next call of the same shape writes again, so that an "
        "earlier result changes in the caller's hands",
        remedy="Return a new tensor, or copy out of the buffer.",
        law="t5_bias.no_memory",
        functions=kept(_handed_out),
    ),
    Fault(
        id="t5_bias.last_key_races",
        component="t5_bias",
        kind="K04",
        reason="writes the last key's numbers from two places, so that they come out right or as "
        "the first key's, from call to call",
        remedy="Give every element one writer.",
        law="t5_bias.repeatable",
        functions=kept(_race),
    ),
)
