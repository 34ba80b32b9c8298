"""The laws of t5_bias and of its gradient.

Sources: the claims of `spec/t5_bias.py`.
"""

from __future__ import annotations

from typing import Any

from attnspec.oracle import calls
from attnspec.oracle.gradient_laws import gradient_laws
from attnspec.oracle.law import Kind, Law
from attnspec.oracle.t5_bias_checks import (
    along,
    decode_row,
    gradient_counts,
    gradients_adjoint,
    head_alone,
    long_sums,
    numbers_of_buckets,
    of_displacement,
    others,
    unread_rows,
    unread_rows_get_none,
)
from attnspec.oracle.t5_values import bias, bias_gradients


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    family = more.pop("inputs", "t5_bias")
    return Law(f"t5_bias.{name}", "t5_bias", says, means, kind, check, inputs=family, **more)


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "every entry is the table's own of the bucket of its displacement, to the bit",
        "another row is read, or entries are rounded on the way",
        "oracle",
        calls.matches_oracle(bias),
        claims=("t5_bias.definition", "t5_bias.far_distances_alike"),
        rejects=(
            "t5_bias.max_distance_ignored",
            "t5_bias.table_by_memory",
            "t5_bias.table_in_bfloat16",
            "t5_bias.scaled_by_heads",
            "t5_bias.nothing_beyond_max_distance",
            "t5_bias.later_keys_hidden",
        ),
    ),
    _law(
        "of_displacement",
        "a head's bias is one number along each diagonal",
        "positions do not count up by one from query to query and from key to key",
        "equivariance",
        of_displacement,
        claims=("t5_bias.of_displacement",),
        rejects=(
            "t5_bias.tiles_from_zero",
            "t5_bias.laid_out_by_keys",
        ),
    ),
    _law(
        "decode_row",
        "the bias of the last queries alone is the last rows of the bias of all",
        "queries are counted from the first key: in decoding the new token sits at the last one",
        "reduced",
        decode_row,
        inputs="t5_bias_rows",
        claims=("t5_bias.decode_row",),
        rejects=(
            "t5_bias.queries_from_first_key",
            "t5_bias.built_over_queries",
            "t5_bias.queries_one_late",
        ),
    ),
    _law(
        "head_alone",
        "a head's bias comes from its own column of the table alone",
        "heads are mixed up when the entries are laid out",
        "reduced",
        head_alone,
        inputs="t5_bias_heads",
        claims=("t5_bias.definition",),
        rejects=(
            "t5_bias.heads_by_memory",
            "t5_bias.first_head_for_all",
        ),
    ),
    _law(
        "unread_rows_change_nothing",
        "rows of buckets that no pair of the call is in may hold any number",
        "a bucket is computed that should not occur",
        "exact",
        unread_rows,
        claims=("t5_bias.parameters",),
        rejects=("t5_bias.zero_counts_as_later",),
    ),
    _law(
        "reads_its_buckets",
        "from a table that holds each bucket's number come the buckets of t5_bucket",
        "bias and buckets of one target follow different rules",
        "probe",
        numbers_of_buckets,
        inputs="t5_bias_numbers",
        claims=("t5_bias.definition",),
        rejects=(
            "t5_bias.query_minus_key",
            "t5_bias.as_many_buckets_as_t5",
            "t5_bias.one_direction_ignored",
        ),
    ),
    *calls.call_laws(
        "t5_bias",
        bias,
        others,
        {
            "inputs_unchanged": ("t5_bias.writes_over_table",),
            "repeatable": ("t5_bias.last_key_races",),
            "views_equal_copies": ("t5_bias.reads_as_contiguous",),
            "no_memory": (
                "t5_bias.max_distance_of_first_call",
                "t5_bias.rows_of_longest_call",
                "t5_bias.kept_by_size",
                "t5_bias.buffer_handed_out",
            ),
            "output_form": ("t5_bias.result_in_float32",),
            "empty_batch": ("t5_bias.empty_flattened",),
        },
    ),
    *gradient_laws(
        "t5_bias",
        bias_gradients,
        {
            "gradients_match_oracle": (
                "t5_bias.gradient_missing",
                "t5_bias.gradient_summed_in_storage",
                "t5_bias.gradient_of_first_head",
            ),
            "zero_upstream": ("t5_bias.gradient_upstream_ignored",),
            "gradients_of_views": ("t5_bias.gradient_upstream_as_contiguous",),
            "gradients_between_calls": ("t5_bias.gradient_of_latest_call",),
            "gradient_leaves_output": ("t5_bias.gradient_overwrites_upstream",),
            "gradients_accumulate": ("t5_bias.gradient_added_to_grad",),
            "gradients_of_gradients": ("t5_bias.gradient_of_gradient_heads_reversed",),
        },
        inputs="t5_bias",
        claims=("t5_bias.table_gradient",),
        others=others,
        of_mean=lambda inputs: True,
        jacobians={"table": along},
    ),
    _law(
        "gradient_counts",
        "with an upstream of ones an entry's gradient is the number of pairs that read it",
        "pairs of one bucket are not added up, or added up more than once",
        "gradient",
        gradient_counts,
        claims=("t5_bias.table_gradient",),
        rejects=(
            "t5_bias.gradient_of_last_pair",
            "t5_bias.gradient_mean",
        ),
        gradients=True,
    ),
    _law(
        "gradient_of_unread_rows",
        "the gradient of a row that no pair reads is zero",
        "the backward pass computes other buckets than the forward pass",
        "gradient",
        unread_rows_get_none,
        claims=("t5_bias.parameters",),
        rejects=("t5_bias.gradient_of_other_offsets",),
        gradients=True,
    ),
    _law(
        "gradients_adjoint",
        "the bias is linear in its table: the inner product of upstream and bias is that of the "
        "gradient and the table",
        "the backward pass is not the transpose of the forward pass",
        "gradient",
        gradients_adjoint,
        claims=("t5_bias.table_gradient",),
        rejects=(
            "t5_bias.gradient_of_first_row_zero",
            "t5_bias.gradient_heads_reversed",
        ),
        gradients=True,
    ),
    _law(
        "gradients_long_sums",
        "an entry's gradient adds up over all pairs that read it, large terms and small",
        "a sum over pairs is kept in half precision, where it stops growing",
        "gradient",
        long_sums,
        claims=("t5_bias.table_gradient",),
        rejects=("t5_bias.gradient_summed_in_storage",),
        gradients=True,
    ),
)
