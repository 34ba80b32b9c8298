"""Attention whose window is too wide, too narrow, misplaced, one-sided or forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from attnspec.impls.faults.attention_causal import TILE, rows_and_keys
from attnspec.impls.faults.attention_steps import (
    Call,
    Functions,
    allowed,
    before,
    by_arguments,
    by_visible,
    offsets,
)
from attnspec.impls.faults.fault import Fault


def by_window(near: Callable[[Call, Tensor, int], Tensor]) -> Functions:
    """An attention with another window: `near(call, key position - query position, size)`."""

    def everything(given: Call) -> Tensor:
        distance = offsets(given)
        seen = allowed(given) & before(given, distance)
        return seen if given.window is None else seen & near(given, distance, given.window)

    return by_visible(everything)


def _back_only(given: Call, distance: Tensor, size: int) -> Tensor:
    return distance >= -size


def _zero_is_none(given: Call) -> Call:
    return replace(given, window=given.window or None)


def _right_bound_kept(given: Call) -> Tensor:
    distance = offsets(given)
    if given.window is None:
        return allowed(given) & before(given, distance)
    return allowed(given) & (distance.abs() <= given.window)


def _without_offset(given: Call, distance: Tensor, size: int) -> Tensor:
    return offsets(given, 0).abs() <= size


def _only_causal(given: Call) -> Call:
    return given if given.causal else replace(given, window=None)


def _not_with_mask(given: Call) -> Call:
    return given if given.mask is None else replace(given, window=None)


def _by_tiles(given: Call, distance: Tensor, size: int) -> Tensor:
    length, count = given.lengths
    rows, keys = rows_and_keys(given)
    first = (rows + count - length - size).clamp_min(0) // TILE * TILE
    return (keys >= first) & (distance <= size)


def _tile_lost(given: Call, distance: Tensor, size: int) -> Tensor:
    length, count = given.lengths
    rows, keys = rows_and_keys(given)
    # where the window of the tile's last row begins, not that of its first
    last_row = (rows // TILE * TILE + TILE - 1).clamp_max(length - 1)
    begins = (last_row + count - length - size) // TILE * TILE
    return (distance.abs() <= size) & (keys >= begins)


def _wrapped(given: Call, distance: Tensor, size: int) -> Tensor:
    near = distance.abs() <= size
    if given.causal:
        return near
    _, count = given.lengths
    return near | (distance.abs() >= max(count - size, 1))


def _strict_on_the_left(given: Call, distance: Tensor, size: int) -> Tensor:
    return (distance <= size) & (distance > -max(size, 1))


FAULTS = (
    Fault(
        id="attention.window_one_too_wide",
        component="attention",
        kind="K15",
        reason="takes the window for a count and its own look-back for one more, so that queries "
        "see one key too many on the left",
        remedy="Hide keys with i - j > window.",
        law="attention.window_eq_mask",
        functions=by_window(
            lambda given, distance, size: (distance <= size) & (distance >= -size - 1)
        ),
        report="huggingface/transformers #39408",
    ),
    Fault(
        id="attention.window_counts_itself",
        component="attention",
        kind="K15",
        reason="counts the query itself as one of the window's keys, without declaring it, so "
        "that a window of w reaches w - 1 keys back",
        remedy="Let the window reach w keys back, or declare a total window.",
        law="attention.window_eq_mask",
        functions=by_window(lambda given, distance, size: distance.abs() <= max(size - 1, 0)),
    ),
    Fault(
        id="attention.window_left_bound_strict",
        component="attention",
        kind="K15",
        reason="compares strictly on the left, so that the farthest key of the window is lost",
        remedy="Keep keys with i - j <= window.",
        law="attention.window_eq_mask",
        functions=by_window(_strict_on_the_left),
    ),
    Fault(
        id="attention.window_back_only",
        component="attention",
        kind="K15",
        reason="bounds the window on the left only, so that without `causal` the whole future is "
        "seen",
        remedy="Bound the window on both sides when `causal` is off.",
        law="attention.window_eq_mask",
        functions=by_window(_back_only),
        report="jax-ml/jax #39576",
    ),
    Fault(
        id="attention.window_on_both_sides_when_causal",
        component="attention",
        kind="K15",
        reason="hands a causal layer's window over with the right bound equal to the left one, and "
        "drops the causal flag: future keys inside of the window are seen",
        remedy="Set the right bound to zero when `causal` is on.",
        law="attention.window_eq_mask",
        functions=by_visible(_right_bound_kept),
        report="ModelTC/LightLLM #1311",
    ),
    Fault(
        id="attention.window_zero_is_none",
        component="attention",
        kind="K15",
        reason="takes a window of 0 for none, by a test of its truth; it's the query itself alone",
        remedy="Test whether the window is None.",
        law="attention.window_eq_mask",
        functions=by_arguments(_zero_is_none),
        report="unslothai/unsloth #8253",
    ),
    Fault(
        id="attention.window_without_offset",
        component="attention",
        kind="K15",
        reason="centres the window of query i on key i, also where queries are fewer than keys",
        remedy="Centre it on key i + s - t, as the causal mask.",
        law="attention.suffix_of_queries",
        functions=by_window(_without_offset),
    ),
    Fault(
        id="attention.window_only_when_causal",
        component="attention",
        kind="K29",
        reason="accepts a window and ignores it when `causal` is off",
        remedy="Apply the window on both sides, or refuse it without `causal`.",
        law="attention.window_eq_mask",
        functions=by_arguments(_only_causal),
        report="sgl-project/sglang #33915",
    ),
    Fault(
        id="attention.window_dropped_with_mask",
        component="attention",
        kind="K29",
        reason="ignores the window when a mask is passed; a key is seen where both let it be seen",
        remedy="Combine window and mask by `and`.",
        law="attention.matches_oracle",
        functions=by_arguments(_not_with_mask),
    ),
    Fault(
        id="attention.window_by_tiles",
        component="attention",
        kind="K15",
        reason="skips tiles left of the window but masks nothing inside of the first tile that it "
        "touches, so that rows see up to three keys too many",
        remedy="Mask the left edge inside of the tile that contains it.",
        law="attention.hidden_keys_change_nothing",
        functions=by_window(_by_tiles),
    ),
    Fault(
        id="attention.window_tile_skipped",
        component="attention",
        kind="K15",
        reason="starts a tile of queries at the key where the window of its last row begins, so "
        "that the first rows of the tile lose keys",
        remedy="Start where the window of the tile's first row begins.",
        law="attention.visible_values_matter",
        functions=by_window(_tile_lost),
    ),
    Fault(
        id="attention.window_wraps_round",
        component="attention",
        kind="K15",
        reason="takes positions modulo the number of keys, so that the first queries see the last "
        "keys and the last ones the first",
        remedy="Hide keys outside of 0 to s - 1 in place of wrapping round.",
        law="attention.hidden_keys_change_nothing",
        functions=by_window(_wrapped),
    ),
)
