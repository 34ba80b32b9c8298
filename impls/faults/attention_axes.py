"""Attention that exchanges, joins or leaves out entries of the batch and heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attnspec.impls.faults.attention_steps import Call, Functions, by_arguments, by_means, mean
from attnspec.impls.faults.fault import Fault


def by_output(changed: Callable[[Tensor], Tensor]) -> Functions:
    """An attention that does something else with its right output `b h t e`."""
    return by_means(lambda given, weights: changed(mean(given, weights)))


def _keys_of_first_entry(given: Call) -> Call:
    if given.k.shape[1] != 1:
        return given
    return replace(given, k=given.k[:1].expand_as(given.k))


def _values_of_first_entry(given: Call) -> Call:
    if given.v.shape[1] != 1:
        return given
    return replace(given, v=given.v[:1].expand_as(given.v))


def _last_odd_head(output: Tensor) -> Tensor:
    heads = output.shape[1]
    kept = max(heads // 2 * 2, 1)
    return torch.cat((output[:, :kept], torch.zeros_like(output[:, kept:])), 1)


def _head_major(output: Tensor) -> Tensor:
    batch, heads, *rest = output.shape
    return output.reshape(heads, batch, *rest).transpose(0, 1)


def _queries_for_heads(output: Tensor) -> Tensor:
    # contiguous as b t h e, then read as b h t e
    return output.transpose(1, 2).reshape(output.shape)


def _axes_by_size(output: Tensor) -> Tensor:
    heads, length = output.shape[1:3]
    return output.transpose(1, 2) if heads == length else output


def _entries_by_size(output: Tensor) -> Tensor:
    batch, heads = output.shape[:2]
    return output.transpose(0, 1) if batch == heads else output


def _third_entry(output: Tensor) -> Tensor:
    entries = torch.arange(output.shape[0], device=output.device)
    return output * (entries < 2)[:, None, None, None]


def _mixed_width(output: Tensor) -> Tensor:
    heads, width = output.shape[1], output.shape[-1]
    joined = output.transpose(1, 2).flatten(-2)
    # channels of a head lie together; read with the heads inside
    return joined.reshape(*joined.shape[:-1], width, heads).movedim(-1, 1)


FAULTS = (
    Fault(
        id="attention.keys_of_first_entry",
        component="attention",
        kind="K26",
        reason="reads the keys of the first batch entry for all where there is one key head, "
        "whose stride it takes for that of the batch",
        remedy="Step through the keys by their own batch stride.",
        law="attention.permutation_of_batch",
        functions=by_arguments(_keys_of_first_entry),
    ),
    Fault(
        id="attention.values_of_first_entry",
        component="attention",
        kind="K26",
        reason="reads the values of the first batch entry for all where there is one value head",
        remedy="Step through the values by their own batch stride.",
        law="attention.visible_values_matter",
        functions=by_arguments(_values_of_first_entry),
    ),
    Fault(
        id="attention.last_odd_head_lost",
        component="attention",
        kind="K25",
        reason="works on two heads at a time and rounds down, so that the last of an odd number "
        "is never computed",
        remedy="Round the number of pairs up, and leave out what lies beyond the last head.",
        law="attention.within_values",
        functions=by_output(_last_odd_head),
    ),
    Fault(
        id="attention.merged_head_major",
        component="attention",
        kind="K07",
        reason="folds batch and heads with the batch outside and takes them apart with the heads "
        "outside, so that results land in other entries",
        remedy="Unfold in the order in which they were folded.",
        law="attention.permutation_of_batch",
        functions=by_output(_head_major),
        report="gazelle93/Transformer-Various-Positional-Encoding #1",
    ),
    Fault(
        id="attention.merged_by_view",
        component="attention",
        kind="K07",
        reason="stores the output as b t h e and reads it as b h t e by a view, so that a head "
        "is a run of tokens",
        remedy="Transpose heads and queries; a view doesn't.",
        law="attention.permutation_of_queries",
        functions=by_output(_queries_for_heads),
        report="reczoo/FuxiCTR #30",
    ),
    Fault(
        id="attention.heads_inside_channels",
        component="attention",
        kind="K07",
        reason="takes the channels apart with the heads inside, so that each head gets a few "
        "channels of every other",
        remedy="Keep the heads as the outer factor of the packed axis.",
        law="attention.permutation_of_heads",
        functions=by_output(_mixed_width),
    ),
    Fault(
        id="attention.axes_guessed_by_size",
        component="attention",
        kind="K07",
        reason="guesses from sizes whether heads or queries come first, and exchanges them where "
        "there are as many of both",
        remedy="Take the layout from the contract: b h t d.",
        law="attention.matches_oracle",
        functions=by_output(_axes_by_size),
    ),
    Fault(
        id="attention.batch_taken_for_heads",
        component="attention",
        kind="K07",
        reason="exchanges batch and heads where there are as many of both",
        remedy="Name the axes, and don't infer them from sizes.",
        law="attention.permutation_of_batch",
        functions=by_output(_entries_by_size),
        report="aipixel/AEMatter #3",
    ),
    Fault(
        id="attention.later_entries_zero",
        component="attention",
        kind="K25",
        reason="launches for two batch entries; those after them stay zero",
        remedy="Launch one block of threads for every batch entry.",
        law="attention.permutation_of_batch",
        functions=by_output(_third_entry),
        report="pytorch/pytorch #139462",
    ),
)
