"""The laws of alibi_bias.

Sources: the claims of `spec/alibi_bias.py` and `spec/alibi_bias_weights.py`. A target may add a
constant a row (`alibi.row_constant=free`) and promise nothing of keys after the query
(`alibi.future=unspecified`): the laws are about what is left.
"""

from __future__ import annotations

from typing import Any

from attnspec.oracle import alibi_checks as checks
from attnspec.oracle import calls
from attnspec.oracle.alibi_attention import attention_by_key
from attnspec.oracle.alibi_slopes import otherwise_typed
from attnspec.oracle.alibi_values import bias
from attnspec.oracle.law import Implementation, Inputs, Kind, Law


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: other heads in the same shape's place, fewer and more keys, one query, another
    dtype."""
    heads, s = inputs.numbers["n_heads"], inputs.numbers["s"]
    return [
        inputs.with_numbers(n_heads=heads + 1),
        inputs.with_numbers(t=1, s=s + 1),
        inputs.with_numbers(t=1),
        inputs.with_numbers(n_heads=2 * heads, t=max(1, s // 2), s=max(1, s // 2)),
        *otherwise_typed(implementation, inputs),
    ]


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    family = more.pop("inputs", "alibi_bias")
    return Law(f"alibi_bias.{name}", "alibi_bias", says, means, kind, check, inputs=family, **more)


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "a key costs the slope of its head times its distance, within the derived allowance",
        "slopes, distances or the sign are wrong, or something is rounded where the contract "
        "forbids it",
        "oracle",
        checks.matches_oracle,
        claims=("alibi_bias.definition", "alibi_bias.step_costs_slope"),
        rejects=(
            "alibi_bias.slopes_geometric",
            "alibi_bias.slopes_in_bfloat16",
            "alibi_bias.distances_in_bfloat16",
            "alibi_bias.distances_in_float16",
            "alibi_bias.running_sum_in_storage",
        ),
    ),
    _law(
        "zero_diagonal",
        "nothing is taken off at a query's own key",
        "distances are off by one, or count from the last key or the first one",
        "exact",
        checks.zero_diagonal,
        conventions={"alibi.row_constant": "zero-diagonal"},
        claims=("alibi_bias.zero_on_diagonal",),
        rejects=("alibi_bias.one_step_off", "alibi_bias.by_key_position"),
        blind_to=("alibi_bias.bonus", "alibi_bias.squared_distance", "alibi_bias.future_bonus"),
    ),
    _law(
        "falls_with_distance",
        "each step away from the query costs more",
        "the sign is that of a bonus, or distances stop to grow",
        "exact",
        checks.falls_with_distance,
        claims=("alibi_bias.falls_with_distance",),
        rejects=("alibi_bias.bonus", "alibi_bias.distance_clipped"),
        blind_to=("alibi_bias.squared_distance", "alibi_bias.slopes_geometric"),
    ),
    _law(
        "linear_in_distance",
        "twice as far costs twice as much",
        "the penalty does not grow in proportion to the distance",
        "equivariance",
        checks.linear_in_distance,
        claims=("alibi_bias.linear_in_distance",),
        rejects=("alibi_bias.squared_distance",),
        blind_to=("alibi_bias.bonus", "alibi_bias.heads_reversed"),
    ),
    _law(
        "mirrored",
        "a key ahead costs what the key as far back costs",
        "the absolute value of the distance is missing, or keys after the query are hidden by the "
        "bias",
        "equivariance",
        checks.mirrored,
        conventions={"alibi.future": "symmetric"},
        claims=("alibi_bias.definition",),
        rejects=("alibi_bias.future_bonus", "alibi_bias.future_hidden"),
        blind_to=("alibi_bias.bonus", "alibi_bias.squared_distance"),
    ),
    _law(
        "moved_together",
        "the bias stays when query and key move together",
        "rows of one call do not belong to one distance: positions are rounded, or axes exchanged",
        "equivariance",
        checks.moved_together,
        claims=("alibi_bias.translation",),
        rejects=("alibi_bias.positions_in_storage", "alibi_bias.read_as_keys_by_queries"),
        blind_to=("alibi_bias.bonus", "alibi_bias.from_query_index"),
    ),
    _law(
        "last_rows",
        "few queries have the last rows of as many queries as keys",
        "queries are counted from 0 in place of s - t, as in decoding with a cache",
        "reduced",
        checks.last_rows,
        inputs="alibi_bias_part",
        claims=("alibi_bias.translation",),
        rejects=("alibi_bias.from_query_index", "alibi_bias.over_queries_alone"),
        blind_to=("alibi_bias.bonus", "alibi_bias.future_bonus"),
    ),
    _law(
        "longer_text",
        "more keys in front leave the bias of the others as it is",
        "the bias is scaled or cut by the length of the text",
        "reduced",
        checks.longer_text,
        claims=("alibi_bias.defined_at_every_distance",),
        rejects=("alibi_bias.divided_by_length",),
        blind_to=("alibi_bias.bonus", "alibi_bias.squared_distance"),
    ),
    _law(
        "slope_a_step",
        "each step costs the slope that alibi_slopes gives the head",
        "heads have the slopes of other heads, or the bias another unit than the scores",
        "equivariance",
        checks.slope_a_step,
        claims=("alibi_bias.step_costs_slope",),
        rejects=("alibi_bias.heads_reversed", "alibi_bias.one_slope_for_all"),
    ),
    _law(
        "attention_by_key",
        "causal attention with the bias is that with slope times key position in its place",
        "what is added to the scores weighs keys by something else than their distance",
        "equivariance",
        attention_by_key,
        inputs="alibi_bias_short",
        claims=("alibi_bias.favors_near_keys", "alibi_bias.linear_in_distance"),
        rejects=("alibi_bias.in_base_two",),
        blind_to=("alibi_bias.future_bonus", "alibi_bias.one_step_off"),
    ),
    *calls.call_laws(
        "alibi_bias",
        bias,
        others,
        {
            "repeatable": ("alibi_bias.changed_in_place",),
            "no_memory": (
                "alibi_bias.first_length_kept",
                "alibi_bias.dtype_of_first_call",
                "alibi_bias.buffer_handed_out",
            ),
            "output_form": ("alibi_bias.result_in_float32",),
        },
    ),
)
