"""Sinusoidal positions of other positions, and in narrower formats."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.sinusoidal import Functions, by_table, right_angles
from attnspec.impls.sinusoidal import encoding_frequencies, sinusoidal

TABLE_ROWS = 512


def at_positions(moved: Callable[[Tensor], Tensor]) -> Functions:
    """Right encodings, of other positions."""

    def encoded(
        positions: Tensor,
        dim: int,
        *,
        base: float = 10000.0,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Tensor:
        return sinusoidal(moved(positions), dim, base=base, dtype=dtype, device=device)

    return lambda: {"sinusoidal": encoded}


def from_table(row: Callable[[Tensor, Tensor, torch.dtype | None], Tensor]) -> Functions:
    """The right encodings and their positions, and the dtype asked for, to what is returned."""

    def encoded(
        positions: Tensor,
        dim: int,
        *,
        base: float = 10000.0,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Tensor:
        right = sinusoidal(positions, dim, base=base, dtype=dtype, device=device)
        return row(right, positions.to(right.device), dtype)

    return lambda: {"sinusoidal": encoded}


def _counted(positions: Tensor) -> Tensor:
    return torch.arange(len(positions), device=positions.device)


def _bfloat16_frequencies(
    positions: Tensor, dim: int, base: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    wide = torch.promote_types(dtype, torch.float32)
    turns = encoding_frequencies(dim, base, dtype=wide, device=positions.device)
    angle = positions.to(wide).unsqueeze(-1) * turns.to(torch.bfloat16).to(wide)
    return angle, angle


def _angles_in_storage(
    positions: Tensor, dim: int, base: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    angle = right_angles(positions, dim, base, dtype).to(dtype)
    return angle, angle


def _in_storage(
    positions: Tensor, dim: int, base: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    wide = torch.promote_types(dtype, torch.float32)
    turns = encoding_frequencies(dim, base, dtype=wide, device=positions.device)
    angle = positions.to(dtype).unsqueeze(-1) * turns.to(dtype)
    return angle, angle


def _padding_row(rows: Tensor, positions: Tensor, _dtype: torch.dtype | None) -> Tensor:
    return rows.masked_fill((positions == 0).unsqueeze(-1), 0.0)


def _sorted_rows(_rows: Tensor, positions: Tensor, _dtype: torch.dtype | None) -> Tensor:
    return _rows[positions.argsort()]


def _always_float32(rows: Tensor, _positions: Tensor, _dtype: torch.dtype | None) -> Tensor:
    return rows.to(torch.float32)


def _through_bfloat16(rows: Tensor, _positions: Tensor, _dtype: torch.dtype | None) -> Tensor:
    return rows.to(torch.bfloat16).to(rows.dtype)


FAULTS = (
    Fault(
        id="sinusoidal.position_plus_one",
        component="sinusoidal",
        kind="K09",
        reason="counts positions from one, so that the row of position 0 is that of 1",
        remedy="Use the positions as they are handed over.",
        law="sinusoidal.position_zero",
        functions=at_positions(lambda positions: positions + 1),
    ),
    Fault(
        id="sinusoidal.padding_row_zero",
        component="sinusoidal",
        kind="K09",
        reason="keeps row 0 for padding and fills it with zeros; position 0 is the first token's",
        remedy="Keep a padding row outside of the positions, or mask padding elsewhere.",
        law="sinusoidal.position_zero",
        functions=from_table(_padding_row),
    ),
    Fault(
        id="sinusoidal.positions_ignored",
        component="sinusoidal",
        kind="K09",
        reason="accepts positions and encodes the index in the call; packed rows and cached tokens "
        "have other positions",
        remedy="Encode the positions given.",
        law="sinusoidal.matches_oracle",
        functions=at_positions(_counted),
    ),
    Fault(
        id="sinusoidal.consecutive_from_first",
        component="sinusoidal",
        kind="K09",
        reason="reads the first position as an offset and counts on from it; positions may have "
        "gaps and come in any order",
        remedy="Read every position.",
        law="sinusoidal.permuted_positions",
        functions=at_positions(lambda positions: positions[:1] + _counted(positions)),
    ),
    Fault(
        id="sinusoidal.rows_sorted",
        component="sinusoidal",
        kind="K09",
        reason="returns the rows in ascending order of their positions; they belong in the order "
        "of the call",
        remedy="Undo the sorting, or don't sort.",
        law="sinusoidal.permuted_positions",
        functions=from_table(_sorted_rows),
    ),
    Fault(
        id="sinusoidal.positions_from_first",
        component="sinusoidal",
        kind="K09",
        reason="subtracts the first position of the call from all, so that a token encoded alone "
        "is always at 0",
        remedy="Use the positions as they are handed over.",
        law="sinusoidal.row_alone",
        functions=at_positions(lambda positions: positions - positions[:1]),
    ),
    Fault(
        id="sinusoidal.positions_clamped",
        component="sinusoidal",
        kind="K09",
        reason=f"clamps positions to the {TABLE_ROWS} rows of a table, so that all beyond share "
        "the last one",
        remedy="Grow the table, or compute the rows: the formula has no end.",
        law="sinusoidal.distinct_positions",
        functions=at_positions(lambda positions: positions.clamp(max=TABLE_ROWS - 1)),
    ),
    Fault(
        id="sinusoidal.positions_modulo_table",
        component="sinusoidal",
        kind="K09",
        reason=f"takes positions modulo the {TABLE_ROWS} rows of a table; encodings have no period",
        remedy="Grow the table, or compute the rows: the formula has no end.",
        law="sinusoidal.angle_addition",
        functions=at_positions(lambda positions: positions % TABLE_ROWS),
    ),
    Fault(
        id="sinusoidal.positions_in_int16",
        component="sinusoidal",
        kind="K12",
        reason="stores positions in sixteen bits, so that they wrap round to negative ones from "
        "32768 on",
        remedy="Keep positions in 32 bits or more.",
        law="sinusoidal.matches_oracle",
        functions=at_positions(lambda positions: positions.to(torch.int16)),
    ),
    Fault(
        id="sinusoidal.positions_in_bfloat16",
        component="sinusoidal",
        kind="K12",
        reason="stores positions in bfloat16, where neighbours beyond 256 become the same number; "
        "positions are integers or float32",
        remedy="Keep positions as integers until they meet the frequencies in float32.",
        law="sinusoidal.step_is_constant",
        functions=at_positions(lambda positions: positions.to(torch.bfloat16)),
    ),
    Fault(
        id="sinusoidal.positions_in_float16",
        component="sinusoidal",
        kind="K12",
        reason="stores positions in float16, where neighbours beyond 2048 become the same number; "
        "positions are integers or float32",
        remedy="Keep positions as integers until they meet the frequencies in float32.",
        law="sinusoidal.shift_is_a_rotation",
        functions=at_positions(lambda positions: positions.to(torch.float16)),
    ),
    Fault(
        id="sinusoidal.frequencies_in_bfloat16",
        component="sinusoidal",
        kind="K12",
        reason="rounds the frequencies to bfloat16, as a cast of the whole model does to a buffer, "
        "so that the error of the angle grows with the position",
        remedy="Keep the frequencies in float32 whatever the model is cast to.",
        law="sinusoidal.frequencies_read_off",
        functions=by_table(_bfloat16_frequencies),
    ),
    Fault(
        id="sinusoidal.angles_in_storage",
        component="sinusoidal",
        kind="K12",
        reason="rounds the angle to half precision before sine and cosine; only their values may "
        "be rounded",
        remedy="Form angles in float32, take sine and cosine, and then cast.",
        law="sinusoidal.matches_oracle",
        functions=by_table(_angles_in_storage),
        dtypes=("bfloat16", "float16"),
    ),
    Fault(
        id="sinusoidal.computed_in_storage",
        component="sinusoidal",
        kind="K12",
        reason="keeps positions, frequencies and their products in the half precision of the "
        "model, so that far positions have the rows of others",
        remedy="Form angles in float32 whatever the model is cast to, take sine and cosine, and "
        "then cast.",
        law="sinusoidal.matches_oracle",
        functions=by_table(_in_storage),
        report="wfondrie/depthcharge #82",
        dtypes=("bfloat16", "float16"),
    ),
    Fault(
        id="sinusoidal.table_in_bfloat16",
        component="sinusoidal",
        kind="K13",
        reason="builds the table in bfloat16 and casts it to the dtype asked for, which brings "
        "back no digit",
        remedy="Build the table in float32, and cast once.",
        law="sinusoidal.unit_pairs",
        functions=from_table(_through_bfloat16),
        dtypes=("float64", "float32", "float16"),
    ),
    Fault(
        id="sinusoidal.result_in_float32",
        component="sinusoidal",
        kind="K29",
        reason="accepts `dtype` and returns float32 whatever it says",
        remedy="Cast the result to the dtype asked for.",
        law="sinusoidal.output_form",
        functions=from_table(_always_float32),
        dtypes=("float64", "bfloat16", "float16"),
    ),
)
