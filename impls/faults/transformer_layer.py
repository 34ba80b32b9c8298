"""A Llama-style layer with a wrong step: norms, sums, network, heads, positions, sight."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.transformer_layer_steps import (
    Call,
    fault,
    layer_by,
    normed,
    only_at,
    weighed,
)
from attnspec.impls.rope import rope, rope_half

silu = torch.nn.functional.silu


def _without_gain(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    return normed(x, torch.ones_like(gain), eps)


def _centred(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    return normed(x - x.mean(-1, keepdim=True), gain, eps)


def _inner_heads(x: Tensor, heads: int) -> Tensor:
    return x.reshape(*x.shape[:-1], x.shape[-1] // heads, heads).movedim(-1, 1)


def _one_late(length: int, device: torch.device) -> Tensor:
    return torch.arange(1, length + 1, device=device)


def _from_end(length: int, device: torch.device) -> Tensor:
    return torch.arange(1 - length, 1, device=device)


def _hidden_by_a_number(scores: Tensor) -> Tensor:
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return torch.softmax(scores.masked_fill(later, -8.0), -1)


def _over_queries(scores: Tensor) -> Tensor:
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return torch.softmax(scores.masked_fill(later, -torch.inf), -2)


def _strictly(scores: Tensor) -> Tensor:
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(0)
    later[0, 0] = False
    return torch.softmax(scores.masked_fill(later, -torch.inf), -1)


def _with_a_sink(scores: Tensor) -> Tensor:
    """A key more, whose score is 0 and which has no value."""
    more = torch.cat((scores, torch.zeros_like(scores[..., :1])), -1)
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    later = torch.cat((later, torch.zeros_like(later[:, :1])), -1)
    return torch.softmax(more.masked_fill(later, -torch.inf), -1)[..., :-1]


def _by_distance(scores: Tensor) -> Tensor:
    """A slope on distances."""
    at = torch.arange(scores.shape[-1], device=scores.device, dtype=scores.dtype)
    return weighed(scores + 0.125 * (at - at[:, None]))


def _with_places(x: Tensor, _call: Call) -> Tensor:
    at = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)
    return x + 0.25 * torch.sin(at)[:, None]


def _turned(x: Tensor, call: Call) -> Tensor:
    """Values are rotated as keys are, where they have pairs."""
    if call.base is None or x.shape[-1] % 2:
        return x
    return rope(x, torch.arange(x.shape[2], device=x.device), base=call.base)


def _unit(x: Tensor, call: Call) -> Tensor:
    """Without a gain."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + call.eps)


