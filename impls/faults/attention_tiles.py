"""Attention that is wrong at the end of a tile: of keys, of queries, of channels."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from attnspec.impls.faults.attention import numerators_of, over_total
from attnspec.impls.faults.attention_axes import by_output
from attnspec.impls.faults.attention_steps import (
    Call,
    Results,
    by_arguments,
    by_means,
    by_visible,
    by_weights,
    largest,
    mean,
    normalised,
    visible,
    weighted,
)
from attnspec.impls.faults.fault import Fault

KEYS = 8
"""Keys of a tile."""
QUERIES = 16
"""Queries of a tile."""


def _padded_keys(masked: Tensor) -> Results:
    length = masked.shape[-1]
    padded = torch.nn.functional.pad(masked, (0, -length % KEYS))
    seen = (masked > -torch.inf).any(-1)
    weights, lse = normalised(padded, largest(padded))
    return weights[..., :length] * seen.unsqueeze(-1), lse.masked_fill(~seen, -torch.inf)


def _last_key_alone(given: Call) -> Tensor:
    seen = visible(given)
    keys = torch.arange(seen.shape[-1], device=seen.device)
    last = seen.shape[-1] - 1
    return seen & ((keys < last) | (last % KEYS != 0) | (last == 0))


def _full_tiles_of_keys(given: Call) -> Tensor:
    seen = visible(given)
    keys = torch.arange(seen.shape[-1], device=seen.device)
    return seen & (keys < (seen.shape[-1] // KEYS * KEYS or seen.shape[-1]))


def _long_keys_cut(given: Call) -> Tensor:
    seen = visible(given)
    return seen & (torch.arange(seen.shape[-1], device=seen.device) < 64)


def _tile_judged_by_first_key(given: Call) -> Tensor:
    seen = visible(given)
    first = torch.arange(seen.shape[-1], device=seen.device) // KEYS * KEYS
    return seen & seen[..., first].any(-2, keepdim=True)


def _full_tiles_of_queries(output: Tensor) -> Tensor:
    length = output.shape[-2]
    rows = torch.arange(length, device=output.device)
    return output * (rows < (length // QUERIES * QUERIES or length))[:, None]


def _value_width_of_query(given: Call, weights: Tensor) -> Tensor:
    output = mean(given, weights)
    channels = torch.arange(output.shape[-1], device=output.device)
    return output * (channels < given.q.shape[-1])


def _width_rounded_down(given: Call) -> Call:
    width = given.q.shape[-1]
    kept = width // 4 * 4 or width
    return replace(given, q=given.q[..., :kept], k=given.k[..., :kept], scale=given.factor)


def _wide_heads_cut(given: Call) -> Call:
    return replace(given, q=given.q[..., :64], k=given.k[..., :64], scale=given.factor)


def _overlapping_tail(masked: Tensor) -> Results:
    numerators = numerators_of(masked)
    length = masked.shape[-1]
    keys = torch.arange(length, device=masked.device)
    again = (keys >= length - KEYS) & (keys < length // KEYS * KEYS) & (length > KEYS)
    numerators = numerators * (1.0 + again)
    return over_total(numerators, numerators.sum(-1, keepdim=True), masked)


def _one_normaliser_for_two(masked: Tensor) -> Results:
    numerators = numerators_of(masked)
    total = numerators.sum(-1, keepdim=True)
    first = torch.arange(masked.shape[-2], device=masked.device) // 2 * 2
    weights, _ = over_total(numerators, total[..., first, :], masked)
    return weights, weighted(masked)[1]


FAULTS = (
    Fault(
        id="attention.padded_keys_counted",
        component="attention",
        kind="K25",
        reason="pads keys to a multiple of eight and counts them with the score 0; padding has "
        "the weight zero",
        remedy="Fill scores beyond the last key with -inf.",
        law="attention.within_values",
        functions=by_weights(_padded_keys),
    ),
    Fault(
        id="attention.last_key_alone_lost",
        component="attention",
        kind="K25",
        reason="loses the last key where it's alone in its tile of eight",
        remedy="Round the number of tiles up.",
        law="attention.visible_values_matter",
        functions=by_visible(_last_key_alone),
        report="pytorch/pytorch #191937",
    ),
    Fault(
        id="attention.key_tail_lost",
        component="attention",
        kind="K25",
        reason="rounds the number of key tiles down, so that keys past the last full one are lost",
        remedy="Round the number of tiles up, and mask what lies beyond the last key.",
        law="attention.visible_values_matter",
        functions=by_visible(_full_tiles_of_keys),
    ),
    Fault(
        id="attention.overlapping_tail_counted_twice",
        component="attention",
        kind="K25",
        reason="moves the last tile of keys back so that it's full, and counts the keys that it "
        "shares with the tile before twice",
        remedy="Mask the keys of the last tile that the one before has had.",
        law="attention.mask_read_off",
        functions=by_weights(_overlapping_tail),
    ),
    Fault(
        id="attention.long_keys_cut",
        component="attention",
        kind="K25",
        reason="has room for 64 keys; those beyond are never seen",
        remedy="Loop over tiles of keys, or refuse more of them.",
        law="attention.visible_values_matter",
        functions=by_visible(_long_keys_cut),
    ),
    Fault(
        id="attention.tile_judged_by_first_key",
        component="attention",
        kind="K25",
        reason="skips a tile of keys when no query sees its first key; others of the tile may be "
        "visible",
        remedy="Skip a tile only when none of its keys is seen.",
        law="attention.matches_oracle",
        functions=by_visible(_tile_judged_by_first_key),
    ),
    Fault(
        id="attention.query_tail_lost",
        component="attention",
        kind="K25",
        reason="counts tiles of sixteen queries by rounding down, so that rows past the last full "
        "one stay zero",
        remedy="Round the number of tiles up, and mask the rows beyond the end.",
        law="attention.within_values",
        functions=by_output(_full_tiles_of_queries),
        report="tenstorrent/tt-metal #53208",
    ),
    Fault(
        id="attention.one_normaliser_for_two_rows",
        component="attention",
        kind="K25",
        reason="divides two neighbouring rows by the normaliser of the first",
        remedy="Keep one normaliser a row, and broadcast it along the row.",
        law="attention.within_values",
        functions=by_weights(_one_normaliser_for_two),
    ),
    Fault(
        id="attention.value_width_of_query",
        component="attention",
        kind="K25",
        reason="computes as many output channels as queries have; with wider values the rest "
        "stays zero",
        remedy="Take the width of the output from the values.",
        law="attention.visible_values_matter",
        functions=by_means(_value_width_of_query),
        report="pytorch/pytorch #176767",
    ),
    Fault(
        id="attention.width_rounded_down",
        component="attention",
        kind="K25",
        reason="multiplies queries and keys four channels at a time, and leaves the rest out of "
        "the scores",
        remedy="Pad the channels with zeros to a multiple of four.",
        law="attention.scale_read",
        functions=by_arguments(_width_rounded_down),
    ),
    Fault(
        id="attention.wide_heads_cut",
        component="attention",
        kind="K25",
        reason="has room for 64 channels of a query; those beyond are missing from the scores",
        remedy="Loop over the channels, or refuse heads that are wider.",
        law="attention.matches_oracle",
        functions=by_arguments(_wide_heads_cut),
    ),
)
