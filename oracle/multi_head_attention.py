"""The laws of multi-head attention.

Sources: the claims of `spec/multi_head_attention*.py`, and of `spec/gqa.py` for shared keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnspec.oracle import calls
from attnspec.oracle import multi_head_attention_checks as checks
from attnspec.oracle.changed_calls import future_changes_nothing, one_entry, prefix
from attnspec.oracle.law import Kind, Law
from attnspec.oracle.multi_head_attention_calls import others, two_runs
from attnspec.oracle.multi_head_attention_values import multi_head_attention

REJECTED: Mapping[str, tuple[str, ...]] = {
    "matches_oracle": (
        "keys_backwards", "queries_normed", "scale_missing", "rotation_ignored", "base_ignored",
        "own_token_hidden", "softmax_over_queries", "heads_in_bfloat16",
    ),
    "widths_apart": ("heads_viewed", "scale_of_model", "scale_of_values"),
    "sum_of_heads": ("merged_without_transpose", "heads_averaged", "last_head_dropped"),
    "head_alone": (
        "merged_channels_first", "output_matrix_by_channels", "scale_of_all_heads",
        "softmax_over_heads",
    ),
    "heads_in_any_order": ("keys_of_first", "heads_inside", "heads_scaled_by_place"),
    "keys_repeated": ("keys_tiled",),
    "quarter_turn": ("halves", "keys_in_halves"),
    "mirrored": ("keys_not_rotated", "key_positions_one_late"),
    "tokens_in_any_order": ("rotation_always", "slope_on_distance"),
    "unasked": ("values_rotated",),
    "single_token": ("weight_on_nothing",),
    "prefix": ("query_positions_from_end", "causal_ignored"),
    "future_changes_nothing": ("one_token_more", "mask_of_first_head", "hidden_by_a_number"),
    "entry_alone": ("entries_mixed",),
    "others_change_nothing": ("batch_and_heads_exchanged", "first_token_of_first_entry"),
    "inputs_unchanged": ("scaled_in_place",),
    "repeatable": ("sum_not_cleared",),
    "views_equal_copies": ("x_as_contiguous", "weight_as_contiguous"),
    "no_memory": ("weights_of_first_call", "buffer_handed_out"),
    "output_form": ("result_in_float32",),
    "empty_batch": ("empty_flattened",),
}  # fmt: skip
"""The last name of a law to those of the faults that it rejects."""

REJECTS: Mapping[str, tuple[str, ...]] = {
    law: tuple(f"multi_head_attention.{fault}" for fault in faults)
    for law, faults in REJECTED.items()
}


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    family = f"multi_head_attention{more.pop('inputs', '')}"
    return Law(f"multi_head_attention.{name}", "multi_head_attention", says, means, kind, check,
               inputs=family, rejects=REJECTS[name], **more)  # fmt: skip


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "every entry is that of attention by heads, times w_o, within the derived allowance",
        "the function is not multi-head attention with these weights, or it rounds where its "
        "contract forbids it",
        "oracle",
        calls.matches_oracle(multi_head_attention),
        claims=("multi_head_attention.definition",),
    ),
    _law(
        "widths_apart",
        "the same where all widths differ from each other, and from the number of heads",
        "a weight is read in an order that only fits where sizes are equal, or the scale is that "
        "of another width",
        "oracle",
        calls.matches_oracle(multi_head_attention),
        inputs="_apart",
        claims=("multi_head_attention.definition",),
    ),
    _law(
        "sum_of_heads",
        "the output is the sum of what heads give alone, with their columns and rows of weights",
        "heads are merged in another order than the rows of w_o have, or averaged",
        "reduced",
        checks.sum_of_heads,
        inputs="_heads",
        claims=("multi_head_attention.concat_eq_sum_of_blocks",),
    ),
    _law(
        "head_alone",
        "with zeros in the other heads' rows of w_o, what is left is one head alone",
        "rows of w_o meet channels of other heads, or heads depend on each other",
        "probe",
        checks.head_alone,
        inputs="_heads",
        claims=("multi_head_attention.concat_then_output",),
    ),
    _law(
        "heads_in_any_order",
        "heads in another order, with the keys that they share and their rows of w_o, give the "
        "same output",
        "heads are mixed or merged in another order, or all read the keys of one",
        "equivariance",
        checks.heads_in_any_order,
        inputs="_heads",
        claims=("multi_head_attention.heads_are_columns",),
    ),
    _law(
        "keys_repeated",
        "shared keys and values give what copies of them, one for each query head, give",
        "query heads read other heads' keys",
        "reduced",
        checks.keys_repeated,
        inputs="_grouped",
        options=("n_kv_heads",),
        claims=("gqa.eq_mha_of_repeated_keys",),
    ),
    _law(
        "quarter_turn",
        "all pairs of queries and keys turned by a right angle give the same output",
        "queries and keys have different pairs, or not those that are declared",
        "equivariance",
        checks.quarter_turn,
        inputs="_turned",
        options=("rope_base",),
        claims=("multi_head_attention.rope_at_own_positions",),
    ),
    _law(
        "mirrored",
        "without causality, the tokens backwards with the members of all pairs exchanged give "
        "the output backwards: only displacements count",
        "positions of queries and keys do not start at the same number, or one side has none",
        "equivariance",
        checks.mirrored,
        inputs="_mirrored",
        options=("rope_base",),
        claims=("multi_head_attention.rope_at_own_positions",),
    ),
    _law(
        "tokens_in_any_order",
        "without rotation and causality, tokens in another order come back in it",
        "position enters where none was asked for",
        "equivariance",
        checks.tokens_in_any_order,
        inputs="_still",
        claims=("multi_head_attention.definition",),
    ),
    _law(
        "unasked",
        "with queries of zeros rotation changes nothing",
        "values are rotated",
        "reduced",
        checks.unasked,
        inputs="_turned",
        options=("rope_base",),
        claims=("multi_head_attention.rope_at_own_positions",),
    ),
    _law(
        "single_token",
        "what one token gives alone does not depend on its query and key",
        "weights of a query do not add up to 1",
        "reduced",
        checks.single_token,
        inputs="_single",
        claims=("multi_head_attention.definition",),
    ),
    _law(
        "prefix",
        "in causal calls the first tokens alone give the first rows of all",
        "a row depends on how many tokens follow it",
        "reduced",
        prefix(two_runs),
        inputs="_causal",
        options=("causal",),
        claims=("multi_head_attention.definition",),
    ),
    _law(
        "future_changes_nothing",
        "in causal calls other later tokens change no bit of a row",
        "a row sees later tokens, in some head, or something is shared by all rows",
        "exact",
        future_changes_nothing,
        inputs="_causal",
        options=("causal",),
        guarantee="mask-exact",
    ),
    _law(
        "entry_alone",
        "a batch entry alone gives what it gives among others",
        "batch entries share something that each should have of its own",
        "reduced",
        calls.row_alone(multi_head_attention, one_entry),
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
    *calls.call_laws("multi_head_attention", multi_head_attention, others, REJECTS),
)
