"""The laws of the gradients of rms_norm.

Sources: the adjoint of `spec/rms_norm_definition.py`: dx = r (g - x_hat mean(g x_hat)) with
g the upstream times the gain, and the gradient of the weight is a sum over all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.calls import agree, alike, close
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.gradient_laws import gradient_laws, match_oracle, same_with_gradients
from attnspec.oracle.inner_products import paired
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.layer_norm_jacobians import row
from attnspec.oracle.layer_norm_values import one_row
from attnspec.oracle.norm_rows import as_rows
from attnspec.oracle.precision import FORMATS
from attnspec.oracle.rms_norm import others
from attnspec.oracle.rms_norm_jacobians import JACOBIANS
from attnspec.oracle.rms_norm_values import gain, gradients, rms_norm
from attnspec.oracle.rounding import formed
from attnspec.oracle.upstream import upstream_of

Array = np.ndarray[Any, Any]

WIDE = FORMATS["float32"].width
"""Bits of a format in which no sum of so many ones stops."""


def orthogonal_to_x(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Along x nothing but eps changes: the positive part of sum x dx of a row against the
    negative part and what eps leaves of the sum."""
    upstream = upstream_of(inputs)
    actual = implementation.gradients(inputs, upstream)["x"]
    right = gradients(implementation, inputs, upstream)["x"]
    x, m = inputs.arrays["x"], inputs.arrays["x"].shape[-1]
    terms, wanted = x * actual, x * right.value
    positive = np.maximum(terms, 0.0).sum(axis=-1)
    negative = np.maximum(-terms, 0.0).sum(axis=-1)
    left = wanted.sum(axis=-1)
    sizes = positive + negative + np.abs(wanted).sum(axis=-1)
    room = (np.abs(x) * right.allowance).sum(axis=-1) + formed(sizes, m + 2)
    what = "sum of x dx of a row: its positive part against its negative part and eps's"
    return [alike(what, positive, negative + left, room, "float64")]


