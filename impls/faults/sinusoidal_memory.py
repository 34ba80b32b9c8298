"""Sinusoidal positions that are wrong about memory: views, tables and buffers kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.sinusoidal_positions import at_positions
from attnspec.impls.faults.views import overwrite, read_as_contiguous
from attnspec.impls.sinusoidal import sinusoidal

Functions = Callable[[], Mapping[str, Callable[..., Any]]]
Rows = Callable[[Tensor, int, float, torch.dtype, torch.device], Tensor]
"""Positions, dim, base, dtype and device to encodings."""


def keeping(kept: Callable[[], Rows]) -> Functions:
    """Encodings by a function with memory."""

    def functions() -> dict[str, Callable[..., Tensor]]:
        rows = kept()

        def encoded(
            positions: Tensor,
            dim: int,
            *,
            base: float = 10000.0,
            dtype: torch.dtype | None = None,
            device: torch.device | str | None = None,
        ) -> Tensor:
            place = positions.device if device is None else torch.device(device)
            return rows(positions, dim, base, dtype or torch.float32, place)

        return {"sinusoidal": encoded}

    return functions


def _right(
    positions: Tensor, dim: int, base: float, dtype: torch.dtype, device: torch.device
) -> Tensor:
    return sinusoidal(positions, dim, base=base, dtype=dtype, device=device)


def _cached_by_length() -> Rows:
    tables: dict[tuple[object, ...], Tensor] = {}

    def rows(
        positions: Tensor, dim: int, base: float, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        fresh = _right(positions, dim, base, dtype, device)
        return tables.setdefault((len(positions), dim, base, dtype, device), fresh).clone()

    return rows


def _table_of_first_base() -> Rows:
    bases: dict[int, float] = {}

    def rows(
        positions: Tensor, dim: int, base: float, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        return _right(positions, dim, bases.setdefault(dim, base), dtype, device)

    return rows


def _rows_of_longest_call() -> Rows:
    longest: dict[tuple[object, ...], Tensor] = {}

    def rows(
        positions: Tensor, dim: int, base: float, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        key = (dim, base, dtype, device)
        if key not in longest or len(longest[key]) < len(positions):
            longest[key] = _right(positions, dim, base, dtype, device)
        return longest[key][: len(positions)].clone()

    return rows


def _buffer_handed_out() -> Rows:
    buffers: dict[tuple[object, ...], Tensor] = {}

    def rows(
        positions: Tensor, dim: int, base: float, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        right = _right(positions, dim, base, dtype, device)
        buffer = buffers.setdefault((right.shape, dtype, device), torch.empty_like(right))
        return buffer.copy_(right)

    return rows


def _races() -> Rows:
    calls = count()

    def rows(
        positions: Tensor, dim: int, base: float, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        right = _right(positions, dim, base, dtype, device)
        # every second time the zeros of the fresh buffer come after the last pair
        late = torch.arange(dim, device=device) >= dim - 2 * (next(calls) % 2)
        return right.masked_fill(late, 0.0)

    return rows


def _in_place(positions: Tensor) -> Tensor:
    counted = positions.clone()
    overwrite(positions, positions + 1)
    return counted


def _largest_of_none() -> Rows:
    def rows(
        positions: Tensor, dim: int, base: float, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        # the largest position, to size a table by: there is none of none
        known = positions.minimum(positions.max())
        return _right(known, dim, base, dtype, device)

    return rows


FAULTS = (
    Fault(
        id="sinusoidal.writes_over_positions",
        component="sinusoidal",
        kind="K20",
        reason="counts the caller's positions on in place, so that the next layer, or the next "
        "call, has other ones",
        remedy="Work on a copy of the positions.",
        law="sinusoidal.inputs_unchanged",
        functions=at_positions(_in_place),
    ),
    Fault(
        id="sinusoidal.positions_read_as_contiguous",
        component="sinusoidal",
        kind="K26",
        reason="takes positions for contiguous, so that those of a view are read from the wrong "
        "places",
        remedy="Use the stride of the positions, or copy what isn't contiguous.",
        law="sinusoidal.views_equal_copies",
        functions=at_positions(read_as_contiguous),
    ),
    Fault(
        id="sinusoidal.last_pair_races",
        component="sinusoidal",
        kind="K04",
        reason="clears its buffer from elsewhere while rows are written, so that the last pair "
        "comes out or is zero, from call to call",
        remedy="Give every channel one writer.",
        law="sinusoidal.repeatable",
        functions=keeping(_races),
    ),
    Fault(
        id="sinusoidal.cached_by_length",
        component="sinusoidal",
        kind="K29",
        reason="keeps rows by the number of positions, whichever these are",
        remedy="Keep a table of all positions and index it, or don't keep one.",
        law="sinusoidal.no_memory",
        functions=keeping(_cached_by_length),
    ),
    Fault(
        id="sinusoidal.table_of_first_base",
        component="sinusoidal",
        kind="K29",
        reason="keeps one table for each width, with the base of the first call",
        remedy="Keep one table for each base.",
        law="sinusoidal.no_memory",
        functions=keeping(_table_of_first_base),
    ),
    Fault(
        id="sinusoidal.rows_of_longest_call",
        component="sinusoidal",
        kind="K29",
        reason="rebuilds its table for a longer call only, and gives shorter ones the first rows, "
        "which belong to other positions",
        remedy="Index the table by position, or build it for every call.",
        law="sinusoidal.no_memory",
        functions=keeping(_rows_of_longest_call),
    ),
    Fault(
        id="sinusoidal.buffer_handed_out",
        component="sinusoidal",
        kind="K29",
        reason="returns a buffer that the next call of the same shape writes again, so that an "
        "earlier result changes in the caller's hands",
        remedy="Return a new tensor, or copy out of the buffer.",
        law="sinusoidal.no_memory",
        functions=keeping(_buffer_handed_out),
    ),
    Fault(
        id="sinusoidal.largest_of_none",
        component="sinusoidal",
        kind="K25",
        reason="sizes its table by the largest position, of which there is none in an empty call",
        remedy="Return an empty table of dim channels where there is no position.",
        law="sinusoidal.empty_batch",
        functions=keeping(_largest_of_none),
    ),
)
