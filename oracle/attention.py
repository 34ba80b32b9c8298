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
            "attention.batch_taken_for_heads",
            "attention.bias_as_flag",
            "attention.bias_in_base_two",
            "attention.bias_lowest_hides",
            "attention.bias_scaled",
            "attention.bias_subtracted",
            "attention.causal_dropped_with_bias",
            "attention.causal_dropped_with_mask",
            "attention.first_score_for_maximum",
            "attention.mask_or_causal",
            "attention.no_maximum",
            "attention.scale_missing_in_last_head",
            "attention.scale_of_model_width",
            "attention.scale_of_value_width",
            "attention.scale_times_default",
            "attention.scores_clamped",
            "attention.small_steps_not_rescaled",
            "attention.softcap_before_scale",
            "attention.softcap_clamps",
            "attention.softcap_ignored_with_bias",
            "attention.softcap_in_base_two",
            "attention.tile_judged_by_first_key",
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
            "attention.lse_in_base_two",
            "attention.lse_is_maximum",
            "attention.lse_without_maximum",
            "attention.parts_lse_of_one_missing",
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
            "attention.empty_row_lse_finite",
            "attention.empty_row_lse_zero",
            "attention.empty_row_nan",
            "attention.empty_row_sees_first_key",
            "attention.empty_row_skips_tile",
            "attention.mask_is_ten_thousand",
            "attention.parts_empty_are_nan",
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
            "inputs_unchanged": (),
            "repeatable": (),
            "views_equal_copies": (),
            "no_memory": (),
            "output_form": (),
            "empty_batch": (),
        },
        two_runs="attention_two_runs",
    ),
)