def _tiled(x: Tensor, call: Call) -> Tensor:
    return x.repeat(1, call.h // call.g, 1, 1)


def _of_first(x: Tensor, call: Call) -> Tensor:
    return x[:, :1].expand(-1, call.h, -1, -1)


def _mixed(x: Tensor, _call: Call) -> Tensor:
    return x - x.mean(0, keepdim=True) * 2.0**-4


def _of_first_entry(x: Tensor, _call: Call) -> Tensor:
    return torch.cat((x[:1].expand_as(x)[:, :1], x[:, 1:]), 1)


def _in_storage(x: Tensor, _call: Call) -> Tensor:
    return x.to(torch.bfloat16).to(x.dtype)


def _row(identity: str, kind: str, reason: str, remedy: str, law: str, *, report: str = "",
         dtypes: Any = None, precision: Any = None, **steps: Any) -> Fault:  # fmt: skip
    return fault(identity, kind, reason, remedy, law, layer_by(**steps), report=report,
                 dtypes=dtypes, precision=precision or {})  # fmt: skip


_STREAM = "Add what a sublayer gives to the stream as it was before the norm."

FAULTS: tuple[Fault, ...] = (
    # -- the network
    _row("gate_and_value_exchanged", "K20", "silu is taken of x w_up, and multiplied by x w_gate",
         "Take silu of x w_gate alone.", "linear_in_up",
         joined=lambda gate, up: silu(up) * gate, report="ml-explore/mlx-lm #767"),
    _row("silu_of_both", "K20", "silu is taken of x w_up too", "Leave x w_up as it is.",
         "linear_in_up", joined=lambda gate, up: silu(gate) * silu(up)),
    _row("sigmoid_for_silu", "K20", "the gate is a sigmoid, without its factor x",
         "Multiply the sigmoid by its argument.", "network_off",
         joined=lambda gate, up: torch.sigmoid(gate) * up),
    _row("gelu_for_silu", "K20", "the gate's function is GELU", "Use silu: x sigmoid(x).",
         "matches_oracle",
         joined=lambda gate, up: torch.nn.functional.gelu(gate) * up),
    _row("gate_alone", "K20", "x w_up is not multiplied in", "Multiply silu(x w_gate) by x w_up.",
         "network_off", joined=lambda gate, up: silu(gate)),
    _row("one_more_than_up", "K20", "the gate multiplies x w_up plus 1",
         "Multiply silu(x w_gate) by x w_up.", "network_off",
         joined=lambda gate, up: silu(gate) * (up + 1.0)),
    _row("hidden_shifted", "K20", "a channel of silu(x w_gate) meets the one before it of x w_up",
         "Multiply channels of the same place.", "hidden_in_any_order",
         joined=lambda gate, up: silu(gate) * up.roll(1, -1)),
    _row("hidden_of_last_dropped", "K25", "of an odd hidden width the last channel is left out",
         "Cover widths that no block divides.", "matches_oracle",
         at=only_at("hidden", lambda x, _: torch.cat((x[..., :-1], 0.0 * x[..., -1:]), -1)
                    if x.shape[-1] % 2 else x)),
    # -- norms and sums
    _row("norms_exchanged", "K20", "each sublayer is given the other norm's gain",
         "Use norm_attention before attention, norm_feed_forward before the network.",
         "attention_off", first_gain=lambda w: w["norm_feed_forward"],
         second_gain=lambda w: w["norm_attention"],
         report="naklecha/llama3-from-scratch #20"),
    _row("first_norm_twice", "K20", "norm_attention is used before the network too",
         "Use norm_feed_forward before the network.", "network_off",
         second_gain=lambda w: w["norm_attention"]),
    _row("normalised_value_added", "K20", "attention's output is added to the normalised stream",
         _STREAM, "both_off", first_sum=lambda stream, rows, addition: rows + addition,
         report="pytorch/pytorch #61165"),
    _row("second_normalised_value_added", "K20", "the network's output is added to the normalised "
         "stream", _STREAM, "both_off",
         second_sum=lambda stream, rows, addition: rows + addition,
         report="tracel-ai/burn #1054"),
    _row("sum_forgotten", "K20", "attention's output takes the place of the stream",
         _STREAM, "both_off", first_sum=lambda stream, rows, addition: addition),
    _row("second_sum_forgotten", "K20", "the network's output is all that is returned",
         _STREAM, "both_off", second_sum=lambda stream, rows, addition: addition),
    _row("stream_scaled", "K20", "the sum is divided by the root of 2",
         _STREAM, "both_off",
         second_sum=lambda stream, rows, addition: (stream + addition) * 0.5**0.5),
    _row("normed_after", "K20", "the stream is normalised once more when it leaves",
         "Normalise before each sublayer, and nowhere else.", "both_off",
         at=only_at("y", _unit), report="ml-explore/mlx #1327"),
    _row("first_norm_missing", "K20", "attention is given the stream, times the gain",
         "Normalise the stream before attention.", "matches_oracle",
         first_norm=lambda x, gain, eps: x * gain),
    _row("second_norm_missing", "K20", "the network is given the stream, times the gain",
         "Normalise the stream before the network.", "matches_oracle",
         second_norm=lambda x, gain, eps: x * gain),
    _row("gain_of_first_forgotten", "K19", "the first norm has no gain",
         "Multiply the normalised stream by norm_attention.", "attention_off",
         first_norm=_without_gain),
    _row("gain_of_second_forgotten", "K19", "the second norm has no gain",
         "Multiply the normalised stream by norm_feed_forward.", "gains_in_matrices",
         second_norm=_without_gain),
    _row("gain_squared", "K19", "the gain of the first norm is multiplied in twice",
         "Multiply by the gain once.", "gains_in_matrices",
         first_norm=lambda x, gain, eps: normed(x, gain * gain, eps)),
    _row("gain_one_added", "K19", "gains are taken for distances from one",
         "Multiply by the weight as it is, or declare rms_norm.gain.", "network_off",
         first_norm=lambda x, gain, eps: normed(x, 1.0 + gain, eps),
         second_norm=lambda x, gain, eps: normed(x, 1.0 + gain, eps)),
    _row("gain_of_next_channel", "K19", "a channel has the gain of the next one",
         "Multiply each channel by its own gain.", "channels_in_any_order",
         first_norm=lambda x, gain, eps: normed(x, gain.roll(-1), eps)),
    _row("centred", "K30", "the mean is subtracted before the first norm", "Divide by the root "
         "mean square and subtract nothing.", "matches_oracle", first_norm=_centred),
    _row("eps_ignored", "K19", "eps is always 1e-6", "Use eps as it is given.", "eps_read_off",
         first_norm=lambda x, gain, eps: normed(x, gain, 1e-6),
         second_norm=lambda x, gain, eps: normed(x, gain, 1e-6)),
    _row("eps_of_second_of_layer_norm", "K19", "the second norm has the eps of LayerNorm, 1e-5, "
         "where eps is 1e-6", "Use one eps for both norms.", "eps_read_off",
         second_norm=lambda x, gain, eps: normed(x, gain, 1e-5 if eps == 1e-6 else eps)),
    _row("queries_normed", "K20", "queries are normalised by head after the projection",
         "Normalise the stream, and no projection, in this layer.", "matches_oracle",
         at=only_at("q", _unit), report="meta-pytorch/torchtune #2809"),
    # -- heads
    _row("keys_tiled", "K06", "query head i reads the keys of head i modulo g",
         "Let query head i read the keys of head i // (h / g).", "keys_repeated",
         repeated=_tiled),
    _row("keys_of_first", "K06", "all query heads read the keys and values of the first",
         "Let query head i read the keys of head i // (h / g).", "heads_in_any_order",
         repeated=_of_first),
    _row("heads_inside", "K07", "packed columns are split with the heads inside",
         "Split packed columns as (head, channel).", "heads_in_any_order", split=_inner_heads),
    _row("merged_channels_first", "K07", "heads are merged channel by channel before w_o",
         "Merge head outputs as (head, channel).", "heads_in_any_order",
         merged=lambda heads: heads.permute(0, 2, 3, 1).flatten(2)),
    _row("scale_of_values", "K05", "scores are scaled by the width of values, e^-0.5",
         "Scale scores by d^-0.5, the width of a query head.", "widths_apart",
         scale=lambda d, e, call: e**-0.5),
    _row("scale_of_model", "K05", "scores are scaled by the width of all heads of keys",
         "Scale scores by d^-0.5, the width of a query head.", "matches_oracle",
         scale=lambda d, e, call: (d * call.g) ** -0.5),
    _row("scale_missing", "K05", "scores are not scaled", "Scale scores by d^-0.5.",
         "matches_oracle", scale=lambda d, e, call: 1.0),
    # -- positions
    _row("rotation_ignored", "K29", "nothing is rotated", "Rotate queries and keys.",
         "matches_oracle", base=lambda base: None, report="vllm-project/vllm #30413"),
    _row("rotation_always", "K29", "queries and keys are rotated for rope_base=None too",
         "Rotate nothing where rope_base is None.", "earlier_in_any_order",
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
         "shifted", rotated_key=lambda x, at, base: x),
    _row("key_positions_one_late", "K09", "keys are rotated by one position more than queries",
         "Start the positions of queries and keys at the same number.", "matches_oracle",
         key_places=_one_late),
    _row("query_positions_from_end", "K09", "queries are rotated by their distance from the end",
         "Start the positions of queries and keys at the same number.", "prefix",
         places=_from_end),
    _row("values_rotated", "K09", "values are rotated as keys are", "Rotate queries and keys only.",
         "unasked_in_any_order", at=only_at("v", _turned)),
    _row("places_added", "K18", "a sinusoid of the position is added to the stream",
         "Let position enter by rotation and causality alone.", "earlier_in_any_order",
         at=only_at("normed", _with_places)),
    _row("slope_on_distance", "K17", "a bias that falls with distance is added to scores",
         "Let position enter by rotation and causality alone.", "unasked_in_any_order",
         weighed=_by_distance),
    # -- sight
    _row("one_token_more", "K01", "a query sees one token more", "Hide the tokens after the query.",
         "future_changes_nothing", weighed=lambda scores: weighed(scores, 2)),
    _row("own_token_hidden", "K01", "a query does not see its own token",
         "Hide the tokens after the query, and no other.", "matches_oracle", weighed=_strictly),
    _row("not_causal", "K01", "every query sees every token", "Hide the tokens after the query.",
         "prefix", weighed=lambda scores: torch.softmax(scores, -1)),
    _row("hidden_by_a_number", "K14", "later tokens are hidden by a score of -8",
         "Hide them by minus infinity.", "future_changes_nothing", weighed=_hidden_by_a_number),
    _row("softmax_over_queries", "K30", "softmax is taken over the queries",
         "Take softmax over the keys.", "prefix", weighed=_over_queries),
    _row("weight_on_nothing", "K30", "one more key, with a score of 0 and no value, is counted",
         "Let the weights of visible tokens add up to 1.", "matches_oracle", weighed=_with_a_sink),
    _row("entries_mixed", "K04", "a mean over the batch is taken from the normalised stream",
         "Compute each batch entry from its own numbers.", "entry_alone",
         at=only_at("normed", _mixed)),
    _row("first_token_of_first_entry", "K04", "the first token's values are those of the first "
         "entry", "Compute each batch entry from its own numbers.", "others_change_nothing",
         at=only_at("v", lambda x, c: _of_first_entry(x.transpose(1, 2), c).transpose(1, 2))),
    _row("hidden_in_bfloat16", "K13", "the hidden layer is rounded to bfloat16",
         "Keep it in the dtype that the contract promises.", "matches_oracle",
         at=only_at("hidden", _in_storage), dtypes=("float32", "float64")),
    _row("middle_in_bfloat16", "K13", "the stream between the blocks is rounded to bfloat16",
         "Keep it in the dtype that the contract promises.", "both_off",
         at=only_at("middle", _in_storage), dtypes=("float32", "float64")),
)  # fmt: skip
