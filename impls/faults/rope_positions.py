"""RoPE that turns tokens by the angles of other positions."""

from __future__ import annotations

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.rope_angles import at_positions
from attnspec.impls.faults.views import read_as_contiguous
from attnspec.impls.rope import turned, turning_angles

TABLE_ROWS = 4096


def _counted(positions: Tensor) -> Tensor:
    return torch.arange(positions.shape[-1], device=positions.device).expand(positions.shape)


def _consecutive(positions: Tensor) -> Tensor:
    if positions.ndim == 2:
        return positions
    return positions[:1] + _counted(positions)


def _head_major_positions(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    turning = turning_angles(x, positions, base, rotary_dim)
    if positions.ndim == 1:
        return turned(x, turning.cos(), turning.sin())
    rows = turning.repeat(x.shape[1], 1, 1)
    flat = x.flatten(0, 1).unsqueeze(1)
    return turned(flat, rows.cos(), rows.sin()).reshape(x.shape)


def _token_axis_guessed(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    turning = turning_angles(x, positions, base, rotary_dim)
    if x.shape[1] == positions.shape[-1]:
        return turned(x.transpose(1, 2), turning.cos(), turning.sin()).transpose(1, 2)
    return turned(x, turning.cos(), turning.sin())


def _offset_swapped(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    # row j of the table lands in row j + offset of a buffer of zeros
    source = _counted(positions) - positions[..., :1]
    turning = turning_angles(x, source, base, rotary_dim)
    empty = (source < 0).unsqueeze(-1)
    return turned(x, turning.cos().masked_fill(empty, 0.0), turning.sin().masked_fill(empty, 0.0))


FAULTS = (
    Fault(
        id="rope.position_plus_one",
        component="rope",
        kind="K09",
        reason="counts positions from one, so that the token at position 0 turns too",
        remedy="Use the positions as they are handed over.",
        law="rope.position_zero_is_identity",
        functions=at_positions(lambda positions: positions + 1),
    ),
    Fault(
        id="rope.positions_ignored",
        component="rope",
        kind="K09",
        reason="accepts positions and turns by the index in the row; packed rows and cached tokens "
        "have other positions",
        remedy="Look the angles up by the positions given.",
        law="rope.matches_oracle",
        functions=at_positions(_counted),
        report="NVIDIA/Megatron-LM #453",
    ),
    Fault(
        id="rope.consecutive_from_first",
        component="rope",
        kind="K09",
        reason="reads the first of one-dimensional positions as an offset and counts on from it; "
        "positions may have gaps and come in any order",
        remedy="Read every position.",
        law="rope.matches_oracle",
        functions=at_positions(_consecutive),
    ),
    Fault(
        id="rope.positions_from_first",
        component="rope",
        kind="K09",
        reason="subtracts the first position of the call from all, so that a token turned alone "
        "is always at 0 and queries and keys of separate calls don't fit",
        remedy="Use the positions as they are handed over.",
        law="rope.matches_oracle",
        functions=at_positions(lambda positions: positions - positions[..., :1]),
    ),
    Fault(
        id="rope.positions_clamped",
        component="rope",
        kind="K09",
        reason="clamps positions to the last row of a table of 4096, so that all tokens beyond "
        "turn alike",
        remedy="Grow the table, or refuse positions beyond it.",
        law="rope.matches_oracle",
        functions=at_positions(lambda positions: positions.clamp_max(TABLE_ROWS - 1)),
    ),
    Fault(
        id="rope.offset_swapped",
        component="rope",
        kind="K09",
        reason="copies the first rows of the table to the offset instead of the rows at the offset "
        "to the start, so that sine and cosine of the first tokens are zero",
        remedy="Slice the table from the first position on.",
        law="rope.pair_norms",
        functions=lambda: {"rope": _offset_swapped},
        report="nntile/nntile #360",
    ),
    Fault(
        id="rope.positions_read_as_contiguous",
        component="rope",
        kind="K26",
        reason="takes the strides of fresh positions for granted, so that a slice or a transpose "
        "of a larger tensor of positions is read in the wrong order",
        remedy="Use the strides of the positions, or copy them when they aren't contiguous.",
        law="rope.views_equal_copies",
        functions=at_positions(read_as_contiguous),
    ),
    Fault(
        id="rope.first_rows_positions",
        component="rope",
        kind="K09",
        reason="turns every row of the batch by the positions of the first",
        remedy="Index the positions by batch entry.",
        law="rope.batch_positions",
        functions=at_positions(
            lambda positions: positions[:1] if positions.ndim == 2 else positions
        ),
    ),
    Fault(
        id="rope.head_major_positions",
        component="rope",
        kind="K07",
        reason="joins batch and heads with the batch outside, but repeats the rows of positions "
        "with the heads outside",
        remedy="Repeat each row of positions once a head, in a row: repeat_interleave.",
        law="rope.row_alone",
        functions=lambda: {"rope": _head_major_positions},
    ),
    Fault(
        id="rope.token_axis_guessed",
        component="rope",
        kind="K07",
        reason="takes the second axis for the tokens where its size is that of the positions, so "
        "that heads turn instead where there are as many heads as tokens",
        remedy="Take the tokens from the axis before the last.",
        law="rope.matches_oracle",
        functions=lambda: {"rope": _token_axis_guessed},
    ),
)
