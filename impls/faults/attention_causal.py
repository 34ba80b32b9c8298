"""Attention whose causal frontier is misplaced, left out or drawn by tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attnspec.impls.faults.attention_steps import (
    Call,
    Functions,
    allowed,
    before,
    by_arguments,
    by_visible,
    in_window,
    offsets,
    visible,
)
from attnspec.impls.faults.fault import Fault

TILE = 4


def by_frontier(seen: Callable[[Call, Tensor], Tensor]) -> Functions:
    """An attention with another causal part: `seen(call, key position - query position)`."""

    def everything(given: Call) -> Tensor:
        distance = offsets(given)
        part = seen(given, distance) if given.causal else before(given, distance)
        return allowed(given) & part & in_window(given, distance)

    return by_visible(everything)


def rows_and_keys(given: Call) -> tuple[Tensor, Tensor]:
    """Numbers of the queries, `t 1`, and of the keys, `s`."""
    length, keys = given.lengths
    rows = torch.arange(length, device=given.q.device)[:, None]
    return rows, torch.arange(keys, device=given.q.device)


def _without_offset(given: Call, distance: Tensor) -> Tensor:
    return offsets(given, 0) <= 0


def _offset_not_negative(given: Call, distance: Tensor) -> Tensor:
    length, keys = given.lengths
    return offsets(given, max(keys - length, 0)) <= 0


def _by_tiles_of_rows(given: Call, distance: Tensor) -> Tensor:
    rows, _ = rows_and_keys(given)
    last_of_tile = TILE - 1 - rows % TILE
    return distance <= last_of_tile


def _mask_left_out_of_tile(given: Call, distance: Tensor) -> Tensor:
    rows, keys = rows_and_keys(given)
    length, count = given.lengths
    first_frontier = rows // TILE * TILE + count - length
    last_key = keys // TILE * TILE + TILE - 1
    return (distance <= 0) | (last_key <= first_frontier + 1)


def _tiles_rounded_down(given: Call, distance: Tensor) -> Tensor:
    rows, keys = rows_and_keys(given)
    length, count = given.lengths
    last_row = (rows // TILE * TILE + TILE - 1).clamp_max(length - 1)
    reach = (last_row + 1 + count - length) // TILE * TILE
    return (distance <= 0) & ((keys < reach) | (reach < TILE))


def _not_for_cross_attention(given: Call, distance: Tensor) -> Tensor:
    length, keys = given.lengths
    return distance <= 0 if length == keys else torch.ones_like(distance, dtype=torch.bool)


def _second_tile_strict(given: Call, distance: Tensor) -> Tensor:
    _, keys = rows_and_keys(given)
    return (distance <= 0) & ((distance != 0) | (keys != TILE))


def _last_two_rows_as_one(given: Call, distance: Tensor) -> Tensor:
    rows, _ = rows_and_keys(given)
    length, _ = given.lengths
    alone = (rows == length - 2) & (length % 2 == 1)
    return (distance <= 0) | (alone & (distance == 1))


def _not_with_mask(given: Call) -> Call:
    return given if given.mask is None else replace(given, causal=False)


def _not_with_bias(given: Call) -> Call:
    return given if given.bias is None else replace(given, causal=False)


def _not_in_later_entries(given: Call) -> Tensor:
    entries = torch.arange(given.q.shape[0], device=given.q.device)[:, None, None, None]
    return torch.where(entries < 2, visible(given), visible(replace(given, causal=False)))


FAULTS = (
    Fault(
        id="attention.causal_top_left",
        component="attention",
        kind="K01",
        reason="lets query i see keys up to i, also where queries are fewer than keys, so that a "
        "continuation doesn't see its past; the last query sits on the last key",
        remedy="Compare key j with i + s - t, or declare top-left alignment.",
        law="attention.suffix_of_queries",
        functions=by_frontier(_without_offset),
        report="NVIDIA/cutlass #2336",
    ),
    Fault(
        id="attention.causal_offset_not_negative",
        component="attention",
        kind="K01",
        reason="clips the offset s - t at zero, so that with more queries than keys the first "
        "queries see keys of the future; those rows are empty",
        remedy="Let the offset be negative.",
        law="attention.empty_rows",
        functions=by_frontier(_offset_not_negative),
    ),
    Fault(
        id="attention.causal_one_too_far",
        component="attention",
        kind="K01",
        reason="hides keys from i + 2 on, so that every query sees one key of the future",
        remedy="Hide every key after the query's own position.",
        law="attention.causal_eq_mask",
        functions=by_frontier(lambda given, distance: distance <= 1),
    ),
    Fault(
        id="attention.causal_without_itself",
        component="attention",
        kind="K01",
        reason="hides the key at the query's own position; a query sees itself",
        remedy="Hide keys with j > i, not those with j >= i.",
        law="attention.causal_eq_mask",
        functions=by_frontier(lambda given, distance: distance < 0),
    ),
    Fault(
        id="attention.causal_by_four_rows",
        component="attention",
        kind="K01",
        reason="takes one frontier for four neighbouring rows, that of the last, so that the "
        "others see up to three keys of the future",
        remedy="Compare each row's own position with the keys.",
        law="attention.hidden_keys_change_nothing",
        functions=by_frontier(_by_tiles_of_rows),
        report="pytorch/pytorch #195910",
    ),
    Fault(
        id="attention.causal_tile_left_out",
        component="attention",
        kind="K01",
        reason="takes a tile for one without future keys although its last key lies one after "
        "its first query, so that this one row sees one key of the future",
        remedy="Leave the mask out only where the tile's last key isn't after its first query.",
        law="attention.hidden_keys_change_nothing",
        functions=by_frontier(_mask_left_out_of_tile),
    ),
    Fault(
        id="attention.causal_tiles_rounded_down",
        component="attention",
        kind="K01",
        reason="rounds the number of key tiles that a tile of queries needs down, so that its last "
        "rows lose the keys of a tile that they see in part",
        remedy="Round the number of key tiles up, and mask inside of the last one.",
        law="attention.visible_values_matter",
        functions=by_frontier(_tiles_rounded_down),
    ),
    Fault(
        id="attention.causal_key_four_lost",
        component="attention",
        kind="K01",
        reason="starts the second tile of keys with a strict comparison, so that the one row at "
        "position 4 doesn't see itself; all other pairs are right",
        remedy="Use one comparison, j <= i, for every tile.",
        law="attention.visible_values_matter",
        functions=by_frontier(_second_tile_strict),
    ),
    Fault(
        id="attention.causal_one_row_sees_ahead",
        component="attention",
        kind="K01",
        reason="joins the last row of an odd number to the one before and takes one frontier for "
        "both, so that the last row but one sees one key of the future",
        remedy="Give every row the frontier of its own position.",
        law="attention.hidden_keys_change_nothing",
        functions=by_frontier(_last_two_rows_as_one),
    ),
    Fault(
        id="attention.causal_only_when_square",
        component="attention",
        kind="K01",
        reason="takes fewer queries than keys for cross-attention and skips the causal mask; what "
        "`causal` means doesn't depend on lengths",
        remedy="Apply the mask whenever it's asked for.",
        law="attention.causal_eq_mask",
        functions=by_frontier(_not_for_cross_attention),
    ),
    Fault(
        id="attention.causal_dropped_with_mask",
        component="attention",
        kind="K29",
        reason="ignores `causal` when a mask is passed; a key is seen where both let it be seen",
        remedy="Combine the causal mask and the given one by `and`.",
        law="attention.matches_oracle",
        functions=by_arguments(_not_with_mask),
    ),
    Fault(
        id="attention.causal_dropped_with_bias",
        component="attention",
        kind="K29",
        reason="takes another path when a bias is passed, one without the causal mask",
        remedy="Add the bias and hide the future on every path.",
        law="attention.matches_oracle",
        functions=by_arguments(_not_with_bias),
    ),
    Fault(
        id="attention.causal_for_two_entries",
        component="attention",
        kind="K01",
        reason="fills the causal mask for two batch entries only, so that later ones see the "
        "future",
        remedy="Broadcast the causal mask over the batch.",
        law="attention.causal_eq_mask",
        functions=by_visible(_not_in_later_entries),
    ),
)
