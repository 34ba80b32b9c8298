"""The laws of mla_decode: the newest token over what is cached.

Sources: the claims of `spec/mla_orders.py`, `spec/mla.py` and `spec/mla_streams.py`.
"""

from __future__ import annotations

from typing import Any

from attnspec.oracle import calls, mla_checks
from attnspec.oracle import mla_cache_checks as checks
from attnspec.oracle.gradient_laws import gradient_laws
from attnspec.oracle.law import Kind, Law
from attnspec.oracle.mla_calls import one_entry, others
from attnspec.oracle.mla_gradients import JACOBIANS
from attnspec.oracle.mla_values import gradients, latent_attention


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    family = f"mla_decode{more.pop('inputs', '')}"
    return Law(f"mla_decode.{name}", "mla_decode", says, means, kind, check, inputs=family, **more)


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "the output is that of attention over all that is cached, within the derived allowance",
        "the newest token is not given latent attention over its cache, or something is rounded "
        "where the contract forbids it",
        "oracle",
        calls.matches_oracle(latent_attention),
        claims=("mla.decode_eq_last_row", "mla.definition"),
        rejects=(
            "mla_decode.base_ignored",
            "mla_decode.position_one_late",
            "mla_decode.position_of_first",
            "mla_decode.newest_left_out",
            "mla_decode.key_rotated_again",
            "mla_decode.latent_in_half",
            "mla_decode.sums_in_half",
        ),
    ),
    _law(
        "widths_apart",
        "the same where all widths of weights differ from each other",
        "a weight is read in an order that only fits where sizes are equal",
        "oracle",
        calls.matches_oracle(latent_attention),
        inputs="_apart",
        claims=("mla.absorbed_matrix", "mla.values_absorbed"),
        rejects=("mla_decode.key_reshaped", "mla_decode.value_heads_outside"),
    ),
    _law(
        "eq_prefill",
        "from the target's own cache of some tokens comes the last row of its own mla, within the "
        "allowances of all three",
        "prefill and decoding have other positions, scales or orders of channels",
        "reduced",
        checks.eq_prefill,
        inputs="_several",
        claims=("mla.decode_eq_last_row", "mla.absorbed_eq_naive"),
        rejects=("mla_decode.position_not_turned", "mla_decode.halves"),
    ),
    _law(
        "scale_read_off",
        "where only the newest token has a score, its weight tells the scale: (d + p)^(-1/2)",
        "scores are scaled by the width of what is multiplied",
        "probe",
        mla_checks.scale_read_off,
        inputs="_several",
        claims=("mla.score_of_projections",),
        rejects=("mla_decode.scale_of_latent", "mla_decode.scale_of_content"),
    ),
    _law(
        "bases_are_free",
        "latents in another basis, with the weights from them, give the same output",
        "a latent goes through something that is not linear",
        "equivariance",
        mla_checks.bases_are_free,
        inputs="_several",
        claims=("mla.heads_share_latent_space",),
        rejects=("mla_decode.latent_normed",),
    ),
    _law(
        "heads_in_any_order",
        "heads in another order, with their weights, give the same output",
        "heads are mixed, or the first has something that the others lack",
        "equivariance",
        mla_checks.heads_in_any_order,
        inputs="_heads",
        claims=("mla.heads_from_latent",),
        rejects=("mla_decode.rope_by_head", "mla_decode.values_of_first_head"),
    ),
    _law(
        "quarter_turn",
        "pairs of the position stream turned by a right angle, in queries and in cached keys, give "
        "the same output",
        "queries and cached keys have different pairs",
        "equivariance",
        mla_checks.quarter_turn,
        inputs="_several",
        claims=("mla.content_and_position",),
        rejects=("mla_decode.second_channels_left",),
    ),
    _law(
        "entries_in_any_order",
        "what is cached before the newest token may be in any order: keys carry their positions",
        "the cache is cut, masked or rotated by the place in it",
        "equivariance",
        checks.entries_in_any_order,
        inputs="_several",
        claims=("mla.key_turns_once",),
        rejects=("mla_decode.first_left_out", "mla_decode.latent_rotated"),
    ),
    _law(
        "entry_alone",
        "a batch entry alone gives what it gives among others",
        "batch entries share something that each should have of its own",
        "reduced",
        calls.row_alone(latent_attention, one_entry),
        inputs="_batch",
        guarantee="batch-invariant",
        rejects=("mla_decode.entries_mixed",),
    ),
    *calls.call_laws(
        "mla_decode",
        latent_attention,
        others,
        {
            "inputs_unchanged": ("mla_decode.cache_in_place",),
            "no_memory": ("mla_decode.cache_of_first_call",),
            "output_form": ("mla_decode.result_in_float32",),
            "empty_batch": ("mla_decode.empty_flattened",),
        },
    ),
    *gradient_laws(
        "mla_decode",
        gradients,
        {
            "gradients_match_oracle": (
                "mla_decode.gradient_of_latent_missing",
                "mla_decode.gradient_of_latent_by_keys_alone",
            ),
            "gradients_along": ("mla_decode.gradient_of_values_halved",),
        },
        inputs="mla_decode",
        claims=("mla.definition",),
        jacobians=JACOBIANS,
    ),
)
