"""The laws of layer_norm's gradients.

Sources: the adjoint of the definition. With c = x - mean, r the inverse root and g = upstream times
weight, dx = r (g - mean g) - c r^2 s mean(g c), where s is r for eps inside of the root and
1 / sqrt(variance) for eps outside; dw adds up upstream r c over all rows, and db adds up upstream.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.calls import Check, agree, close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.gradient_laws import gradient_laws
from attnspec.oracle.inner_products import paired, vanishing
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs, Law
from attnspec.oracle.layer_norm_jacobians import JACOBIANS, row
from attnspec.oracle.layer_norm_values import (
    centred,
    eps_of,
    factor,
    gradients,
    layer_norm,
    others,
    placement_of,
)
from attnspec.oracle.norm_rows import as_rows
from attnspec.oracle.precision import FORMATS
from attnspec.oracle.rounding import formed
from attnspec.oracle.upstream import upstream_of

Array = np.ndarray[Any, Any]

LARGE = 11
"""Exponent of a number to which ones can be added in float32, but not in half precision."""
ONES = 254
"""An even number of ones that every dtype can hold on top of it."""


def sums_vanish(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A number added to all channels of a row changes nothing, so the gradient of a row adds up to
    0, whatever the weight."""
    upstream = upstream_of(inputs)
    actual = implementation.gradients(inputs, upstream)["x"]
    allowance = gradients(implementation, inputs, upstream)["x"].allowance
    what = "sum of a row's gradient: its positive part against its negative part"
    return [vanishing(what, actual, allowance, -1, implementation.dtype)]


