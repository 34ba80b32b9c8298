"""Attention over a cache with wrong lengths, windows, heads, or slots that should not be read."""

from __future__ import annotations

import torch
from torch import Tensor

from attnspec.impls import decode_attention as right
from attnspec.impls.faults.decode_attention_steps import by_steps, fault
from attnspec.impls.faults.fault import Fault


def _in_storage(q: Tensor, k: Tensor, factor: float) -> Tensor:
    """Scores kept in half precision."""
    return ((q @ k.mT) * factor).to(torch.bfloat16).to(q.dtype)


def _places(lengths: Tensor, slots: int) -> tuple[Tensor, Tensor]:
    return torch.arange(slots, device=lengths.device), lengths.unsqueeze(-1)


def _window_from_start(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    places, ends = _places(lengths, slots)
    shown = places < ends
    return shown if window is None else shown & (places <= window)


def _window_from_slots(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    places, ends = _places(lengths, slots)
    shown = places < ends
    return shown if window is None else shown & (places >= slots - 1 - window)


def _window_of_longest(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    places, ends = _places(lengths, slots)
    shown = places < ends
    if window is None or not len(lengths):
        return shown
    return shown & (places >= lengths.max() - 1 - window)


def _window_wider(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    return right.visible(lengths, slots, None if window is None else window + 1)


def _window_narrower(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    return right.visible(lengths, slots, None if window is None else max(window - 1, 0))


def _window_dropped(lengths: Tensor, slots: int, _window: int | None) -> Tensor:
    return right.visible(lengths, slots, None)


def _rolls_early(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    """The first key goes when the window is full, not when one more comes."""
    places, ends = _places(lengths, slots)
    shown = right.visible(lengths, slots, window)
    full = ends == (slots if window is None else window + 1)
    return shown & ~(full & (places == 0) & (ends > 1)) if window is not None else shown


def _without_newest(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    places, ends = _places(lengths, slots)
    return right.visible(lengths, slots, window) & ((places < ends - 1) | (ends == 1))


def _one_more(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    places, ends = _places(lengths, slots)
    return right.visible(lengths, slots, window) | ((places == ends) & (ends > 0))


def _up_to_block(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    """All of the last block of four is taken."""
    places, ends = _places(lengths, slots)
    until = (ends + 3) // 4 * 4
    return right.visible(lengths, slots, window) | ((places >= ends) & (places < until))


def _everything(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    return right.visible(torch.full_like(lengths, slots), slots, window)


def _first_length(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    return right.visible(lengths[:1].expand_as(lengths), slots, window)


def _sorted_lengths(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    return right.visible(lengths.sort().values, slots, window)


def _longest(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    same = lengths.max().expand_as(lengths) if len(lengths) else lengths
    return right.visible(same, slots, window)


def _shortest(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    same = lengths.min().expand_as(lengths) if len(lengths) else lengths
    return right.visible(same, slots, window)


def _at_least_one(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    return right.visible(lengths.clamp(min=1), slots, window)


def _last_tile_dropped(lengths: Tensor, slots: int, window: int | None) -> Tensor:
    """The last block is left out where it is a whole one."""
    places, ends = _places(lengths, slots)
    lost = (ends % 4 == 0) & (places >= ends - 4) & (ends > 4)
    return right.visible(lengths, slots, window) & ~lost


def _tiled(x: Tensor, heads: int) -> Tensor:
    return right.over_heads(x, heads, tiled=True)


def _as_it_is(cache: Tensor, _shown: Tensor) -> Tensor:
    return cache


def _in_bfloat16(cache: Tensor, shown: Tensor) -> Tensor:
    return torch.where(shown[:, None, :, None], cache, 0).to(torch.bfloat16).to(cache.dtype)


def _first_twice(cache: Tensor, shown: Tensor) -> Tensor:
    """The second slot is read at the first one's place."""
    kept = torch.where(shown[:, None, :, None], cache, 0)
    return torch.cat((kept[:, :, :1], kept[:, :, :1], kept[:, :, 2:]), 2)[:, :, : kept.shape[2]]


def _wraps(cache: Tensor, shown: Tensor) -> Tensor:
    """Slots are found modulo a number that is taken from the allocated length."""
    kept = torch.where(shown[:, None, :, None], cache, 0)
    ring = max(cache.shape[2] // 2 + 1, 1)
    return kept[:, :, torch.arange(cache.shape[2], device=cache.device) % ring]


def _no_maximum(scores: Tensor, shown: Tensor) -> Tensor:
    numerators = scores.exp() * shown
    total = numerators.sum(-1, keepdim=True)
    return torch.where(total == 0, 0.0, numerators / total)


def _small_number(scores: Tensor, shown: Tensor) -> Tensor:
    hidden = scores.masked_fill(~shown, -4.0)
    return torch.softmax(hidden, -1) * shown.any(-1, keepdim=True)


def _masked_by_zero(scores: Tensor, shown: Tensor) -> Tensor:
    """Hidden scores are zero, not minus infinity."""
    return torch.softmax(scores * shown, -1) * shown


def _added(scores: Tensor, shown: Tensor) -> Tensor:
    """Minus infinity is added to hidden scores: NaN stays NaN."""
    bias = torch.zeros_like(shown, dtype=scores.dtype).masked_fill(~shown, -torch.inf)
    some = shown.any(-1, keepdim=True)
    return torch.softmax(torch.where(some, scores + bias, 0.0), -1) * some


def _maximum_over_all(scores: Tensor, shown: Tensor) -> Tensor:
    numerators = (scores - scores.amax(-1, keepdim=True)).exp().masked_fill(~shown, 0.0)
    total = numerators.sum(-1, keepdim=True)
    return torch.where(total == 0, 0.0, numerators / total)


def _by_slots(scores: Tensor, shown: Tensor) -> Tensor:
    """Hidden slots add a little to the normaliser."""
    weights = right.weighed(scores, shown)
    return weights / (1 + 2.0**-4 * (~shown).sum(-1, keepdim=True))


def _newest_favoured(scores: Tensor, shown: Tensor) -> Tensor:
    """A recency bias that nobody asked for."""
    places = torch.arange(scores.shape[-1], device=scores.device, dtype=scores.dtype)
    return right.weighed(scores + 0.5 * places, shown)


def _nan_rows(scores: Tensor, shown: Tensor) -> Tensor:
    return right.weighed(scores, shown, nan_rows=True)


def _empty_averages(scores: Tensor, shown: Tensor) -> Tensor:
    some = shown.any(-1, keepdim=True)
    return torch.softmax(torch.where(some, scores.masked_fill(~shown, -torch.inf), 0.0), -1)


def _mean_added(output: Tensor, v: Tensor, _shown: Tensor) -> Tensor:
    return output + 2.0**-6 * v.mean(2, keepdim=True)


FAULTS: tuple[Fault, ...] = (
    fault("heads_tiled", "K06", "query head i reads key head i mod g",
          "Let query head i read key head i // (h / g), or declare gqa.head_order.",
          "matches_oracle", by_steps(heads=_tiled)),
    fault("scale_dropped", "K05", "takes the default scale, whatever the option says",
          "Use the scale that is passed.", "matches_oracle",
          by_steps(factor=lambda q, v, _s: q.shape[-1] ** -0.5)),
    fault("scale_of_value_width", "K05", "scales by the width of the values",
          "Scale by the width of queries and keys, d ** -0.5.", "matches_oracle",
          by_steps(factor=lambda q, v, s: v.shape[-1] ** -0.5 if s is None else s)),
    fault("scores_in_storage", "K13", "keeps the scores in bfloat16, and is declared not to",
          "Keep scores in float32 until the softmax is done.", "matches_oracle",
          by_steps(scores=_in_storage), precision={"scores": "float32"}),
    fault("cache_in_bfloat16", "K13", "casts the cached keys to bfloat16 when it reads them",
          "Read the cache in the dtype that it has.", "matches_oracle",
          by_steps(read_keys=_in_bfloat16), dtypes=("float64", "float32", "float16")),
    fault("no_maximum", "K14", "takes exponentials of scores as they are, which overflow",
          "Subtract the largest valid score first.", "matches_oracle",
          by_steps(weigh=_no_maximum)),
    fault("last_tile_dropped", "K25", "drops the last block of keys where it is full",
          "Count blocks by rounding up.", "matches_oracle", by_steps(shown=_last_tile_dropped)),
    fault("first_key_twice", "K08", "reads the first slot again where the second is due",
          "Advance the slot with every key.", "matches_oracle",
          by_steps(read_keys=_first_twice)),
    fault("window_from_start", "K15", "a window shows the first keys of the cache",
          "Count the window back from the newest key.", "windows_match_oracle",
          by_steps(shown=_window_from_start)),
    fault("window_from_end_of_cache", "K15", "a window counts back from the last slot",
          "Count the window back from the newest key, which is at length - 1.",
          "windows_match_oracle", by_steps(shown=_window_from_slots)),
    fault("window_of_longest", "K15", "a window counts back from the longest entry's newest key",
          "Count each entry's window from its own length.", "windows_match_oracle",
          by_steps(shown=_window_of_longest)),
    fault("window_one_wider", "K15", "a window of w shows w + 2 keys",
          "Show the newest key and w before it.", "windows_match_oracle",
          by_steps(shown=_window_wider)),
    fault("window_one_narrower", "K15", "a window of w shows w keys, the newest among them",
          "Show the newest key and w before it, or declare attention.window.",
          "windows_match_oracle", by_steps(shown=_window_narrower)),
    fault("window_dropped", "K29", "a window is ignored: all valid keys are seen",
          "Hide the keys before the window.", "windows_match_oracle",
          by_steps(shown=_window_dropped)),
    fault("window_rolls_early", "K08", "the oldest key goes when the window is just full",
          "Drop the oldest key when one more comes than fits.", "windows_match_oracle",
          by_steps(shown=_rolls_early)),
    fault("newest_left_out", "K01", "the newest key is not seen",
          "Write the newest key before the cache is read, and count it.", "edges_read_off",
          by_steps(shown=_without_newest)),
    fault("one_key_too_many", "K01", "the slot after the newest key is seen as well",
          "Take the slots before the length, not up to it.", "edges_read_off",
          by_steps(shown=_one_more)),
    fault("hidden_by_small_number", "K03", "hides slots by a score of -4, which has a weight",
          "Hide by minus infinity.", "edges_read_off", by_steps(weigh=_small_number)),
    fault("hidden_values_times_zero", "K04", "weighs the values of hidden slots by zero",
          "Replace what hidden slots hold before it is multiplied.", "anything_in_unused",
          by_steps(read_values=_as_it_is)),
    fault("hidden_added", "K04", "adds minus infinity to the scores of hidden slots",
          "Replace hidden scores: NaN and minus infinity is NaN.", "anything_in_unused",
          by_steps(read_keys=_as_it_is, weigh=_added)),
    fault("maximum_over_all", "K04", "subtracts the largest score of all slots, hidden ones too",
          "Take the maximum over the valid slots.", "anything_in_unused",
          by_steps(read_keys=_as_it_is, weigh=_maximum_over_all)),
    fault("masked_by_zero", "K03", "sets the scores of hidden slots to zero, so that they count",
          "Hide slots by minus infinity before the softmax.", "room_changes_nothing",
          by_steps(weigh=_masked_by_zero)),
    fault("mean_of_cache_added", "K04", "adds a trace of the mean over all slots",
          "Read valid slots alone.", "hidden_change_nothing",
          by_steps(read_values=_as_it_is, finish=_mean_added)),
    fault("hidden_weighed", "K03", "gives hidden slots the weight of a score of zero",
          "Hide slots by minus infinity before the softmax.", "hidden_change_nothing",
          by_steps(read_values=_as_it_is, weigh=_small_number)),
    fault("normalised_by_slots", "K30", "hidden slots count in the normaliser",
          "Add up the exponentials of the valid slots alone.", "room_changes_nothing",
          by_steps(weigh=_by_slots)),
    fault("wraps_at_blocks", "K08", "finds slots modulo a number taken from the allocated length",
          "Index the cache by the slot itself.", "room_changes_nothing",
          by_steps(read_keys=_wraps)),
    fault("rounds_up_to_block", "K25", "reads the whole last block of four keys",
          "Mask what the last block holds beyond the length.", "step_by_step",
          by_steps(shown=_up_to_block)),
    fault("lengths_ignored", "K04", "takes every slot for a valid one",
          "Hide the slots from the length on.", "step_by_step", by_steps(shown=_everything)),
    fault("newest_favoured", "K17", "adds a bias that grows with the slot",
          "Add nothing that was not asked for.", "slots_in_any_order",
          by_steps(weigh=_newest_favoured)),
    fault("length_of_first", "K09", "the first entry's length counts for the whole batch",
          "Read each entry's own length.", "entries_in_any_order",
          by_steps(shown=_first_length)),
    fault("lengths_sorted", "K09", "sorts the lengths and not the caches with them",
          "Sort both, or neither.", "entries_in_any_order", by_steps(shown=_sorted_lengths)),
    fault("longest_for_all", "K09", "the longest entry's length counts for the whole batch",
          "Read each entry's own length.", "entry_alone", by_steps(shown=_longest)),
    fault("shortest_for_all", "K09", "the shortest entry's length counts for the whole batch",
          "Read each entry's own length.", "entry_alone", by_steps(shown=_shortest)),
    fault("empty_row_nan", "K02", "an entry of length zero gives 0 / 0",
          "Give zeros, or declare attention.empty_row.", "empty_rows",
          by_steps(weigh=_nan_rows)),
    fault("empty_row_averages", "K02", "an entry of length zero averages all slots",
          "Give zeros where no key is valid.", "empty_rows",
          by_steps(read_values=_as_it_is, weigh=_empty_averages)),
    fault("empty_row_reads_one", "K02", "an entry of length zero reads the first slot",
          "Give zeros where no key is valid.", "empty_rows", by_steps(shown=_at_least_one)),
)  # fmt: skip
