"""RoPE that is wrong for a part of the channels, for packed documents, or beside a cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import rope as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.rope import rotated
from attnspec.impls.faults.rope_angles import at_positions
from attnspec.impls.faults.rope_memory import with_kept_angles
from attnspec.impls.rope import turned, turned_halves, turning_angles

Call = Callable[[Tensor, Tensor, float, "int | None"], Tensor]
Functions = Callable[[], Mapping[str, Callable[..., Any]]]

TABLE_ROWS = 2048
TRAINED_LENGTH = 256


def by_call(call: Call) -> Functions:
    """From a function of x, positions, base and rotary_dim."""

    def rope(
        x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
    ) -> Tensor:
        return call(x, positions, base, rotary_dim)

    return lambda: {"rope": rope}


def _width(x: Tensor, rotary_dim: int | None) -> int:
    return x.shape[-1] if rotary_dim is None else rotary_dim


def _frequencies_of_last_pairs(x: Tensor, at: Tensor, base: float, width: int | None) -> Tensor:
    whole = turning_angles(x, at, base, None)
    angles = whole[..., whole.shape[-1] - _width(x, width) // 2 :]
    return rotated(x, angles)


def _rotary_dim_counts_pairs(x: Tensor, at: Tensor, base: float, width: int | None) -> Tensor:
    return right.rope(x, at, base=base, rotary_dim=min(2 * _width(x, width), x.shape[-1]))


def _last_channels_turn(x: Tensor, at: Tensor, base: float, width: int | None) -> Tensor:
    still = x.shape[-1] - _width(x, width)
    return torch.cat((x[..., :still], right.rope(x[..., still:], at, base=base)), -1)


def _partner_half_a_head_away(x: Tensor, at: Tensor, base: float, width: int | None) -> Tensor:
    angles = turning_angles(x, at, base, width)
    # the pairs beyond don't turn
    still = x.shape[-1] // 2 - angles.shape[-1]
    angles = torch.nn.functional.pad(angles, (0, still))
    return turned_halves(x, angles.cos(), angles.sin())


def _pairs_spread_over_head(x: Tensor, at: Tensor, base: float, width: int | None) -> Tensor:
    angles = turning_angles(x, at, base, width)
    pairs = x.shape[-1] // 2
    step = pairs // max(angles.shape[-1], 1)
    spread = torch.zeros((*angles.shape[:-1], pairs), dtype=angles.dtype, device=x.device)
    places = torch.arange(angles.shape[-1], device=x.device) * step + step - 1
    return rotated(x, spread.index_copy(-1, places, angles))


def _rest_turns_slowly(x: Tensor, at: Tensor, base: float, width: int | None) -> Tensor:
    angles = turning_angles(x, at, base, width)
    still = x.shape[-1] // 2 - angles.shape[-1]
    slowest = angles[..., -1:] / base
    return rotated(x, torch.cat((angles, slowest.expand(*angles.shape[:-1], still)), -1))


def _rest_damped(x: Tensor, at: Tensor, base: float, width: int | None) -> Tensor:
    front = right.rope(x, at, base=base, rotary_dim=width)
    r = _width(x, width)
    damping = torch.exp2(-at.to(torch.float32) / 2**12).to(x.dtype)[..., None, :, None]
    return torch.cat((front[..., :r], front[..., r:] * damping), -1)


def _stream_weighted(x: Tensor, at: Tensor, base: float, width: int | None) -> Tensor:
    angles = turning_angles(x, at, base, width)
    share = (_width(x, width) / x.shape[-1]) ** 0.5
    return turned(x, share * angles.cos(), share * angles.sin())


def _counted(positions: Tensor) -> Tensor:
    return torch.arange(positions.shape[-1], device=positions.device).expand(positions.shape)


def _counted_from_last_zero(positions: Tensor) -> Tensor:
    places = _counted(positions)
    if not positions.shape[-1]:
        return places
    return places - places.where(positions == 0, 0).cummax(-1).values


def _rows_of_longest(positions: Tensor) -> Tensor:
    # one table for the longest document, of which the next tokens take the next rows
    if not positions.numel():
        return positions
    longest = positions.amax(-1, keepdim=True) + 1
    return (positions[..., :1] + _counted(positions)) % longest


def _token_as_in_first_entry(x: Tensor, at: Tensor, base: float, width: int | None) -> Tensor:
    decoding = at.ndim == 2 and at.shape[-1] == 1
    return right.rope(x, at[:1].expand(at.shape) if decoding else at, base=base, rotary_dim=width)


def _table_of_first_call() -> Callable[..., Tensor]:
    rows: list[Tensor] = []

    def angles(x: Tensor, positions: Tensor, base: float, rotary_dim: int | None) -> Tensor:
        if not rows and positions.numel():
            rows.append(positions.max().clamp_min(TRAINED_LENGTH))
        if rows:
            positions = torch.minimum(positions, rows[0].to(positions))
        return turning_angles(x, positions, base, rotary_dim)

    return angles


def _steps_on_from_last_call() -> Callable[..., Tensor]:
    last: list[Tensor] = []

    def angles(x: Tensor, positions: Tensor, base: float, rotary_dim: int | None) -> Tensor:
        if positions.shape[-1] == 1 and last:
            positions = (last[0].to(positions) + 1).expand(positions.shape)
        if positions.numel():
            last[:] = [positions.flatten()[-1]]
        return turning_angles(x, positions, base, rotary_dim)

    return angles


def _rows_lose_base(x: Tensor, at: Tensor, base: float, width: int | None) -> Tensor:
    return right.rope(x, at, base=base if at.ndim == 1 else 10000.0, rotary_dim=width)


FAULTS = (
    Fault(
        id="rope.frequencies_of_last_pairs",
        component="rope",
        kind="K11",
        reason="forms the frequencies of the whole head, and turns a part of the channels by the "
        "last of them",
        remedy="Form rotary_dim / 2 frequencies with the exponents -2i / rotary_dim.",
        law="rope.partial_frequencies",
        functions=by_call(_frequencies_of_last_pairs),
    ),
    Fault(
        id="rope.rotary_dim_counts_pairs",
        component="rope",
        kind="K11",
        reason="takes rotary_dim for a number of pairs, so that twice as many channels turn",
        remedy="Turn rotary_dim channels, which are half as many pairs.",
        law="rope.partial_frequencies",
        functions=by_call(_rotary_dim_counts_pairs),
    ),
    Fault(
        id="rope.last_channels_turn",
        component="rope",
        kind="K11",
        reason="turns the last rotary_dim channels of a head in place of the first",
        remedy="Split the head behind the channels that turn, not before them.",
        law="rope.partial_eq_narrow_head",
        functions=by_call(_last_channels_turn),
    ),
    Fault(
        id="rope.partner_half_a_head_away",
        component="rope",
        kind="K11",
        reason="joins channels i and i + d/2 where a part of the head turns; the partner lies half "
        "of the rotary width away",
        remedy="Split the channels that turn into halves, not the head.",
        law="rope.partial_eq_narrow_head",
        functions=by_call(_partner_half_a_head_away),
        report="pie-project/pie #602",
        conventions={"rope.layout": "half"},
    ),
    Fault(
        id="rope.pairs_spread_over_head",
        component="rope",
        kind="K10",
        reason="spreads the pairs that turn evenly over the head; they are the first ones",
        remedy="Turn the channels 0 to rotary_dim - 1.",
        law="rope.partial_eq_narrow_head",
        functions=by_call(_pairs_spread_over_head),
    ),
    Fault(
        id="rope.rest_turns_slowly",
        component="rope",
        kind="K11",
        reason="turns the channels beyond rotary_dim by a slow frequency of their own; they carry "
        "content and stay as they are",
        remedy="Copy the channels beyond rotary_dim.",
        law="rope.content_without_position",
        functions=by_call(_rest_turns_slowly),
    ),
    Fault(
        id="rope.rest_damped_by_position",
        component="rope",
        kind="K05",
        reason="damps the channels that don't turn by a factor that falls with the position, so "
        "that scores of contents depend on it",
        remedy="Copy the channels beyond rotary_dim.",
        law="rope.content_without_position",
        functions=by_call(_rest_damped),
    ),
    Fault(
        id="rope.stream_weighted",
        component="rope",
        kind="K05",
        reason="multiplies the channels that turn by the root of their share of the head, so that "
        "the position weighs less in a score than the content",
        remedy="Concatenate both streams as they are, and scale the score.",
        law="rope.streams_add_up",
        functions=by_call(_stream_weighted),
    ),
    Fault(
        id="rope.restarts_overlooked",
        component="rope",
        kind="K09",
        reason="reads the first position of a row and counts on from it, over the beginnings of "
        "other documents that are packed behind",
        remedy="Read the position of every token.",
        law="rope.packed_documents",
        functions=at_positions(lambda positions: positions[..., :1] + _counted(positions)),
        report="epfLLM/Megatron-LLM #23",
    ),
    Fault(
        id="rope.rows_of_longest_document",
        component="rope",
        kind="K09",
        reason="lays a table as long as the longest document over the row again and again, as if "
        "all documents were as long",
        remedy="Read the position of every token.",
        law="rope.packed_documents",
        functions=at_positions(_rows_of_longest),
    ),
    Fault(
        id="rope.counted_from_last_zero",
        component="rope",
        kind="K09",
        reason="finds the beginnings of documents by their zeros and counts from there, so that a "
        "chunk that begins within a document is counted from 0",
        remedy="Read the position of every token, and don't count.",
        law="rope.chunk_by_chunk",
        functions=at_positions(_counted_from_last_zero),
    ),
    Fault(
        id="rope.token_alone_as_in_first_entry",
        component="rope",
        kind="K09",
        reason="turns single tokens, as decoding has them, by the position of the first entry of "
        "the batch; others may have longer caches",
        remedy="Index the positions by batch entry, for one token as for many.",
        law="rope.chunk_by_chunk",
        functions=by_call(_token_as_in_first_entry),
    ),
    Fault(
        id="rope.table_of_first_call",
        component="rope",
        kind="K29",
        reason="builds its table as long as the first call needs, 256 at least, and clamps later "
        "positions to it",
        remedy="Grow the table with the positions, or form angles for every call.",
        law="rope.cached_keys",
        functions=with_kept_angles(_table_of_first_call),
    ),
    Fault(
        id="rope.steps_on_from_last_call",
        component="rope",
        kind="K29",
        reason="turns a single token by one position more than the call before, whichever sequence "
        "that was of and wherever the token stands",
        remedy="Read the position that is passed.",
        law="rope.cached_keys",
        functions=with_kept_angles(_steps_on_from_last_call),
        report="huggingface/transformers #47597",
    ),
    Fault(
        id="rope.rows_lose_base",
        component="rope",
        kind="K29",
        reason="has a path of its own for positions of each entry, to which base isn't handed on",
        remedy="Form the frequencies once, before the paths part.",
        law="rope.rows_eq_shared",
        functions=by_call(_rows_lose_base),
    ),
    Fault(
        id="rope.rows_clamped",
        component="rope",
        kind="K09",
        reason="looks up positions of each entry in a table of 2048 rows and clamps those beyond, "
        "and forms the angles of shared positions freshly",
        remedy="Grow the table, or form all angles alike.",
        law="rope.rows_eq_shared",
        functions=at_positions(
            lambda positions: (
                positions.clamp_max(TABLE_ROWS - 1) if positions.ndim == 2 else positions
            )
        ),
    ),
)