def scaling_is_left_by_eps(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Stretching a row about its mean changes nothing but by eps: the sum of dx (x - mean) is
    r sum(g c), g being upstream times weight, times the share of eps in what is divided by."""
    upstream, x = upstream_of(inputs), inputs.arrays["x"]
    actual = implementation.gradients(inputs, upstream)["x"]
    allowance = gradients(implementation, inputs, upstream)["x"].allowance
    c, eps, placement = centred(x), eps_of(inputs), placement_of(implementation)
    r = factor(x, eps, placement)
    share = eps * (r**2 if placement == "inside" else r)
    terms = upstream * inputs.arrays.get("weight", 1.0) * c * (r * share)
    left = np.concatenate([actual * c, -terms], axis=-1)
    positive = np.maximum(left, 0.0).sum(axis=-1)
    negative = np.maximum(-left, 0.0).sum(axis=-1)
    room = (np.abs(c) * allowance).sum(axis=-1)
    # c, the variance and all that comes of them are formed in float64 here
    room += formed(positive + negative, 4 * x.shape[-1] + 8)
    known = np.isfinite(room)
    what = "sum of dx (x - mean) less what eps leaves: its positive against its negative part"
    return [agree(what, positive[known], negative[known], room[known], "float64")]


def affine_adjoint(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Linear in weight and bias: <G, y> = <dw, w> + <db, b>. Upstream has the signs of the output,
    so that nothing cancels in the sum."""
    output, right = implementation(inputs), layer_norm(implementation, inputs)
    upstream = np.abs(upstream_of(inputs)) * np.where(right.value < 0.0, -1.0, 1.0)
    actual = implementation.gradients(inputs, upstream)
    wanted = gradients(implementation, inputs, upstream)
    rooms = {name: wanted[name].allowance for name in wanted}
    both = [np.concatenate([a["weight"], a["bias"]]) for a in (inputs.arrays, actual, rooms)]
    left = tuple(a.ravel() for a in (upstream, output, right.allowance))
    what = "<G, y> = <dw, w> + <db, b>"
    return [paired(what, (left[0], left[1], left[2]), (both[0], both[1], both[2]), 0)]


def sums_over_rows(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """From an upstream of one large number in the first row, or the last, and ones in the others
    the bias gets their number, and, where the ones have the signs of the normalised values, the
    weight gets their sizes. A sum that is rounded to half precision on the way loses the ones."""
    x = inputs.arrays["x"]
    rows = as_rows(x)
    first = generator(inputs, "end").random() < 0.5
    large = 2.0 ** min(LARGE, FORMATS[implementation.dtype].width)
    ones = np.zeros(rows.shape)
    ones[1 : min(len(rows) - 1, ONES) // 2 * 2 + 1] = 1.0
    ones[0] = large
    upstream = ones if first else ones[::-1]
    counted = implementation.gradients(inputs, upstream.reshape(x.shape))["bias"]
    wide = FORMATS["float32"].width
    places = (implementation.contract.format(place) for place in ("accumulate", "reductions"))
    what, dtype = "gradient of bias: rows counted", implementation.dtype
    if all(place.width >= wide for place in places):
        # whole numbers, whose sums are exact in any order
        total = same(what, counted, upstream.sum(axis=0), dtype)
    else:
        right = gradients(implementation, inputs, upstream.reshape(x.shape))["bias"]
        total = close(what, counted, right, dtype)
    signed = (upstream * np.where(centred(rows) < 0.0, -1.0, 1.0)).reshape(x.shape)
    actual = implementation.gradients(inputs, signed)["weight"]
    right = gradients(implementation, inputs, signed)["weight"]
    return [total, close("gradient of weight: sizes added up", actual, right, dtype)]


def _repeats(inputs: Inputs) -> bool:
    """Whether an upstream of one number has a gradient: without a weight a row's is 0."""
    return inputs.arrays["x"].ndim > 1 and "weight" in inputs.arrays


def _law(name: str, says: str, means: str, check: Check, **more: Any) -> Law:
    family = more.pop("inputs", "layer_norm_gradients")
    return Law(
        f"layer_norm.{name}", "layer_norm", says, means, "gradient", check,
        inputs=family, gradients=True, **more,
    )  # fmt: skip


LAWS: tuple[Law, ...] = (
    *gradient_laws(
        "layer_norm",
        gradients,
        {
            "gradients_match_oracle": (
                "layer_norm.gradient_unweighted",
                "layer_norm.gradient_without_eps",
                "layer_norm.gradient_missing",
                "layer_norm.gradient_statistics_in_bfloat16",
                "layer_norm.gradient_cube_overflows",
            ),
            "zero_upstream": ("layer_norm.gradient_upstream_ignored",),
            "gradients_of_views": (
                "layer_norm.gradient_upstream_as_contiguous",
                "layer_norm.gradient_upstream_row_stride",
            ),
            "gradients_of_some": ("layer_norm.gradient_of_weight_only_with_x",),
            "gradients_between_calls": ("layer_norm.gradient_saved_in_one_buffer",),
            "gradient_leaves_output": ("layer_norm.gradient_overwrites_upstream",),
            "gradients_accumulate": ("layer_norm.gradient_added_to_grad",),
            "gradients_along": (
                "layer_norm.gradient_unweighted",
                "layer_norm.gradient_without_variance",
            ),
            "gradients_of_gradients": ("layer_norm.gradient_of_gradient_without_gain",),
            "gradients_stay_apart": ("layer_norm.gradient_carried_over",),
        },
        inputs="layer_norm_gradients",
        claims=("layer_norm.gradient", "layer_norm.gradient_of_affine"),
        expands=_repeats,
        others=others,
        of_mean=_repeats,
        jacobians=JACOBIANS,
        parts=row,
    ),
    _law(
        "gradient_rows_vanish",
        "the gradient of a row adds up to 0",
        "the mean of the row's gradient is not subtracted, or is that of another row",
        sums_vanish,
        claims=("layer_norm.gradient_rows_vanish",),
        rejects=(
            "layer_norm.gradient_without_mean",
            "layer_norm.gradient_mean_twice",
            "layer_norm.gradient_as_two_axes",
            "layer_norm.gradient_of_constant_statistics",
        ),
    ),
    _law(
        "gradient_along_row",
        "stretching a row about its mean changes nothing but by eps, and the gradient says so",
        "the term of the variance is missing, or has another factor",
        scaling_is_left_by_eps,
        claims=("layer_norm.eps_only_guards",),
        rejects=(
            "layer_norm.gradient_without_variance",
            "layer_norm.gradient_variance_halved",
            "layer_norm.gradient_variance_over_less_one",
            "layer_norm.gradient_last_block_only",
        ),
    ),
    _law(
        "gradients_adjoint",
        "linear in weight and bias: the inner product of upstream and output is that of each "
        "with its gradient",
        "the gradients of weight and bias are not what the forward pass multiplies and adds",
        affine_adjoint,
        inputs="layer_norm_many_rows",
        options=("weight", "bias"),
        claims=("layer_norm.gradient_of_affine",),
        rejects=(
            "layer_norm.gradient_of_weight_by_input",
            "layer_norm.gradient_of_weight_by_weight",
            "layer_norm.gradient_of_weight_unnormalised",
        ),
    ),
    _law(
        "gradient_sums_over_rows",
        "the gradients of weight and bias add up over all rows, however many there are",
        "rows are left out, averaged, or lost where a running sum is rounded",
        sums_over_rows,
        inputs="layer_norm_many_rows",
        options=("weight", "bias"),
        claims=("layer_norm.gradient_of_affine",),
        rejects=(
            "layer_norm.gradient_of_first_entry",
            "layer_norm.gradient_mean_over_rows",
            "layer_norm.gradient_partial_tile_of_rows",
            "layer_norm.gradient_summed_in_storage",
        ),
    ),
)
