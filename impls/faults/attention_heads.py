"""Attention in which query heads read the wrong key heads, or groups are too large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attnspec.impls.faults.attention_steps import (
    Call,
    Functions,
    by_arguments,
    by_heads,
    by_means,
    mean,
    repeated,
)
from attnspec.impls.faults.fault import Fault

TILE = 4


def by_map(read: Callable[[Tensor, int, int], Tensor]) -> Functions:
    """An attention in which query head i reads key head `read(i, heads, key heads)[i]`."""

    def chosen(x: Tensor, heads: int) -> Tensor:
        return mapped(x, heads, read)

    return by_heads(chosen)


def mapped(x: Tensor, heads: int, read: Callable[[Tensor, int, int], Tensor]) -> Tensor:
    """Keys or values `b g s d` for each query head: `b h s d`."""
    groups = x.shape[1]
    numbers = torch.arange(heads, device=x.device)
    if groups in (heads, 0):
        return x
    return x[:, read(numbers, heads, groups).clamp(0, groups - 1)]


def _tiled(heads: Tensor, count: int, groups: int) -> Tensor:
    return heads % groups


def _divisor_exchanged(heads: Tensor, count: int, groups: int) -> Tensor:
    return heads // groups % groups


def _tile_of_heads(heads: Tensor, count: int, groups: int) -> Tensor:
    return heads // TILE * TILE // (count // groups)


def _one_ahead(heads: Tensor, count: int, groups: int) -> Tensor:
    return (heads + 1) // (count // groups)


def _first(heads: Tensor, count: int, groups: int) -> Tensor:
    return torch.zeros_like(heads)


def _ratio_of_two(heads: Tensor, count: int, groups: int) -> Tensor:
    return heads // 2


def _reversed(heads: Tensor, count: int, groups: int) -> Tensor:
    return groups - 1 - heads // (count // groups)


def _values_tiled(given: Call) -> Call:
    heads = given.q.shape[1]
    return replace(given, k=repeated(given.k, heads), v=mapped(given.v, heads, _tiled))


def _keys_tiled_when_many(given: Call) -> Call:
    heads = given.q.shape[1]
    if given.q.shape[-2] == 1:
        return given
    return replace(given, k=mapped(given.k, heads, _tiled), v=mapped(given.v, heads, _tiled))


def _eight_of_group(given: Call, weights: Tensor) -> Tensor:
    output = mean(given, weights)
    heads = torch.arange(output.shape[1], device=output.device)
    ratio = max(output.shape[1] // max(given.k.shape[1], 1), 1)
    return output * (heads % ratio < 8)[:, None, None]


FAULTS = (
    Fault(
        id="attention.heads_tiled",
        component="attention",
        kind="K06",
        reason="lets query head i read key head i % g without declaring it; heads of a group lie "
        "in a row",
        remedy="Read key head i // (h / g), or declare the tiled order.",
        law="attention.gqa_eq_repeated_heads",
        functions=by_map(_tiled),
    ),
    Fault(
        id="attention.heads_divisor_exchanged",
        component="attention",
        kind="K06",
        reason="divides the number of a query head by the number of key heads where it should be "
        "the number of heads in a group, which is right only when both are equal",
        remedy="Divide by h / g.",
        law="attention.gqa_eq_repeated_heads",
        functions=by_map(_divisor_exchanged),
        report="XunhaoLai/native-sparse-attention-triton #27",
    ),
    Fault(
        id="attention.heads_tile_crosses_group",
        component="attention",
        kind="K06",
        reason="takes the key head of a tile of four query heads from its first, also where the "
        "tile reaches into the next group",
        remedy="Take the key head from each query head, or end tiles where a group ends.",
        law="attention.gqa_eq_repeated_heads",
        functions=by_map(_tile_of_heads),
        report="FlashML-org/FreeToken #177",
    ),
    Fault(
        id="attention.heads_one_ahead",
        component="attention",
        kind="K06",
        reason="counts query heads from one, so that the last of each group reads the next key "
        "head",
        remedy="Count from zero.",
        law="attention.gqa_eq_repeated_heads",
        functions=by_map(_one_ahead),
    ),
    Fault(
        id="attention.heads_share_first",
        component="attention",
        kind="K06",
        reason="takes any grouping for one shared key head, and reads the first for all",
        remedy="Take the number of key heads from the keys.",
        law="attention.gqa_eq_repeated_heads",
        functions=by_map(_first),
        report="vllm-project/vllm #1164",
    ),
    Fault(
        id="attention.heads_in_pairs",
        component="attention",
        kind="K06",
        reason="takes every group for a pair of query heads, and the last key head for all that "
        "are left",
        remedy="Take the size of a group from the shapes: h / g.",
        law="attention.gqa_eq_repeated_heads",
        functions=by_map(_ratio_of_two),
    ),
    Fault(
        id="attention.heads_in_reverse",
        component="attention",
        kind="K06",
        reason="walks the key heads from the last to the first where heads are grouped",
        remedy="Walk query heads and key heads in the same direction.",
        law="attention.needle_returns_its_value",
        functions=by_map(_reversed),
    ),
    Fault(
        id="attention.heads_values_tiled",
        component="attention",
        kind="K06",
        reason="repeats the key heads in a row but the value heads as a whole, so that weights "
        "of one head meet values of another",
        remedy="Repeat keys and values in the same way: repeat_interleave.",
        law="attention.gqa_eq_repeated_heads",
        functions=by_arguments(_values_tiled),
    ),
    Fault(
        id="attention.heads_tiled_in_prefill",
        component="attention",
        kind="K06",
        reason="groups heads rightly for one query but repeats them as a whole for several, so "
        "that prefill and decoding differ",
        remedy="Use one map of heads for both.",
        law="attention.suffix_of_queries",
        functions=by_arguments(_keys_tiled_when_many),
        report="EricLBuehler/candle-vllm #52",
    ),
    Fault(
        id="attention.group_beyond_eight_lost",
        component="attention",
        kind="K25",
        reason="has room for eight query heads a group, and leaves those beyond at zero",
        remedy="Loop over tiles of heads, or refuse larger groups.",
        law="attention.gqa_eq_repeated_heads",
        functions=by_means(_eight_of_group),
        report="InternLM/lmdeploy #1761",
    ),
)
