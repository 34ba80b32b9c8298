"""The laws of attention.

Sources: `spec/attention_definition.py` and the claims of `spec/attention*.py`; the kinds of
mistakes that each law rejects are in its row. Gradients have their own laws, in
`attention_gradients.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle import calls
from attnspec.oracle.attention_calls import changed, law, plain
from attnspec.oracle.attention_probe_laws import ORDER, READINGS
from attnspec.oracle.attention_values import attention, log_sum_exp
from attnspec.oracle.attention_visibility_laws import VISIBILITY
from attnspec.oracle.calls import close
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.law import Implementation, Inputs, Law

Array = np.ndarray[Any, Any]


def lse_matches_oracle(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The log-sum-exp beside the exact one. It is float32 or wider, whatever the inputs are."""
    lse = implementation.parts(inputs)[1]
    right = log_sum_exp(implementation, inputs)
    return [close("lse", lse, right, implementation.contract.accumulate)]


def empty_rows(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Output and log-sum-exp of a call in which some row sees no key."""
    wanted = {"return_lse": True} if implementation.accepts("return_lse") else {}
    call = replace(inputs, options={**inputs.options, **wanted}, drawn=b"")
    output, *logs = implementation.parts(call)
    result = [close("output", output, attention(implementation, call), implementation.dtype)]
    for lse in logs:
        right = log_sum_exp(implementation, call)
        result.append(close("lse", lse, right, implementation.contract.accumulate))
    return result


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: other values, another option, twice as many keys."""
    q, k, v = (inputs.arrays[name] for name in "qkv")
    options = dict(inputs.options)
    if implementation.accepts("causal"):
        options["causal"] = not options.get("causal")
    elif implementation.accepts("scale"):
        options["scale"] = 2.0 * float(options.get("scale") or 1.0)
    return [
        inputs.with_arrays(q=-q, v=-v),
        replace(inputs, options=options, drawn=b""),
        changed(plain(inputs), k=np.concatenate([-k, k], 2), v=np.concatenate([v, -v], 2)),
    ]


LAWS: tuple[Law, ...] = (
    law(
        "matches_oracle",
        "every element is the softmax average of the visible values, within its derived allowance",
        "the function is not attention with these options, or it rounds where its contract "
        "forbids it",
        "oracle",
        calls.matches_oracle(attention),
        claims=("attention.masked_formula", "attention.scores_are_dot_products"),
        rejects=(
            "attention.axes_guessed_by_size",
            "attention.bias_as_flag",
            "attention.bias_in_base_two",
            "attention.bias_scaled",
            "attention.bias_subtracted",
            "attention.causal_dropped_with_bias",
            "attention.causal_dropped_with_mask",
            "attention.channels_in_storage",
            "attention.first_score_for_maximum",
            "attention.float32_inside",
            "attention.mask_or_causal",
            "attention.no_maximum",
            "attention.odd_row_stale",
            "attention.products_in_tf32",
            "attention.scale_missing_in_last_head",
            "attention.scale_of_model_width",
            "attention.scale_of_value_width",
            "attention.scale_times_default",
            "attention.scores_clamped",
            "attention.scores_in_bfloat16",
            "attention.scores_in_storage",
            "attention.scores_overflow",
            "attention.small_steps_not_rescaled",
            "attention.softcap_before_scale",
            "attention.softcap_clamps",
            "attention.softcap_in_base_two",
            "attention.tile_judged_by_first_key",
            "attention.weights_in_eight_bits",
            "attention.weights_in_float16",
            "attention.wide_heads_cut",
            "attention.window_dropped_with_mask",
        ),
    ),
    law(
        "lse_matches_oracle",
        "the log-sum-exp is the natural logarithm of the sum of the visible exponentials",
        "it has another base, or lacks the maximum, the scale or a key",
        "oracle",
        lse_matches_oracle,
        inputs="_lse",
        options=("return_lse",),
        claims=("attention.weights_of_log_sum_exp",),
        rejects=(
            "attention.lse_by_query_and_head",
            "attention.lse_in_base_two",
            "attention.lse_is_maximum",
            "attention.lse_left_out",
            "attention.lse_of_storage_dtype",
            "attention.lse_rounded",
            "attention.lse_with_axis",
            "attention.lse_without_maximum",
            "attention.parts_lse_of_one_missing",
            "attention.bias_of_rows_dropped",
        ),
    ),
    law(
        "empty_rows",
        "a row that sees no key is what the target declares, its log-sum-exp -inf, and the other "
        "rows are as ever",
        "such a row averages hidden values, is 0 / 0, or spoils others of its tile",
        "oracle",
        empty_rows,
        inputs="_empty_rows",
        rejects=(
            "attention.causal_offset_not_negative",
            "attention.empty_row_lse_finite",
            "attention.empty_row_lse_zero",
            "attention.empty_row_nan",
            "attention.empty_row_sees_first_key",
            "attention.empty_row_skips_tile",
            "attention.mask_is_ten_thousand",
            "attention.parts_empty_are_nan",
            "attention.bias_infinity_made_finite",
        ),
    ),
    *VISIBILITY,
    *ORDER,
    *READINGS,
    *calls.call_laws(
        "attention",
        attention,
        others,
        {
            "inputs_unchanged": (
                "attention.adds_into_bias",
                "attention.fills_bias_in_place",
                "attention.scales_queries_in_place",
            ),
            "repeatable": ("attention.normaliser_not_cleared", "attention.order_alternates"),
            "views_equal_copies": (
                "attention.batch_stride_of_fresh",
                "attention.expanded_tail",
                "attention.keys_read_as_contiguous",
                "attention.larger_stride_for_heads",
                "attention.mask_read_as_contiguous",
                "attention.queries_read_as_contiguous",
                "attention.values_read_as_contiguous",
            ),
            "no_memory": (
                "attention.buffer_handed_out",
                "attention.first_positions_kept",
                "attention.first_scale_kept",
                "attention.first_softcap_kept",
                "attention.longest_keys_kept",
                "attention.mask_of_earlier_call",
            ),
            "output_form": ("attention.result_in_float32",),
            "empty_batch": ("attention.empty_gives_queries",),
        },
        two_runs="attention_two_runs",
    ),
)
