"""Multi-head attention with a wrong step: heads, merge, scale, positions, sight."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.multi_head_attention_steps import (
    Call,
    by_steps,
    fault,
    hidden,
    only_at,
    weighed,
)
from attnspec.impls.rope import rope, rope_half


def _inner_heads(x: Tensor, heads: int) -> Tensor:
    return x.reshape(*x.shape[:-1], x.shape[-1] // heads, heads).movedim(-1, 1)


def _viewed_heads(x: Tensor, heads: int) -> Tensor:
    return x.reshape(x.shape[0], heads, x.shape[1], x.shape[2] // heads)


def _mixing_batch(x: Tensor, heads: int) -> Tensor:
    """Axes of batch and heads are taken in each other's order."""
    b, n, columns = x.shape
    made = x.reshape(b, n, heads, columns // heads).permute(2, 0, 1, 3).contiguous()
    return made.reshape(b, heads, n, columns // heads)


def _one_late(length: int, device: torch.device) -> Tensor:
    return torch.arange(1, length + 1, device=device)


def _from_end(length: int, device: torch.device) -> Tensor:
    return torch.arange(1 - length, 1, device=device)


def _hidden_by_a_number(scores: Tensor, call: Call) -> Tensor:
    if call.causal:
        scores = scores.masked_fill(hidden(scores), -8.0)
    return torch.softmax(scores, -1)


def _one_more(scores: Tensor, call: Call) -> Tensor:
    if call.causal:
        scores = scores.masked_fill(hidden(scores, 2), -torch.inf)
    return torch.softmax(scores, -1)


def _strictly(scores: Tensor, call: Call) -> Tensor:
    if call.causal:
        later = hidden(scores, 0)
        later[0, 0] = False
        scores = scores.masked_fill(later, -torch.inf)
    return torch.softmax(scores, -1)


def _first_head_masked(scores: Tensor, call: Call) -> Tensor:
    """The causal mask reaches the first head alone."""
    return torch.cat((weighed(scores[:, :1], call), torch.softmax(scores[:, 1:], -1)), 1)


def _over(axis: int) -> Any:
    def shares(scores: Tensor, call: Call) -> Tensor:
        if call.causal:
            scores = scores.masked_fill(hidden(scores), -torch.inf)
        return torch.softmax(scores, axis).nan_to_num()

    return shares


def _with_a_sink(scores: Tensor, call: Call) -> Tensor:
    """A key more, whose score is 0 and which has no value."""
    if call.causal:
        scores = scores.masked_fill(hidden(scores), -torch.inf)
    more = torch.cat((scores, torch.zeros_like(scores[..., :1])), -1)
    return torch.softmax(more, -1)[..., :-1]


def _by_distance(scores: Tensor, call: Call) -> Tensor:
    at = torch.arange(scores.shape[-1], device=scores.device, dtype=scores.dtype)
    return weighed(scores + 0.25 * (at - at[:, None]), call)


def _turned(x: Tensor, call: Call) -> Tensor:
    """Values are rotated as keys are, where they have pairs."""
    if call.base is None or x.shape[-1] % 2:
        return x
    return rope(x, torch.arange(x.shape[2], device=x.device), base=call.base)


def _by_head(x: Tensor, _call: Call) -> Tensor:
    at = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)
    return x * (1.0 + 0.125 * at[:, None, None])


def _mixed(x: Tensor, _call: Call) -> Tensor:
    return x - x.mean(0, keepdim=True) * 2.0**-4


def _of_first_entry(x: Tensor, _call: Call) -> Tensor:
    first = x[:1].expand_as(x)[:, :, :1]
    return torch.cat((first, x[:, :, 1:]), 2)


def _normed(x: Tensor, _call: Call) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def _in_bfloat16(x: Tensor, _call: Call) -> Tensor:
    return x.to(torch.bfloat16).to(x.dtype)


def _row(identity: str, kind: str, reason: str, remedy: str, law: str, *, report: str = "",
         dtypes: Any = None, **steps: Any) -> Fault:  # fmt: skip
    return fault(identity, kind, reason, remedy, law, by_steps(**steps), report=report,
                 dtypes=dtypes)  # fmt: skip


_OWN_KEYS = "Let query head i read the keys of head i // (h / g)."
_OUTER = "Split packed columns as (head, channel), and move the heads before the tokens."
_MERGE = "Move the heads behind the tokens, and merge as (head, channel)."
_SCALE = "Scale scores by d^-0.5, the width of a query head."
_STARTS = "Start the positions of queries and keys at the same number."
_LATER = "Hide the tokens after the query, in every head."

FAULTS: tuple[Fault, ...] = (
    # -- heads
    _row("keys_tiled", "K06", "query head i reads the keys of head i modulo g", _OWN_KEYS,
         "keys_repeated", repeated=lambda x, call: x.repeat(1, call.h // call.g, 1, 1)),
    _row("keys_of_first", "K06", "all query heads read the keys and values of the first", _OWN_KEYS,
         "heads_in_any_order",
         repeated=lambda x, call: x[:, :1].expand(-1, call.h, -1, -1)),
    _row("keys_backwards", "K06", "heads of keys are read from the last to the first", _OWN_KEYS,
         "matches_oracle",
         repeated=lambda x, call: x.flip(1).repeat_interleave(call.h // call.g, 1)),
    _row("heads_inside", "K07", "packed columns are split with the heads inside", _OUTER,
         "heads_in_any_order", split=_inner_heads),
    _row("heads_viewed", "K07", "the projection is viewed as heads before tokens, so that a head "
         "has some tokens", _OUTER, "widths_apart", split=_viewed_heads,
         merged=lambda heads: heads.reshape(heads.shape[0], heads.shape[2], -1)),
    _row("batch_and_heads_exchanged", "K07", "heads and batch entries are laid out in each other's "
         "order", _OUTER, "others_change_nothing", split=_mixing_batch),
    _row("merged_without_transpose", "K07", "heads are merged as they lie, before the tokens",
         _MERGE, "sum_of_heads",
         merged=lambda heads: heads.reshape(heads.shape[0], heads.shape[2], -1)),
    _row("merged_channels_first", "K07", "heads are merged channel by channel before w_o", _MERGE,
         "head_alone", merged=lambda heads: heads.permute(0, 2, 3, 1).flatten(2)),
    _row("output_matrix_by_channels", "K07", "rows of w_o are read channel by channel",
         "Read row h e + c of w_o for channel c of head h.", "head_alone",
         at=only_at("w_o", lambda w, call:
                    w.reshape(call.h, -1, w.shape[1]).transpose(0, 1).reshape(w.shape))),
    _row("heads_averaged", "K07", "the output is the mean over heads",
         "Add up what the heads give through their rows of w_o.", "sum_of_heads",
         at=only_at("y", lambda y, call: y / call.h)),
    _row("heads_scaled_by_place", "K07", "later heads weigh more",
         "Treat all heads alike.", "heads_in_any_order", at=only_at("heads", _by_head)),
    _row("last_head_dropped", "K25", "the last of heads that blocks of four leave over is left out",
         "Cover numbers of heads that no block divides.", "sum_of_heads",
         at=only_at("heads", lambda x, call: torch.cat((x[:, :-1], 0.0 * x[:, -1:]), 1)
                    if call.h % 4 and call.h > 1 else x)),
    _row("queries_normed", "K20", "queries are normalised by head after the projection",
         "Leave projections as they are.", "matches_oracle", at=only_at("q", _normed)),
    # -- scale
    _row("scale_of_model", "K05", "scores are scaled by m^-0.5", _SCALE, "widths_apart",
         scale=lambda d, e, call: call.m**-0.5),
    _row("scale_of_values", "K05", "scores are scaled by the width of values, e^-0.5", _SCALE,
         "widths_apart", scale=lambda d, e, call: e**-0.5),
    _row("scale_of_all_heads", "K05", "scores are scaled by the width of all heads", _SCALE,
         "head_alone", scale=lambda d, e, call: (d * call.h) ** -0.5),
    _row("scale_missing", "K05", "scores are not scaled", _SCALE, "matches_oracle",
         scale=lambda d, e, call: 1.0),
    # -- positions
    _row("rotation_ignored", "K29", "nothing is rotated", "Rotate queries and keys.",
         "matches_oracle", base=lambda base: None),
    _row("rotation_always", "K29", "queries and keys are rotated without rope_base too",
         "Rotate nothing where rope_base is None.", "tokens_in_any_order",
         rotated=lambda x, at, base: x if x.shape[-1] % 2 else rope(x, at, base=base),
         rotated_key=lambda x, at, base: x if x.shape[-1] % 2 else rope(x, at, base=base),
         base=lambda base: 10000.0 if base is None else base),
    _row("base_ignored", "K11", "the base of the rotation is always 10000",
         "Use rope_base for the frequencies.", "matches_oracle",
         base=lambda base: None if base is None else 10000.0),
    _row("halves", "K10", "pairs are halves where neighbours are declared",
         "Declare rope.layout, or reorder the channels of w_q and w_k.", "quarter_turn",
         rotated=lambda x, at, base: rope_half(x, at, base=base),
         rotated_key=lambda x, at, base: rope_half(x, at, base=base)),
    _row("keys_in_halves", "K10", "pairs of keys are halves, those of queries neighbours",
         "Take the same pairs in queries and in keys.", "quarter_turn",
         rotated_key=lambda x, at, base: rope_half(x, at, base=base)),
    _row("keys_not_rotated", "K09", "keys are not rotated", "Rotate queries and keys.",
         "mirrored", rotated_key=lambda x, at, base: x),
    _row("key_positions_one_late", "K09", "keys are rotated by one position more than queries",
         _STARTS, "mirrored", key_places=_one_late),
    _row("query_positions_from_end", "K09", "queries are rotated by their distance from the end",
         _STARTS, "prefix", places=_from_end),
    _row("values_rotated", "K09", "values are rotated as keys are", "Rotate queries and keys only.",
         "unasked", at=only_at("v", _turned)),
    _row("slope_on_distance", "K17", "a bias that falls with distance is added to scores",
         "Let position enter by rotation and causality alone.", "tokens_in_any_order",
         weighed=_by_distance),
    # -- sight
    _row("one_token_more", "K01", "a query sees one token more", _LATER,
         "future_changes_nothing", weighed=_one_more),
    _row("own_token_hidden", "K01", "a query does not see its own token",
         "Hide the tokens after the query, and no other.", "matches_oracle", weighed=_strictly),
    _row("causal_ignored", "K01", "every query sees every token", _LATER, "prefix",
         weighed=lambda scores, call: torch.softmax(scores, -1)),
    _row("mask_of_first_head", "K03", "the causal mask reaches the first head alone", _LATER,
         "future_changes_nothing", weighed=_first_head_masked),
    _row("hidden_by_a_number", "K14", "later tokens are hidden by a score of -8",
         "Hide them by minus infinity.", "future_changes_nothing", weighed=_hidden_by_a_number),
    _row("softmax_over_queries", "K30", "softmax is taken over the queries",
         "Take softmax over the keys.", "matches_oracle", weighed=_over(-2)),
    _row("softmax_over_heads", "K30", "softmax is taken over the heads",
         "Take softmax over the keys.", "head_alone", weighed=_over(1)),
    _row("weight_on_nothing", "K30", "one more key, with a score of 0 and no value, is counted",
         "Let the weights of visible tokens add up to 1.", "single_token", weighed=_with_a_sink),
    _row("entries_mixed", "K04", "a mean over the batch is taken from the values",
         "Compute each batch entry from its own numbers.", "entry_alone",
         at=only_at("v", _mixed)),
    _row("first_token_of_first_entry", "K04", "the first token's values are those of the first "
         "entry", "Compute each batch entry from its own numbers.", "others_change_nothing",
         at=only_at("v", _of_first_entry)),
    _row("heads_in_bfloat16", "K13", "what heads give is rounded to bfloat16",
         "Keep it in the dtype that the contract promises.", "matches_oracle",
         at=only_at("heads", _in_bfloat16), dtypes=("float32", "float64")),
)  # fmt: skip
