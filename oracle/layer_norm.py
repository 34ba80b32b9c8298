"""The laws of layer_norm.

Sources: the claims of `spec/layer_norm.py`, `spec/layer_norm_tokens.py` and
`spec/norm_invariances.py`. A variance formed in one pass, as the mean of the squares less the
square of the mean, is no form of the definition: it loses what is small beside a large mean, and
rows with one are drawn often.
"""

from __future__ import annotations

from typing import Any

from attnspec.oracle import calls
from attnspec.oracle.law import Kind, Law
from attnspec.oracle.layer_norm_checks import (
    affine_is_last,
    bounded,
    channels_permuted,
    constant_gives_bias,
    eps_read_off,
    moments,
    scale_invariance,
    shift_invariance,
)
from attnspec.oracle.layer_norm_values import layer_norm, one_row, others


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    family = more.pop("inputs", "layer_norm")
    return Law(f"layer_norm.{name}", "layer_norm", says, means, kind, check, inputs=family, **more)


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "each row less its mean, over the root of its variance and eps, times the weight, plus "
        "the bias, within the derived allowance",
        "the statistics, eps, weight or bias are others, the variance of a large mean is formed in "
        "one pass, or something is rounded where the contract forbids it",
        "oracle",
        calls.matches_oracle(layer_norm),
        claims=("layer_norm.definition",),
        rejects=(
            "layer_norm.partial_tile_of_rows",
            "layer_norm.mean_and_variance_in_bfloat16",
            "layer_norm.squares_in_storage",
            "layer_norm.normalised_in_bfloat16",
            "layer_norm.float32_inside",
        ),
    ),
    _law(
        "shift_invariance",
        "a number added to all channels of a row changes nothing",
        "the variance is formed from the squares of the entries, not of their differences to the "
        "mean, or the mean is not subtracted",
        "equivariance",
        shift_invariance,
        inputs="layer_norm_offset",
        claims=("layer_norm.invariances",),
        rejects=(
            "layer_norm.one_pass",
            "layer_norm.mean_not_subtracted",
            "layer_norm.padding_in_variance",
        ),
    ),
    _law(
        "scale_invariance",
        "rows times c, with eps times c^2 inside of the root, give the same; with c < 0 the sign "
        "changes",
        "eps is not the one given, or stands elsewhere; or a size is clamped or overflows",
        "equivariance",
        scale_invariance,
        options=("eps",),
        claims=("layer_norm.eps_only_guards",),
        rejects=(
            "layer_norm.no_root",
            "layer_norm.eps_ignored",
            "layer_norm.variance_in_float16",
        ),
    ),
    _law(
        "moments",
        "without weight and bias the mean of a row is 0, and its variance v / (v + eps)",
        "mean or variance are not those of the row over its d channels",
        "exact",
        moments,
        inputs="layer_norm_bare",
        claims=("layer_norm.mean_zero", "layer_norm.variance_below_one"),
        rejects=(
            "layer_norm.over_d_minus_one",
            "layer_norm.padding_counted",
        ),
    ),
    _law(
        "bounded",
        "without weight and bias no entry exceeds sqrt(d - 1)",
        "what a row is divided by is too small",
        "exact",
        bounded,
        inputs="layer_norm_bare",
        claims=("layer_norm.bounded",),
        rejects=(
            "layer_norm.mean_left_in",
            "layer_norm.absolute_deviation",
        ),
    ),
    _law(
        "constant_gives_bias",
        "a row of one number gives the bias",
        "a variance of 0 is divided by, or is not 0 where all entries are equal",
        "exact",
        constant_gives_bias,
        inputs="layer_norm_constant",
        options=("bias",),
        claims=("layer_norm.eps_only_guards",),
        rejects=(
            "layer_norm.eps_missing",
            "layer_norm.eps_in_storage",
        ),
    ),
    _law(
        "affine_is_last",
        "the result is that without weight and bias, times the weight, plus the bias",
        "weight and bias are applied in another order, in another place, or not at all",
        "reduced",
        affine_is_last,
        inputs="layer_norm_affine",
        options=("weight", "bias"),
        claims=("layer_norm.definition", "layer_norm.affine_restores"),
        rejects=(
            "layer_norm.bias_before_weight",
            "layer_norm.bias_forgotten",
            "layer_norm.weight_ignored",
            "layer_norm.one_plus_weight",
            "layer_norm.weight_before_statistics",
        ),
    ),
    _law(
        "eps_read_off",
        "eps is what is added to the variance, as the output of a row of s and -s shows",
        "eps is another number, or stands outside of the root",
        "probe",
        eps_read_off,
        inputs="layer_norm_eps",
        claims=("layer_norm.definition", "layer_norm.variance_below_one"),
        rejects=(
            "layer_norm.eps_outside",
            "layer_norm.eps_clamps",
            "layer_norm.eps_squared",
        ),
    ),
    _law(
        "channels_permuted",
        "channels in another order, weight and bias with them, give the result in that order",
        "places of a row are treated differently",
        "equivariance",
        channels_permuted,
        claims=("layer_norm.definition",),
        rejects=(
            "layer_norm.last_channel_left_out",
            "layer_norm.full_tiles_only",
            "layer_norm.weight_of_first_channel",
        ),
    ),
    _law(
        "row_alone",
        "a row alone gives what it gives among others",
        "rows share something that each should have of its own",
        "reduced",
        calls.row_alone(layer_norm, one_row),
        inputs="layer_norm_rows",
        guarantee="batch-invariant",
        claims=("layer_norm.token_local",),
        rejects=("layer_norm.over_tokens",),
    ),
    _law(
        "others_change_nothing",
        "other content of the other rows changes no bit of a row",
        "rows share something that each should have of its own",
        "exact",
        calls.others_change_nothing(one_row),
        inputs="layer_norm_rows",
        guarantee="mask-exact",
        claims=("layer_norm.token_local",),
        rejects=(
            "layer_norm.over_batch",
            "layer_norm.over_all_tokens",
        ),
    ),
    *calls.call_laws(
        "layer_norm",
        layer_norm,
        others,
        {
            "inputs_unchanged": ("layer_norm.writes_over_input",),
            "repeatable": ("layer_norm.running_variance",),
            "views_equal_copies": (
                "layer_norm.reads_as_contiguous",
                "layer_norm.weight_read_as_contiguous",
            ),
            "no_memory": ("layer_norm.first_weight_kept",),
            "output_form": ("layer_norm.result_in_float32",),
            "empty_batch": ("layer_norm.empty_batch_flattened",),
        },
        two_runs="layer_norm_rows",
    ),
)
