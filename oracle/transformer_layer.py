"""The laws of a Llama-style layer.

Sources: the claims of `spec/transformer_layer.py`, and those of its parts: RMSNorm, RoPE, attention
with shared keys. The layer is always causal, so laws about the order of tokens look at the last
row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnspec.oracle import calls
from attnspec.oracle import transformer_layer_checks as checks
from attnspec.oracle.changed_calls import future_changes_nothing, one_entry, prefix
from attnspec.oracle.law import Kind, Law
from attnspec.oracle.transformer_layer_calls import others, two_runs
from attnspec.oracle.transformer_layer_values import transformer_layer

REJECTED: Mapping[str, tuple[str, ...]] = {
    "matches_oracle": (
        "gelu_for_silu", "hidden_of_last_dropped", "first_norm_missing", "second_norm_missing",
        "centred", "queries_normed", "scale_of_model", "scale_missing", "rotation_ignored",
        "base_ignored", "key_positions_one_late", "own_token_hidden", "weight_on_nothing",
        "hidden_in_bfloat16",
    ),
    "widths_apart": ("scale_of_values",),
    "eps_read_off": ("eps_ignored", "eps_of_second_of_layer_norm"),
    "both_off": (
        "normalised_value_added", "second_normalised_value_added", "sum_forgotten",
        "second_sum_forgotten", "stream_scaled", "normed_after", "middle_in_bfloat16",
    ),
    "network_off": (
        "sigmoid_for_silu", "gate_alone", "one_more_than_up", "first_norm_twice", "gain_one_added",
    ),
    "attention_off": ("norms_exchanged", "gain_of_first_forgotten"),
    "linear_in_up": ("gate_and_value_exchanged", "silu_of_both"),
    "gains_in_matrices": ("gain_of_second_forgotten", "gain_squared"),
    "hidden_in_any_order": ("hidden_shifted",),
    "channels_in_any_order": ("gain_of_next_channel",),
    "heads_in_any_order": ("keys_of_first", "heads_inside", "merged_channels_first"),
    "keys_repeated": ("keys_tiled",),
    "quarter_turn": ("halves", "keys_in_halves"),
    "earlier_in_any_order": ("rotation_always", "places_added"),
    "unasked_in_any_order": ("values_rotated", "slope_on_distance"),
    "shifted": ("keys_not_rotated",),
    "prefix": ("query_positions_from_end", "not_causal", "softmax_over_queries"),
    "future_changes_nothing": ("one_token_more", "hidden_by_a_number"),
    "entry_alone": ("entries_mixed",),
    "others_change_nothing": ("first_token_of_first_entry",),
    "inputs_unchanged": ("normed_in_place", "weights_gain_a_key"),
    "repeatable": ("sum_not_cleared",),
    "views_equal_copies": ("x_as_contiguous",),
    "no_memory": ("weights_of_first_call", "buffer_handed_out", "base_of_first_call"),
    "output_form": ("result_in_float32",),
    "empty_batch": ("empty_flattened",),
}  # fmt: skip
"""The last name of a law to those of the faults that it rejects."""

REJECTS: Mapping[str, tuple[str, ...]] = {
    law: tuple(f"transformer_layer.{fault}" for fault in faults) for law, faults in REJECTED.items()
}


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    family = f"transformer_layer{more.pop('inputs', '')}"
    return Law(f"transformer_layer.{name}", "transformer_layer", says, means, kind, check,
               inputs=family, rejects=REJECTS[name], **more)  # fmt: skip


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "every entry is that of norm, causal attention, sum, norm, gated network and sum, within "
        "what these steps may be off together",
        "a step is another one, or stands elsewhere, or rounds where its contract forbids it",
        "oracle",
        calls.matches_oracle(transformer_layer),
        claims=(
            "transformer_layer.definition",
            "transformer_layer.chain",
            "transformer_layer.silu_forms",
        ),
    ),
    _law(
        "widths_apart",
        "the same where all widths of weights differ from each other, and keys are shared",
        "a weight is read in an order that only fits where sizes are equal, or the scale is that "
        "of another width",
        "oracle",
        calls.matches_oracle(transformer_layer),
        inputs="_apart",
        claims=("transformer_layer.definition",),
    ),
    _law(
        "eps_read_off",
        "where rows are about as small as the root of eps, the result tells eps",
        "eps is another number than the one given, or stands elsewhere, in one of the norms",
        "probe",
        calls.matches_oracle(transformer_layer),
        inputs="_at_eps",
        claims=("rms_norm.definition",),
    ),
    _law(
        "both_off",
        "with w_o and w_down of zeros x comes back, to the bit",
        "what is added to a sublayer's output is not the stream as it was before the norm",
        "exact",
        checks.both_off,
        claims=("transformer_layer.definition",),
    ),
    _law(
        "network_off",
        "w_up, w_gate or the second norm's gain of zeros is as w_down of zeros: attention alone",
        "the gated network has another form, or its norm another gain",
        "exact",
        checks.network_off,
        inputs="_several",
        claims=("transformer_layer.definition",),
    ),
    _law(
        "attention_off",
        "w_v or the first norm's gain of zeros is as w_o of zeros: the network alone",
        "attention is given something else than the normalised stream, or another norm's gain",
        "exact",
        checks.attention_off,
        inputs="_several",
        claims=("transformer_layer.definition",),
    ),
    _law(
        "linear_in_up",
        "w_up by a power of two and w_down over it, for each hidden channel, is the same layer",
        "gate and value are exchanged, or the value goes through a function",
        "equivariance",
        checks.linear_in_up,
        claims=("transformer_layer.definition",),
    ),
    _law(
        "gains_in_matrices",
        "gains of the norms can go into the rows of the matrices behind them",
        "a gain is used twice, not at all, or for some of the matrices only",
        "equivariance",
        checks.gains_in_matrices,
        claims=("rms_norm.definition",),
    ),
    _law(
        "hidden_in_any_order",
        "hidden channels in another order, in all three matrices, are the same layer",
        "channels of the gate meet others of the value: a fused matrix is split wrongly",
        "equivariance",
        checks.hidden_in_any_order,
        inputs="_apart",
        claims=("transformer_layer.definition",),
    ),
    _law(
        "channels_in_any_order",
        "channels of the stream in another order, with those of all weights, come back in it",
        "what happens to a channel depends on its place",
        "equivariance",
        checks.channels_in_any_order,
        inputs="_several",
        claims=("transformer_layer.definition",),
    ),
    _law(
        "heads_in_any_order",
        "heads in another order, with the keys that they share and their rows of w_o, give the "
        "same output",
        "heads are mixed or merged in another order, or all read the keys of one",
        "equivariance",
        checks.heads_in_any_order,
        inputs="_heads",
        claims=("transformer_layer.definition",),
    ),
    _law(
        "keys_repeated",
        "shared keys and values give what copies of them, one for each query head, give",
        "query heads read other heads' keys",
        "reduced",
        checks.keys_repeated,
        inputs="_grouped",
        options=("n_kv_heads",),
        claims=("transformer_layer.definition",),
    ),
    _law(
        "quarter_turn",
        "all pairs of queries and keys turned by a right angle give the same output",
        "queries and keys have different pairs, or not those that are declared",
        "equivariance",
        checks.quarter_turn,
        inputs="_turned",
        claims=("transformer_layer.chain",),
    ),
    _law(
        "earlier_in_any_order",
        "without rotation the order of earlier tokens does not matter to the last row",
        "position enters somewhere else than in the mask",
        "equivariance",
        checks.earlier_in_any_order,
        inputs="_still",
        options=("rope_base",),
        claims=("transformer_layer.position_enters_in_attention",),
    ),
    _law(
        "unasked_in_any_order",
        "with queries of zeros that order does not matter either, rotated or not",
        "values are rotated, or a bias on distances is added to scores",
        "equivariance",
        checks.unasked_in_any_order,
        inputs="_several",
        claims=("transformer_layer.chain",),
    ),
    _law(
        "shifted",
        "tokens of zeros in front, which move all positions, leave the direction of what a head "
        "adds",
        "scores depend on positions themselves, not on their differences",
        "equivariance",
        checks.shifted,
        inputs="_turned",
        claims=("transformer_layer.chain",),
    ),
    _law(
        "prefix",
        "the first tokens alone give the first rows of all",
        "a row depends on how many tokens follow it",
        "reduced",
        prefix(two_runs),
        inputs="_several",
        claims=("transformer_layer.definition",),
    ),
    _law(
        "future_changes_nothing",
        "other later tokens change no bit of a row",
        "a row sees later tokens, or something is shared by all rows",
        "exact",
        future_changes_nothing,
        inputs="_several",
        guarantee="mask-exact",
    ),
    _law(
        "entry_alone",
        "a batch entry alone gives what it gives among others",
        "batch entries share something that each should have of its own",
        "reduced",
        calls.row_alone(transformer_layer, one_entry),
        inputs="_batch",
        guarantee="batch-invariant",
    ),
    _law(
        "others_change_nothing",
        "other content of the other batch entries changes no bit of one",
        "batch entries share something that each should have of its own",
        "exact",
        calls.others_change_nothing(one_entry),
        inputs="_batch",
        guarantee="mask-exact",
    ),
    *calls.call_laws("transformer_layer", transformer_layer, others, REJECTS),
)
