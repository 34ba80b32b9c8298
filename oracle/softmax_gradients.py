"""The laws of softmax's gradient.

Sources: the claims of `spec/closed_gradients.py` on softmax: dx = P (G - sum P G), along the axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.calls import close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.expected import Expected, expected_gradients
from attnspec.oracle.gradient_laws import gradient_laws
from attnspec.oracle.gradient_passes import Part, along_axis, index_of, one_of_axis
from attnspec.oracle.inner_products import vanishing
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs, Law
from attnspec.oracle.precision import FORMATS
from attnspec.oracle.softmax import axis, others
from attnspec.oracle.upstream import upstream_of
from attnspec.spec.softmax_definition import DEFINITION

Array = np.ndarray[Any, Any]


def gradients(
    implementation: Implementation, inputs: Inputs, upstream: Array
) -> dict[str, Expected]:
    """The gradient of x, of its shape."""
    x, dim = inputs.arrays["x"], axis(inputs)
    moved, last = np.moveaxis(x, dim, -1), np.moveaxis(upstream, dim, -1)
    rows, n = int(np.prod(moved.shape[:-1], dtype=np.int64)), moved.shape[-1]
    (right,) = expected_gradients(
        DEFINITION,
        ("x",),
        {"rows": rows, "n": n},
        {"x": moved.reshape(rows, n), "upstream": last.reshape(rows, n)},
        implementation.contract,
    )
    return {"x": right.reshaped(moved.shape).moved(-1, dim % x.ndim)}


def along(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
    """The derivative of the weights along a direction: the Jacobian is its own adjoint."""
    return gradients(implementation, inputs, direction)["x"]


def row(implementation: Implementation, inputs: Inputs) -> Part:
    """One place of an axis other than that of the sum, and what it does not depend on."""
    shape, dim = inputs.arrays["x"].shape, axis(inputs) % inputs.arrays["x"].ndim
    axes = tuple(at for at in range(len(shape)) if at != dim)
    if not axes:
        return (), {}
    at, rest = one_of_axis(inputs, shape, axes)
    return index_of(rest, at), {"x": along_axis(rest, at, shape)}


def long_rows(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Equal logits, more of them than half precision can add up one by one, and an upstream of ones
    and threes: the row's sum is their mean, whatever their order."""
    n = 4 * 2 ** min(FORMATS[inputs.dtype].width, FORMATS["float16"].width)
    call = Inputs("softmax", inputs.dtype, {"x": np.zeros((2, n))}, seed=inputs.seed)
    rng = generator(inputs, "order")
    upstream = rng.permuted(np.tile([1.0, 3.0], (2, n // 2)), axis=1)
    actual = implementation.gradients(call, upstream)["x"]
    right = gradients(implementation, call, upstream)["x"]
    return [close("gradient of a long row of equal logits", actual, right, inputs.dtype)]


def rows_vanish(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A constant added to a row changes nothing, so the gradient of a row adds up to 0."""
    upstream = upstream_of(inputs)
    actual = implementation.gradients(inputs, upstream)["x"]
    allowance = gradients(implementation, inputs, upstream)["x"].allowance
    what = "sum of a row's gradient: its positive part against its negative part"
    return [vanishing(what, actual, allowance, axis(inputs), implementation.dtype)]


def minus_infinity_has_none(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A logit of minus infinity has weight 0, so its gradient is 0, and no NaN reaches others."""
    upstream = upstream_of(inputs)
    actual = implementation.gradients(inputs, upstream)["x"]
    right = gradients(implementation, inputs, upstream)["x"]
    hidden = np.isneginf(inputs.arrays["x"])
    dtype = implementation.dtype
    return [
        same("gradient of minus infinity", actual[hidden], np.zeros(int(hidden.sum())), dtype),
        close("gradient of x", actual, right, dtype),
    ]


LAWS: tuple[Law, ...] = (
    *gradient_laws(
        "softmax",
        gradients,
        {
            "gradients_match_oracle": (
                "softmax.gradient_doubled",
                "softmax.gradient_as_two_axes",
                "softmax.gradient_of_numerators",
                "softmax.gradient_partial_block_zero",
                "softmax.gradient_missing",
                "softmax.gradient_row_term_in_bfloat16",
                "softmax.gradient_accumulates",
            ),
            "zero_upstream": ("softmax.gradient_upstream_ignored",),
            "gradients_between_calls": ("softmax.gradient_of_latest_call",),
            "gradients_accumulate": ("softmax.gradient_added_to_grad",),
            "gradients_along": ("softmax.gradient_doubled", "softmax.gradient_of_numerators"),
            "gradients_of_gradients": ("softmax.gradient_of_gradient_without_row_term",),
            "gradients_stay_apart": ("softmax.gradient_carried_over",),
            "gradient_leaves_output": ("softmax.gradient_overwrites_upstream",),
            "gradients_of_views": (
                "softmax.gradient_upstream_as_contiguous",
                "softmax.gradient_of_sum_assumed",
            ),
        },
        inputs="softmax_gradients",
        claims=("softmax.gradient", "softmax.derivative_is_its_own_adjoint"),
        expands=lambda inputs: axis(inputs) % inputs.arrays["x"].ndim != 0,
        others=others,
        jacobians={"x": along},
        parts=row,
    ),
    Law(
        "softmax.gradient_at_minus_infinity",
        "softmax",
        "a logit of minus infinity has no gradient, and changes nobody else's",
        "minus infinity times zero is NaN somewhere in the backward pass",
        "exact",
        minus_infinity_has_none,
        inputs="softmax_some_minus_infinity",
        claims=("softmax.gradient",),
        rejects=("softmax.gradient_nan_at_minus_infinity",),
        gradients=True,
    ),
    Law(
        "softmax.gradient_rows_vanish",
        "softmax",
        "the gradient of a row of logits adds up to 0",
        "the row's own term sum P G is missing, or is that of another row or axis",
        "gradient",
        rows_vanish,
        inputs="softmax_gradients",
        claims=("softmax.gradient_rows_vanish",),
        rejects=(
            "softmax.gradient_without_row_term",
            "softmax.gradient_row_term_of_next_row",
            "softmax.gradient_row_term_over_columns",
            "softmax.gradient_last_block_only",
        ),
        gradients=True,
    ),
    Law(
        "softmax.gradients_long_sums",
        "softmax",
        "in a long row of equal logits each gradient is how far upstream exceeds its mean, over n",
        "the row's sum of P G is kept in half precision, where it stops growing",
        "gradient",
        long_rows,
        inputs="softmax_gradients",
        claims=("softmax.gradient",),
        rejects=("softmax.gradient_row_term_in_storage",),
        gradients=True,
    ),
)
