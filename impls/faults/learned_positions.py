"""Learned positions that read other rows, or other numbers than stand in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import learned_positions as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.views import overwrite, read_as_contiguous

Lookup = Callable[[Tensor, Tensor], Tensor]
Functions = Callable[[], Mapping[str, Callable[..., Any]]]

TILE = 16


def by_lookup(lookup: Lookup) -> Functions:
    """From a function of positions and table."""

    def learned_positions(positions: Tensor, table: Tensor) -> Tensor:
        return lookup(positions, table)

    return lambda: {"learned_positions": learned_positions}


def at_rows(moved: Lookup) -> Functions:
    """Rows of other numbers, by positions and table."""
    return by_lookup(lambda p, table: right.learned_positions(moved(p, table), table))


def of_table(changed: Callable[[Tensor], Tensor]) -> Functions:
    """The right rows of another table."""
    return by_lookup(lambda p, table: right.learned_positions(p, changed(table)))


def _counted(positions: Tensor, table: Tensor) -> Tensor:
    return torch.arange(len(positions), device=positions.device) % len(table)


def _zeros_outside(positions: Tensor, table: Tensor) -> Tensor:
    inside = (positions >= 0) & (positions < len(table))
    found = right.learned_positions(positions.where(inside, 0), table)
    return found.where(inside.unsqueeze(-1), 0.0)


def _wide_rows_cut(positions: Tensor, table: Tensor) -> Tensor:
    found = right.learned_positions(positions, table)
    full = table.shape[-1] // TILE * TILE or table.shape[-1]
    channels = torch.arange(table.shape[-1], device=table.device)
    return found.where(channels < full, 0.0)


def _rescaled_in_place(positions: Tensor, table: Tensor) -> Tensor:
    found = right.learned_positions(positions, table)
    norms = table.detach().norm(dim=-1, keepdim=True)
    overwrite(table, table.detach() / norms.clamp_min(1.0))
    return found


def _first_table_kept() -> Mapping[str, Callable[..., Any]]:
    tables: dict[tuple[object, ...], Tensor] = {}

    def learned_positions(positions: Tensor, table: Tensor) -> Tensor:
        kept = tables.setdefault((table.shape, table.dtype, table.device), table.clone())
        return right.learned_positions(positions, kept)

    return {"learned_positions": learned_positions}


def _dropout_left_on() -> Mapping[str, Callable[..., Any]]:
    calls = [0]

    def learned_positions(positions: Tensor, table: Tensor) -> Tensor:
        calls[0] += 1
        found = right.learned_positions(positions, table)
        places = torch.arange(found.numel(), device=table.device).reshape(found.shape)
        return found.where((places + calls[0]) % 10 > 0, 0.0)

    return {"learned_positions": learned_positions}


FAULTS = (
    Fault(
        id="learned_positions.positions_ignored",
        component="learned_positions",
        kind="K09",
        reason="accepts positions and reads row i for token i; packed rows and cached tokens have "
        "other positions",
        remedy="Index the table by the positions given.",
        law="learned_positions.matches_oracle",
        functions=at_rows(_counted),
    ),
    Fault(
        id="learned_positions.sorted",
        component="learned_positions",
        kind="K09",
        reason="sorts the positions to read the table in order, and returns the rows in that order",
        remedy="Put the rows back to the order of the tokens.",
        law="learned_positions.row_read_off",
        functions=at_rows(lambda p, table: p.sort().values),
    ),
    Fault(
        id="learned_positions.position_plus_one",
        component="learned_positions",
        kind="K18",
        reason="counts positions from one, so that every token reads the row behind its own",
        remedy="Read row 0 for position 0.",
        law="learned_positions.row_read_off",
        functions=at_rows(lambda p, table: (p + 1).clamp_max(len(table) - 1)),
    ),
    Fault(
        id="learned_positions.reserved_rows_not_skipped",
        component="learned_positions",
        kind="K18",
        reason="subtracts an offset of two, for rows that this table doesn't reserve, so that "
        "every token reads a row two too low",
        remedy="Count the offset where the table is made, or nowhere.",
        law="learned_positions.row_read_off",
        functions=at_rows(lambda p, table: (p - 2).clamp_min(0)),
        report="EleutherAI/gpt-neox #650",
    ),
    Fault(
        id="learned_positions.last_row_out_of_reach",
        component="learned_positions",
        kind="K25",
        reason="clamps positions to L-2, so that the last row is never read",
        remedy="The last legal position is L-1.",
        law="learned_positions.matches_oracle",
        functions=at_rows(lambda p, table: p.clamp_max(max(len(table) - 2, 0))),
    ),
    Fault(
        id="learned_positions.positions_in_bytes",
        component="learned_positions",
        kind="K12",
        reason="stores positions in eight bits, so that position 256 reads row 0",
        remedy="Keep positions in 32 bits or more.",
        law="learned_positions.matches_oracle",
        functions=at_rows(lambda p, table: p % 256),
    ),
    Fault(
        id="learned_positions.positions_in_bfloat16",
        component="learned_positions",
        kind="K12",
        reason="stores positions in bfloat16, as a model does that casts all its inputs; beyond "
        "256 two tokens in a row read one row",
        remedy="Keep positions as integers.",
        law="learned_positions.matches_oracle",
        functions=at_rows(
            lambda p, table: p.to(torch.bfloat16).long().clamp_max(len(table) - 1)
        ),
    ),
    Fault(
        id="learned_positions.negative_wraps",
        component="learned_positions",
        kind="K18",
        reason="takes position -1 for the last row, as indexing in Python does, and hides that a "
        "position was computed wrongly",
        remedy="Refuse negative positions, or look up by an operator that does.",
        law="learned_positions.outside_is_an_error",
        functions=at_rows(lambda p, table: torch.where(p < 0, p + len(table), p)),
    ),
    Fault(
        id="learned_positions.clamped",
        component="learned_positions",
        kind="K18",
        reason="clamps positions to the table, so that all tokens beyond its end are at one place",
        remedy="Refuse positions beyond the table.",
        law="learned_positions.outside_is_an_error",
        functions=at_rows(lambda p, table: p.clamp(0, len(table) - 1)),
    ),
    Fault(
        id="learned_positions.modulo_length",
        component="learned_positions",
        kind="K18",
        reason="takes positions modulo the length of the table, so that token L is at 0 again",
        remedy="Refuse positions beyond the table.",
        law="learned_positions.outside_is_an_error",
        functions=at_rows(lambda p, table: p % len(table)),
    ),
    Fault(
        id="learned_positions.zeros_outside",
        component="learned_positions",
        kind="K18",
        reason="gives tokens beyond the table a row of zeros, as if they had no position",
        remedy="Refuse positions beyond the table.",
        law="learned_positions.outside_is_an_error",
        functions=by_lookup(_zeros_outside),
    ),
    Fault(
        id="learned_positions.last_free",
        component="learned_positions",
        kind="K25",
        reason="checks positions against L in place of L-1: position L, one past the end, gets "
        "through",
        remedy="Refuse positions from L on.",
        law="learned_positions.outside_is_an_error",
        functions=at_rows(lambda p, table: torch.where(p == len(table), len(table) - 1, p)),
    ),
    Fault(
        id="learned_positions.table_in_bfloat16",
        component="learned_positions",
        kind="K13",
        reason="keeps the table in bfloat16; rows come back bit by bit",
        remedy="Keep the table in its own dtype.",
        law="learned_positions.matches_oracle",
        functions=of_table(lambda table: table.to(torch.bfloat16).to(table.dtype)),
        dtypes=("float64", "float32", "float16"),
    ),
    Fault(
        id="learned_positions.float32_inside",
        component="learned_positions",
        kind="K13",
        reason="copies rows of float64 by way of float32; they come back changed",
        remedy="Copy rows in their own dtype.",
        law="learned_positions.matches_oracle",
        functions=of_table(lambda table: table.to(torch.float32).to(table.dtype)),
        dtypes=("float64",),
    ),
    Fault(
        id="learned_positions.scaled",
        component="learned_positions",
        kind="K05",
        reason="multiplies rows by the root of the width, which belongs to the embedding of words",
        remedy="Scale embeddings where they are made, and leave the rows of positions alone.",
        law="learned_positions.matches_oracle",
        functions=of_table(lambda table: table * table.shape[-1] ** 0.5),
    ),
    Fault(
        id="learned_positions.table_centred",
        component="learned_positions",
        kind="K30",
        reason="subtracts the mean of all rows, so that a row depends on those that nobody reads",
        remedy="Centre the table when it is made, or not at all.",
        law="learned_positions.other_rows_change_nothing",
        functions=of_table(lambda table: table - table.mean(dim=0, keepdim=True)),
    ),
    Fault(
        id="learned_positions.wide_rows_cut",
        component="learned_positions",
        kind="K25",
        reason="copies full tiles of sixteen channels only; those past the last one are zero",
        remedy="Round the number of tiles up, and mask the channels beyond the end.",
        law="learned_positions.matches_oracle",
        functions=by_lookup(_wide_rows_cut),
    ),
    Fault(
        id="learned_positions.rescaled_in_place",
        component="learned_positions",
        kind="K20",
        reason="brings the rows to length 1 at most in the caller's own table",
        remedy="Rescale a copy, or leave it to the optimizer.",
        law="learned_positions.inputs_unchanged",
        functions=by_lookup(_rescaled_in_place),
    ),
    Fault(
        id="learned_positions.table_read_as_contiguous",
        component="learned_positions",
        kind="K26",
        reason="takes the strides of a fresh table for granted, so that a slice or a transpose is "
        "read in the wrong order",
        remedy="Use the table's strides, or copy it when it isn't contiguous.",
        law="learned_positions.views_equal_copies",
        functions=of_table(read_as_contiguous),
    ),
    Fault(
        id="learned_positions.first_table_kept",
        component="learned_positions",
        kind="K29",
        reason="keeps the table of the first call, whatever table later calls bring",
        remedy="Read the table that is passed.",
        law="learned_positions.no_memory",
        functions=_first_table_kept,
    ),
    Fault(
        id="learned_positions.dropout_left_on",
        component="learned_positions",
        kind="K29",
        reason="drops a tenth of the numbers, others in every call",
        remedy="Drop outside of the lookup, and in training only.",
        law="learned_positions.repeatable",
        functions=_dropout_left_on,
    ),
    Fault(
        id="learned_positions.result_in_float32",
        component="learned_positions",
        kind="K13",
        reason="returns float32 for a table in half precision",
        remedy="Return the table's dtype.",
        law="learned_positions.output_form",
        functions=by_lookup(lambda p, table: right.learned_positions(p, table).to(
            torch.promote_types(table.dtype, torch.float32)
        )),
        dtypes=("bfloat16", "float16"),
    ),
    Fault(
        id="learned_positions.empty_flattened",
        component="learned_positions",
        kind="K25",
        reason="returns early where there is no token, without the axis of the channels",
        remedy="Return an empty tensor of shape 0 m.",
        law="learned_positions.empty_batch",
        functions=by_lookup(
            lambda p, table: right.learned_positions(p, table) if len(p) else table[:0, 0]
        ),
    ),
)  # fmt: skip