def weight_adjoint(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The output is linear in the gain: in each channel, the sum of G y over the rows is dw times
    the gain."""
    upstream, weight = upstream_of(inputs), inputs.arrays["weight"]
    output, right = implementation(inputs), rms_norm(implementation, inputs)
    dw = implementation.gradients(inputs, upstream)["weight"]
    room = gradients(implementation, inputs, upstream)["weight"].allowance
    by_channel = [as_rows(values).T for values in (upstream, output, right.allowance)]
    known = gain(implementation, weight)
    parts = (by_channel[0], by_channel[1], by_channel[2])
    whole = (known[:, None], dw[:, None], room[:, None])
    return [paired("<G, y> = dw gain of a channel", parts, whole, 1)]


def weight_counts_rows(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Rows of 1 and -1, and upstreams of the same: every row adds 1 to the gradient of every
    weight, but for eps, and one of them a number so large that the dtype holds no 1 beside it."""
    x = inputs.arrays["x"]
    upstream = x.copy()
    rows = upstream.reshape(-1, x.shape[-1])
    width = FORMATS[inputs.dtype].width
    large = 2.0**width if width < WIDE else 1.0
    rows[int(generator(inputs, "large").choice([0, len(rows) // 2]))] *= large
    actual = implementation.gradients(inputs, upstream)["weight"]
    right = gradients(implementation, inputs, upstream)["weight"]
    return [close("gradient of the weight", actual, right, implementation.dtype)]


def row_alone(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The gradient of a row alone is what it is among others."""
    part, index = one_row(inputs)
    if not implementation.legal(part):
        return []
    upstream = upstream_of(inputs)
    whole = implementation.gradients(inputs, upstream)["x"][index]
    single = implementation.gradients(part, upstream[index])["x"].reshape(whole.shape)
    room = 2.0 * gradients(implementation, inputs, upstream)["x"].allowance[index]
    return [agree("gradient of a row alone", single, whole, room, implementation.dtype)]


def _law(name: str, says: str, means: str, kind: Kind, check: Any, **more: Any) -> Law:
    family = f"rms_norm{more.pop('inputs', '_gradients')}"
    return Law(
        f"rms_norm.{name}", "rms_norm", says, means, kind, check, inputs=family,
        gradients=True, **more,
    )  # fmt: skip


LAWS: tuple[Law, ...] = (
    *gradient_laws(
        "rms_norm",
        gradients,
        {
            "gradients_match_oracle": (
                "rms_norm.gradient_without_gain",
                "rms_norm.gradient_of_weight_not_one_plus",
                "rms_norm.gradient_centred",
                "rms_norm.gradient_factor_missing",
                "rms_norm.gradient_row_term_in_bfloat16",
                "rms_norm.gradient_missing",
                "rms_norm.gradient_of_weight_missing",
            ),
            "zero_upstream": (
                "rms_norm.gradient_upstream_ignored",
                "rms_norm.gradient_of_weight_without_upstream",
            ),
            "gradients_of_views": (
                "rms_norm.gradient_of_views_zero",
                "rms_norm.gradient_upstream_as_contiguous",
                "rms_norm.gradient_upstream_row_stride",
            ),
            "gradients_of_some": ("rms_norm.gradient_of_weight_only_with_x",),
            "gradients_between_calls": ("rms_norm.gradient_factor_of_latest_call",),
            "gradient_leaves_output": ("rms_norm.gradient_overwrites_upstream",),
            "gradients_accumulate": ("rms_norm.gradient_added_to_grad",),
            "gradients_along": (
                "rms_norm.gradient_without_gain",
                "rms_norm.gradient_without_row_term",
            ),
            "gradients_of_gradients": ("rms_norm.gradient_of_gradient_without_gain",),
            "gradients_stay_apart": ("rms_norm.gradient_carried_over",),
        },
        inputs="rms_norm_gradients",
        others=others,
        of_mean=lambda inputs: True,
        jacobians=JACOBIANS,
        parts=row,
        claims=("rms_norm.gradient", "rms_norm.gradient_of_weight"),
    ),
    _law(
        "gradients_at_eps",
        "where the mean square of a row is about eps, gradients are those of the result with eps",
        "the backward pass has another eps than the forward pass, or none",
        "gradient",
        match_oracle(gradients),
        inputs="_at_eps",
        claims=("rms_norm.definition",),
        rejects=("rms_norm.gradient_without_eps",),
    ),
    _law(
        "gradient_orthogonal_to_x",
        "the gradient of a row has no part along the row, but for what eps leaves",
        "the term x_hat mean(g x_hat) is missing, or has another factor or another row's mean",
        "gradient",
        orthogonal_to_x,
        claims=("rms_norm.gradient_orthogonal_to_x",),
        rejects=(
            "rms_norm.gradient_without_row_term",
            "rms_norm.gradient_sum_for_mean",
            "rms_norm.gradient_row_term_without_gain",
            "rms_norm.gradient_row_term_of_x",
            "rms_norm.gradient_row_term_of_first_block",
        ),
    ),
    _law(
        "gradient_row_alone",
        "the gradient of a row alone is what it is among others",
        "the backward pass mixes rows that have nothing to do with each other",
        "gradient",
        row_alone,
        inputs="_gradient_rows",
        claims=("rms_norm.definition",),
        rejects=("rms_norm.gradient_row_term_of_next_row",),
    ),
    _law(
        "weight_adjoint",
        "linear in the gain: in each channel the sum of upstream times output is dw times the gain",
        "the gradient of the weight is formed from other numbers than the normalised ones",
        "gradient",
        weight_adjoint,
        inputs="_weighted",
        claims=("rms_norm.gradient_of_weight",),
        rejects=("rms_norm.gradient_of_weight_from_x", "rms_norm.gradient_of_weight_from_result"),
    ),
    _law(
        "weight_gradient_counts_rows",
        "in rows of 1 and -1 with such upstreams the gradient of each weight is the number of rows",
        "a sum over many rows is kept in half precision, or some of the rows are left out",
        "gradient",
        weight_counts_rows,
        inputs="_many",
        claims=("rms_norm.gradient_of_weight",),
        rejects=(
            "rms_norm.gradient_of_weight_mean",
            "rms_norm.gradient_of_weight_in_storage",
            "rms_norm.gradient_of_weight_partial_block",
            "rms_norm.gradient_of_weight_last_block",
        ),
    ),
    _law(
        "same_with_gradients",
        "the output is the same whether or not gradients will be asked for",
        "training takes another path, with another eps, gain or precision",
        "reduced",
        same_with_gradients(rms_norm),
        inputs="",
        claims=("rms_norm.definition",),
        rejects=("rms_norm.outside_in_training",),
    ),
)
