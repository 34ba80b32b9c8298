"""The laws of rms_norm.

Sources: the claims of `spec/rms_norm.py` and `spec/norm_invariances.py`. The documents write
RMSNorm without eps and with a gain; where eps stands, and whether the gain is beside one, are
conventions, and each law holds for all of them unless it says which.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle import calls
from attnspec.oracle import rms_norm_checks as checks
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.layer_norm_values import one_row
from attnspec.oracle.rms_norm_values import eps_of, rms_norm

Array = np.ndarray[Any, Any]


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: other rows, more of them, wider ones, another eps, another weight."""
    x, weight = inputs.arrays["x"], inputs.arrays.get("weight")
    wide = inputs.with_arrays(x=np.concatenate([-x, x[..., ::-1]], axis=-1))
    found = [
        inputs.with_arrays(x=np.array(-x[..., ::-1])),
        inputs.with_arrays(x=np.stack([x, -x])),
        wide,
    ]
    if weight is not None:
        found[2] = wide.with_arrays(weight=np.concatenate([weight, -weight]))
        found.append(inputs.with_arrays(weight=1.0 - np.round(weight)))
    if implementation.accepts("eps"):
        other = {**inputs.options, "eps": 64.0 * eps_of(inputs)}
        found.append(replace(inputs, options=other, drawn=b""))
    return found


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    family = f"rms_norm{more.pop('inputs', '')}"
    return Law(f"rms_norm.{name}", "rms_norm", says, means, kind, check, inputs=family, **more)


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "every entry is x over the root of its row's mean square and eps, times the gain, within "
        "the derived allowance",
        "the function is not RMSNorm with this eps and gain, or it rounds where its contract "
        "forbids it",
        "oracle",
        calls.matches_oracle(rms_norm),
        claims=("rms_norm.definition", "rms_norm.formula"),
        rejects=(
            "rms_norm.one_added_in_storage",
            "rms_norm.cast_before_gain",
            "rms_norm.float32_inside",
            "rms_norm.one_newton_step",
            "rms_norm.clipped",
        ),
    ),
    _law(
        "mean_square",
        "without a gain the mean square of a row becomes 1, as far as eps allows: q / (q + eps)",
        "rows are divided by something else than their root mean square",
        "exact",
        checks.mean_square,
        claims=("rms_norm.formula",),
        rejects=(
            "rms_norm.sum_of_squares",
            "rms_norm.mean_of_sizes",
            "rms_norm.padding_counted",
            "rms_norm.sum_in_storage",
            "rms_norm.statistics_in_storage",
            "rms_norm.over_axis_before",
            "rms_norm.partial_tile_of_rows",
        ),
        blind_to=("rms_norm.one_added", "rms_norm.weight_ignored", "rms_norm.weight_squared"),
    ),
    _law(
        "equal_entries",
        "a row of one number comes back as that number's sign, as far as eps allows, not as 0",
        "a mean is subtracted, or the deviation takes the place of the root mean square",
        "probe",
        checks.equal_entries,
        inputs="_equal",
        claims=("rms_norm.takes_no_mean",),
        rejects=("rms_norm.mean_subtracted", "rms_norm.deviation"),
        blind_to=("rms_norm.one_added", "rms_norm.weight_ignored", "rms_norm.weight_squared"),
    ),
    _law(
        "scaled_alike",
        "rows times a number, with eps times its square, give the same rows, and their negatives "
        "for a negative number",
        "the result depends on the size of a row other than through eps",
        "equivariance",
        checks.scaled_alike,
        claims=("layer_norm.invariances",),
        rejects=("rms_norm.root_forgotten", "rms_norm.root_twice"),
    ),
    _law(
        "eps_read_off",
        "where the mean square of a row is about eps, the result tells how large eps is and where "
        "it stands",
        "eps is another number than the one given, or stands elsewhere",
        "probe",
        calls.matches_oracle(rms_norm),
        inputs="_at_eps",
        claims=("rms_norm.definition",),
        rejects=(
            "rms_norm.eps_outside",
            "rms_norm.eps_clamped",
            "rms_norm.eps_ignored",
            "rms_norm.eps_of_layer_norm",
            "rms_norm.eps_on_sum",
            "rms_norm.eps_in_half",
        ),
    ),
    _law(
        "zeros_stay",
        "a row of zeros gives zeros exactly, and no NaN reaches other rows",
        "a row without length is divided by 0",
        "exact",
        checks.zeros_stay,
        inputs="_zeros",
        claims=("rms_norm.formula",),
        rejects=("rms_norm.eps_missing",),
    ),
    _law(
        "gain_read_off",
        "a channel's gain can be read off: over a gain of plus or minus a power of two stands "
        "what comes back without a weight, and at a gain of 0 exactly 0",
        "the gain is not the weight (or 1 + weight), or that of another channel",
        "probe",
        checks.gain_read_off,
        inputs="_weighted",
        claims=("rms_norm.definition",),
        rejects=(
            "rms_norm.one_added",
            "rms_norm.one_added_twice",
            "rms_norm.weight_ignored",
            "rms_norm.weight_of_next_channel",
        ),
    ),
    _law(
        "linear_in_weight",
        "results at the weights a and b add up to those at a + b and 0",
        "the weight is used twice, or through a function",
        "equivariance",
        checks.linear_in_weight,
        inputs="_weighted",
        claims=("rms_norm.definition",),
        rejects=(
            "rms_norm.weight_squared",
            "rms_norm.weight_without_sign",
            "rms_norm.weight_before_statistics",
        ),
    ),
    _law(
        "huge_numbers",
        "numbers whose squares overflow half precision are normalised as others are",
        "squares, or their sum, are formed in half precision",
        "oracle",
        calls.matches_oracle(rms_norm),
        inputs="_huge",
        claims=("rms_norm.formula",),
        rejects=("rms_norm.squares_in_half",),
    ),
    _law(
        "small_numbers",
        "numbers whose squares underflow are divided by what eps leaves",
        "eps is lost beside squares of 0, or small rows are taken for rows of zeros",
        "oracle",
        calls.matches_oracle(rms_norm),
        inputs="_small",
        claims=("rms_norm.definition",),
        rejects=("rms_norm.eps_of_length", "rms_norm.small_rows_dropped"),
    ),
    _law(
        "permuted_channels",
        "channels in another order, with their weights, come back in that order",
        "the result of a channel depends on its place: a tile, or another channel's weight",
        "equivariance",
        checks.permuted_channels,
        claims=("rms_norm.definition",),
        rejects=(
            "rms_norm.weight_of_first_channel",
            "rms_norm.weight_by_tile",
            "rms_norm.last_channels_not_counted",
            "rms_norm.wide_rows_cut",
        ),
    ),
    _law(
        "leading_axes",
        "rows with any axes before them are what they are with one",
        "other axes than the last are normalised over, or rows are counted wrongly",
        "reduced",
        checks.leading_axes,
        inputs="_axes",
        claims=("rms_norm.definition",),
        rejects=("rms_norm.over_two_axes", "rms_norm.over_first_axis_too"),
    ),
    _law(
        "eq_layer_norm_of_centred",
        "on rows of mean 0 it is the same target's LayerNorm, with the same eps and gain",
        "one of the two has another eps, or divides by another number than the row's size",
        "reduced",
        checks.eq_layer_norm,
        inputs="_centred",
        conventions={"rms_norm.eps": "inside", "layer_norm.eps": "inside"},
        claims=("rms_norm.of_centred_eq_layer_norm",),
        rejects=("rms_norm.one_less",),
    ),
    _law(
        "row_alone",
        "a row, or an entry of another axis, alone gives what it gives among others",
        "rows share something that each should have of its own",
        "reduced",
        calls.row_alone(rms_norm, one_row),
        inputs="_rows",
        guarantee="batch-invariant",
        rejects=("rms_norm.row_of_tile", "rms_norm.scale_of_all_rows"),
    ),
    _law(
        "others_change_nothing",
        "other content of the other rows changes no bit of a row",
        "rows share something that each should have of its own",
        "exact",
        calls.others_change_nothing(one_row),
        inputs="_beside",
        guarantee="mask-exact",
        rejects=("rms_norm.past_the_end",),
    ),
    *calls.call_laws(
        "rms_norm",
        rms_norm,
        others,
        {
            "inputs_unchanged": ("rms_norm.in_place",),
            "repeatable": ("rms_norm.sum_not_cleared",),
            "views_equal_copies": ("rms_norm.x_as_contiguous", "rms_norm.weight_as_contiguous"),
            "no_memory": (
                "rms_norm.eps_of_first_call",
                "rms_norm.weight_of_first_call",
                "rms_norm.buffer_handed_out",
                "rms_norm.width_of_widest_call",
            ),
            "output_form": ("rms_norm.result_in_float32",),
            "empty_batch": ("rms_norm.empty_flattened",),
        },
    ),
)
