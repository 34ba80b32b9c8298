"""The laws of mla and mla_absorbed.

Sources: the claims of `spec/mla.py`, `spec/mla_formula.py`, `spec/mla_orders.py`,
`spec/mla_streams.py` and `spec/mla_rank.py`. Both are one function: all laws are laws of both, and
one compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnspec.oracle import calls
from attnspec.oracle import mla_checks as checks
from attnspec.oracle.changed_calls import future_changes_nothing, prefix
from attnspec.oracle.law import Kind, Law
from attnspec.oracle.mla_calls import one_entry, others, two_runs
from attnspec.oracle.mla_values import latent_attention

Rejected = Mapping[str, tuple[str, ...]]
"""The last name of a law to the faults that it rejects."""


def _laws(component: str, rejects: Rejected) -> tuple[Law, ...]:
    """Those of one of the two."""

    def law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
        family = f"{component}{more.pop('inputs', '')}"
        return Law(f"{component}.{name}", component, says, means, kind, check, inputs=family,
                   rejects=rejects.get(name, ()), **more)  # fmt: skip

    rows = (
        law(
            "matches_oracle",
            "every entry is that of attention over keys and values from one latent a token, within "
            "the derived allowance",
            "the function is not latent attention with these weights, or it rounds where its "
            "contract forbids it",
            "oracle",
            calls.matches_oracle(latent_attention),
            claims=("mla.definition", "mla.heads_from_latent", "mla.keys_from_one_latent"),
        ),
        law(
            "widths_apart",
            "the same where all widths of weights differ from each other",
            "a weight is read in an order that only fits where sizes are equal, or the scale is "
            "that of another width",
            "oracle",
            calls.matches_oracle(latent_attention),
            inputs="_apart",
            claims=("mla.definition", "mla.absorbed_matrix"),
        ),
        law(
            "scale_read_off",
            "where one token has a score and the others none, its weight tells the scale: "
            "(d + p)^(-1/2)",
            "scores are scaled by another width: that of the content alone, of the values, of the "
            "latent",
            "probe",
            checks.scale_read_off,
            inputs="_several",
            claims=("mla.score_of_projections", "mla.score_adds_streams"),
        ),
        law(
            "bases_are_free",
            "the latents in another basis, with the weights from them, give the same output",
            "a latent goes through something that is not linear: a norm, a clip, a rotation",
            "equivariance",
            checks.bases_are_free,
            inputs="_several",
            claims=("mla.absorbed_matrix", "mla.heads_share_latent_space", "mla.rope_in_the_way"),
        ),
        law(
            "heads_in_any_order",
            "heads in another order, with their weights, give the same output",
            "heads are mixed, or the first has something that the others lack",
            "equivariance",
            checks.heads_in_any_order,
            inputs="_heads",
            claims=("mla.heads_from_latent",),
        ),
        law(
            "quarter_turn",
            "the pairs of the position stream turned by a right angle, in queries and in the key, "
            "give the same output",
            "queries and keys have different pairs, or their pairs are not turned",
            "equivariance",
            checks.quarter_turn,
            inputs="_several",
            claims=("mla.content_and_position",),
        ),
        law(
            "tokens_backwards",
            "without causality, the tokens backwards with the members of all pairs exchanged give "
            "the output backwards: only displacements count",
            "positions of queries and keys do not start at the same number",
            "equivariance",
            checks.mirrored,
            inputs="_full",
            claims=("mla.score_adds_streams",),
        ),
        law(
            "content_without_position",
            "without causality and without one side of the position stream, tokens in another "
            "order come back in that order",
            "the content has positions: it is rotated, or biased",
            "equivariance",
            checks.content_without_position,
            inputs="_full",
            claims=("mla.content_without_position", "mla.no_one_matrix"),
        ),
        law(
            "prefix",
            "the first tokens alone give the first rows of all",
            "a row depends on how many tokens follow it",
            "reduced",
            prefix(two_runs),
            inputs="_causal",
            claims=("mla.decode_eq_last_row",),
        ),
        law(
            "future_changes_nothing",
            "other later tokens change no bit of a row",
            "a row sees later tokens, or something is shared by all rows",
            "exact",
            future_changes_nothing,
            inputs="_causal",
            guarantee="mask-exact",
        ),
        law(
            "only_latents_are_seen",
            "what of a token reaches neither its latent nor its rotary key reaches no other row",
            "keys or values are made of something else than the latent",
            "equivariance",
            checks.only_latents_are_seen,
            inputs="_several",
            claims=("mla.keys_from_one_latent", "mla.latent_is_projection"),
        ),
        law(
            "entry_alone",
            "a batch entry alone gives what it gives among others",
            "batch entries share something that each should have of its own",
            "reduced",
            calls.row_alone(latent_attention, one_entry),
            inputs="_batch",
            guarantee="batch-invariant",
        ),
        law(
            "others_change_nothing",
            "other content of the other batch entries changes no bit of one",
            "batch entries share something that each should have of its own",
            "exact",
            calls.others_change_nothing(one_entry),
            inputs="_batch",
            guarantee="mask-exact",
        ),
        law(
            "eq_mla",
            "without keys and values the output is that of the same target's mla, within the "
            "allowances of both",
            "weights are absorbed in the wrong order, or absorption changes the scale",
            "reduced",
            checks.absorbed_eq_built,
            inputs="_apart",
            claims=("mla.absorbed_eq_naive", "mla.values_absorbed", "mla.score_in_latents"),
        ),
    )  # fmt: skip
    kept = tuple(row for row in rows if row.id.partition(".")[2] in rejects)
    return (*kept, *calls.call_laws(component, latent_attention, others, rejects))


MLA: Rejected = {
    "scale_read_off": (
        "mla.scale_of_content",
        "mla.scale_of_values",
        "mla.scale_of_content_and_values",
        "mla.scale_of_model_over_heads",
        "mla.scale_times_log_two",
    ),
    "matches_oracle": (
        "mla.scale_on_content_alone",
        "mla.latent_in_half",
        "mla.halves",
        "mla.base_ignored",
        "mla.positions_without_weight",
        "mla.own_token_hidden",
    ),
    "bases_are_free": (
        "mla.latent_normed",
        "mla.latent_clipped",
    ),
    "only_latents_are_seen": ("mla.keys_from_query_latent",),
    "content_without_position": ("mla.rope_on_content",),
    "heads_in_any_order": (
        "mla.rope_by_head",
        "mla.heads_inside",
        "mla.output_channels_first",
        "mla.values_of_first_head",
    ),
    "tokens_backwards": (
        "mla.rope_not_on_key",
        "mla.rope_not_on_query",
        "mla.key_positions_one_late",
    ),
    "prefix": (
        "mla.query_positions_from_end",
        "mla.softmax_over_queries",
    ),
    "quarter_turn": ("mla.keys_in_halves",),
    "widths_apart": ("mla.value_heads_inside",),
    "future_changes_nothing": (
        "mla.one_token_more",
        "mla.hidden_by_a_number",
    ),
    "entry_alone": ("mla.entries_mixed",),
    "others_change_nothing": ("mla.first_token_of_first_entry",),
    "inputs_unchanged": (
        "mla.in_place",
        "mla.weights_gain_a_key",
    ),
    "no_memory": ("mla.weights_of_first_call",),
    "empty_batch": ("mla.empty_flattened",),
    "output_form": ("mla.result_in_float32",),
}

ABSORBED: Rejected = {
    "scale_read_off": (
        "mla_absorbed.scale_of_latent",
        "mla_absorbed.scale_of_content",
    ),
    "eq_mla": (
        "mla_absorbed.scale_of_latent_alone",
        "mla_absorbed.key_reshaped",
        "mla_absorbed.key_of_next_head",
        "mla_absorbed.value_heads_outside",
        "mla_absorbed.value_of_next_head",
        "mla_absorbed.positions_left_out",
    ),
    "widths_apart": (
        "mla_absorbed.key_transposed",
        "mla_absorbed.value_transposed",
    ),
    "heads_in_any_order": (
        "mla_absorbed.value_channels_first",
        "mla_absorbed.rope_by_head",
    ),
    "matches_oracle": (
        "mla_absorbed.query_in_bfloat16",
        "mla_absorbed.heads_in_bfloat16",
        "mla_absorbed.base_ignored",
        "mla_absorbed.softmax_over_heads",
    ),
    "content_without_position": ("mla_absorbed.rope_on_latent",),
    "bases_are_free": (
        "mla_absorbed.latent_cut",
        "mla_absorbed.latent_normed",
    ),
    "only_latents_are_seen": ("mla_absorbed.latent_not_shared",),
    "tokens_backwards": (
        "mla_absorbed.key_positions_one_late",
        "mla_absorbed.queries_turn_backwards",
    ),
    "quarter_turn": ("mla_absorbed.pairs_scaled",),
    "future_changes_nothing": ("mla_absorbed.one_token_more",),
    "prefix": ("mla_absorbed.last_token_sees_less",),
    "entry_alone": ("mla_absorbed.entries_mixed",),
    "others_change_nothing": ("mla_absorbed.neighbours_leak",),
    "inputs_unchanged": ("mla_absorbed.in_place",),
    "no_memory": ("mla_absorbed.merged_weights_kept",),
    "empty_batch": ("mla_absorbed.empty_flattened",),
    "output_form": ("mla_absorbed.result_in_float32",),
}

LAWS: tuple[Law, ...] = (
    *_laws("mla", MLA),
    *_laws("mla_absorbed", ABSORBED),
)
