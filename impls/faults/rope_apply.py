"""The rotation by given tables, done wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import rope as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.rope import without_last_tile
from attnspec.impls.faults.views import overwrite, read_as_contiguous

Functions = Callable[[], Mapping[str, Callable[..., Any]]]


def by_tables(rotation: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Functions:
    """A rotation without memory."""

    def rope_apply(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return rotation(x, cos, sin)

    return lambda: {"rope_apply": rope_apply}


def _first_rows_tables(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    if cos.ndim == 2 or not len(x):
        return right.rope_apply(x, cos, sin)
    return right.rope_apply(x, cos[0], sin[0])


def _tables_as_contiguous(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return right.rope_apply(x, read_as_contiguous(cos), read_as_contiguous(sin))


def _negates_table(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    result = right.rope_apply(x, cos, sin)
    overwrite(sin, -sin.detach())
    return result


def _in_float32(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return right.rope_apply(x.to(torch.promote_types(x.dtype, torch.float32)), cos, sin)


def _alternating() -> Mapping[str, Callable[..., Any]]:
    calls = count()

    def rope_apply(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        result = right.rope_apply(x, cos, sin)
        return torch.cat((result[..., :-1], x[..., -1:]), -1) if next(calls) % 2 else result

    return {"rope_apply": rope_apply}


FAULTS = (
    Fault(
        id="rope_apply.half_layout",
        component="rope_apply",
        kind="K10",
        reason="joins channels i and i + d/2, which is the half-split layout, without declaring it",
        remedy="Join channels 2i and 2i + 1, or declare the layout.",
        law="rope_apply.own_angles",
        # with a right rope beside it, which the law compares it with
        functions=lambda: {"rope": right.rope, "rope_apply": right.rope_apply_half},
        report="1bit-MONSTER/1bit-MONSTER #2418",
    ),
    Fault(
        id="rope_apply.tables_exchanged",
        component="rope_apply",
        kind="K10",
        reason="takes the sines for cosines and the cosines for sines",
        remedy="Take the tables in the order x, cos, sin.",
        law="rope_apply.matches_oracle",
        functions=by_tables(lambda x, cos, sin: right.rope_apply(x, sin, cos)),
    ),
    Fault(
        id="rope_apply.first_rows_tables",
        component="rope_apply",
        kind="K09",
        reason="turns every row of the batch by the tables of the first",
        remedy="Index the tables by batch entry where they have a batch axis.",
        law="rope_apply.row_alone",
        functions=by_tables(_first_rows_tables),
    ),
    Fault(
        id="rope_apply.tables_read_as_contiguous",
        component="rope_apply",
        kind="K26",
        reason="takes the strides of fresh tables for granted, so that views are read in the wrong "
        "order",
        remedy="Use the tables' strides, or copy what isn't contiguous.",
        law="rope_apply.views_equal_copies",
        functions=by_tables(_tables_as_contiguous),
    ),
    Fault(
        id="rope_apply.negates_table",
        component="rope_apply",
        kind="K20",
        reason="negates the table of sines in place and leaves it so, which turns whoever uses it "
        "next the other way",
        remedy="Subtract the sine term in place of negating the table.",
        law="rope_apply.inputs_unchanged",
        functions=by_tables(_negates_table),
    ),
    Fault(
        id="rope_apply.result_in_float32",
        component="rope_apply",
        kind="K13",
        reason="returns its float32 intermediate; the result has the dtype of x",
        remedy="Cast the result back to the dtype of x.",
        law="rope_apply.output_form",
        functions=by_tables(_in_float32),
        dtypes=("bfloat16", "float16"),
    ),
    Fault(
        id="rope_apply.partial_tile_of_tokens",
        component="rope_apply",
        kind="K25",
        reason="turns full tiles of sixteen tokens only; those past the last one stay as they are",
        remedy="Round the number of tiles up, and mask the tokens beyond the end.",
        law="rope_apply.matches_oracle",
        functions=by_tables(
            lambda x, cos, sin: without_last_tile(x, right.rope_apply(x, cos, sin))
        ),
    ),
    Fault(
        id="rope_apply.empty_batch_flattened",
        component="rope_apply",
        kind="K25",
        reason="returns early for an empty batch, without the other axes",
        remedy="Return an empty tensor of the shape of x.",
        law="rope_apply.empty_batch",
        functions=by_tables(
            lambda x, cos, sin: right.rope_apply(x, cos, sin) if x.numel() else x.flatten()
        ),
    ),
    Fault(
        id="rope_apply.copy_races_with_rotation",
        component="rope_apply",
        kind="K04",
        reason="copies all channels and writes the turned ones over them from elsewhere, so that "
        "the last channel comes out turned or not, from call to call",
        remedy="Give every channel one writer.",
        law="rope_apply.repeatable",
        functions=_alternating,
        report="1CatAI/1Cat-vLLM #162",
    ),
)
