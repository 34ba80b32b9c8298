"""The laws of softmax.

Sources: `spec/softmax.py`; the kinds of mistakes that each law rejects are in its row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle import calls
from attnspec.oracle.calls import agree, alike, close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.expected import Expected, expected
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs, Kind, Law
from attnspec.oracle.precision import FORMATS, snapped
from attnspec.oracle.rounding import formed
from attnspec.spec.softmax_definition import DEFINITION

Array = np.ndarray[Any, Any]


def softmax(implementation: Implementation, inputs: Inputs) -> Expected:
    """The weights of a call, of the shape of `x`, under the implementation's contract."""
    x = inputs.arrays["x"]
    dim = axis(inputs)
    moved = x if dim in (-1, x.ndim - 1) else np.moveaxis(x, dim, -1)
    rows, n = int(np.prod(moved.shape[:-1], dtype=np.int64)), moved.shape[-1]
    right = expected(
        DEFINITION,
        {"rows": rows, "n": n},
        {"x": moved.reshape(rows, n)},
        implementation.contract,
    )
    return right.reshaped(moved.shape).moved(-1, dim % x.ndim)


def axis(inputs: Inputs) -> int:
    """The axis along which a call normalises."""
    return int(inputs.options.get("dim", -1))


def shift_invariance(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Two sets of logits that differ by one number a row, exactly."""
    x, dim, dtype = inputs.arrays["x"], axis(inputs), implementation.dtype
    rng = generator(inputs, "shift")
    shape = list(x.shape)
    shape[dim] = 1
    size = 2.0 ** rng.integers(-2, 14, size=shape) * rng.choice([-1.0, 1.0], size=shape)
    limit = FORMATS[dtype].overflow / 4
    shift = np.where(np.abs(x).max(axis=dim, keepdims=True) + np.abs(size) < limit, size, 0.0)
    high = snapped(x + shift, dtype)
    low = high - shift
    # the difference is exact; where the dtype cannot hold it the row stays as it is
    exact = (snapped(low, dtype) == low).all(axis=dim, keepdims=True)
    high, low = np.where(exact, high, x), np.where(exact, low, x)
    one, other = inputs.with_arrays(x=high), inputs.with_arrays(x=low)
    allowance = softmax(implementation, one).allowance + softmax(implementation, other).allowance
    layout = "contiguous"
    first, second = implementation(one, layout=layout), implementation(other, layout=layout)
    return [agree("weights after a shift", first, second, allowance, dtype)]


def rows_sum_to_one(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The weights along the axis, added in double precision."""
    dim = axis(inputs)
    total = implementation(inputs).sum(axis=dim)
    allowance = softmax(implementation, inputs).allowance.sum(axis=dim)
    allowance += formed(np.ones_like(total), inputs.arrays["x"].shape[dim])
    return [alike("sum of a row", total, np.ones_like(total), allowance, implementation.dtype)]


def not_negative(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """No weight has the wrong sign, exactly; none exceeds one by more than its allowance."""
    actual = implementation(inputs)
    allowance = softmax(implementation, inputs).allowance
    negative = np.minimum(actual, 0.0)
    return [
        same("negative part", negative, np.zeros_like(actual), implementation.dtype),
        alike("weight", actual, np.minimum(actual, 1.0), allowance, implementation.dtype),
    ]


def order_kept(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A larger logit gets no smaller weight, and an equal one the same."""
    x, dim = inputs.arrays["x"], axis(inputs)
    order = np.argsort(x, axis=dim, kind="stable")
    actual = np.take_along_axis(implementation(inputs), order, dim)
    allowance = np.take_along_axis(softmax(implementation, inputs).allowance, order, dim)
    logits = np.take_along_axis(x, order, dim)
    lower, upper = _pairs(actual, dim)
    small, large = _pairs(logits, dim)
    first, second = _pairs(allowance, dim)
    right = np.where(small == large, upper, np.minimum(lower, upper))
    return [
        alike("weight of the smaller logit", lower, right, first + second, implementation.dtype)
    ]


def _pairs(values: Array, dim: int) -> tuple[Array, Array]:
    """Neighbours along an axis."""
    n = values.shape[dim]
    return values.take(range(n - 1), dim), values.take(range(1, n), dim)


def minus_infinity_gets_zero(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A logit of minus infinity gets weight 0 exactly; the others are what they are without it."""
    actual = implementation(inputs)
    right = softmax(implementation, inputs)
    masked = np.isneginf(inputs.arrays["x"])
    dtype = implementation.dtype
    return [
        same("weight of minus infinity", actual[masked], np.zeros(int(masked.sum())), dtype),
        close("output", actual, right, dtype),
    ]


def any_axis(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Along any axis it is softmax along the last one of the moved tensor."""
    x, dim = inputs.arrays["x"], axis(inputs)
    options = {**inputs.options, "dim": -1}
    moved = replace(inputs, options=options).with_arrays(
        x=np.ascontiguousarray(np.moveaxis(x, dim, -1))
    )
    actual = implementation(inputs, layout="contiguous")
    other = np.moveaxis(implementation(moved, layout="contiguous"), -1, dim)
    allowance = 2.0 * softmax(implementation, inputs).allowance
    return [
        agree(f"dim={dim} against the last axis", actual, other, allowance, implementation.dtype)
    ]


def row_alone(inputs: Inputs) -> calls.Alone:
    """One entry of an axis that is not normalised over, alone; the whole where there is none."""
    x, dim = inputs.arrays["x"], axis(inputs) % inputs.arrays["x"].ndim
    rng = generator(inputs, "row")
    axes = [a for a in range(x.ndim) if a != dim and x.shape[a] > 1]
    index: list[Any] = [slice(None)] * x.ndim
    if axes:
        chosen = axes[rng.integers(len(axes))]
        at = int(rng.integers(x.shape[chosen]))
        index[chosen] = slice(at, at + 1)
    return inputs.with_arrays(x=x[tuple(index)]), tuple(index)


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: other values, and a larger tensor."""
    x = inputs.arrays["x"]
    return [inputs.with_arrays(x=-x), inputs.with_arrays(x=np.concatenate([x[::-1], x], axis=0))]


def _law(name: str, says: str, means: str, kind: Kind, check: calls.Check, **more: Any) -> Law:
    family = more.pop("inputs", "softmax")
    return Law(f"softmax.{name}", "softmax", says, means, kind, check, inputs=family, **more)


LAWS: tuple[Law, ...] = (
    _law(
        "matches_oracle",
        "every weight is exp(x_j) / sum exp(x_k), within its derived allowance",
        "the function is not softmax along this axis, or it rounds where its contract forbids it",
        "oracle",
        calls.matches_oracle(softmax),
        claims=("softmax.definition", "softmax.eq_exp_of_log_softmax"),
        rejects=(
            "softmax.exp_interpolated",
            "softmax.float32_inside",
            "softmax.small_weights_dropped",
            "softmax.base_two",
            "softmax.last_entry_dropped",
            "softmax.long_rows_cut",
            "softmax.small_steps_not_rescaled",
            "softmax.odd_row_stale",
        ),
    ),
    _law(
        "shift_invariance",
        "softmax(x + c) = softmax(x) for every constant c of a row",
        "the largest logit of the row is not subtracted first, or not the same one everywhere",
        "equivariance",
        shift_invariance,
        claims=("softmax.shift_invariance",),
        rejects=("softmax.no_maximum", "softmax.logits_clamped"),
    ),
    _law(
        "rows_sum_to_one",
        "the weights along the axis add up to 1",
        "the normaliser is not the sum of the numerators",
        "exact",
        rows_sum_to_one,
        claims=("softmax.row_sums_one",),
        rejects=(
            "softmax.sum_in_storage",
            "softmax.extra_one",
            "softmax.small_number_added",
            "softmax.query_axis",
            "softmax.padding_counted",
            "softmax.partial_tile_of_rows",
            "softmax.not_rescaled",
            "softmax.partial_block_skipped",
        ),
        blind_to=("softmax.order_reversed",),
    ),
    _law(
        "positive_and_at_most_one",
        "no weight is negative, and none exceeds 1",
        "a weight is no probability",
        "exact",
        not_negative,
        claims=("softmax.weights_in_unit_interval",),
        rejects=("softmax.last_block_only",),
        blind_to=("softmax.base_two", "softmax.extra_one", "softmax.order_reversed"),
    ),
    _law(
        "order_kept",
        "a larger logit gets no smaller weight, an equal one the same",
        "places of the row are treated differently, or logits are altered before the exponential",
        "exact",
        order_kept,
        claims=("softmax.definition",),
        rejects=("softmax.order_reversed",),
        blind_to=("softmax.base_two", "softmax.extra_one"),
    ),
    _law(
        "minus_infinity_gets_zero",
        "a logit of minus infinity gets weight 0 exactly and changes nothing else",
        "masked places receive weight, or turn others into NaN",
        "exact",
        minus_infinity_gets_zero,
        inputs="softmax_some_minus_infinity",
        claims=("softmax.definition",),
        rejects=(
            "softmax.minus_infinity_is_ten_thousand",
            "softmax.exponent_clamped",
            "softmax.empty_block",
        ),
    ),
    _law(
        "any_axis",
        "softmax along any axis is softmax along the last axis of the moved tensor",
        "the axis is ignored, or its strides are wrong",
        "reduced",
        any_axis,
        options=("dim",),
        claims=("softmax.definition",),
        rejects=("softmax.negative_axis_from_front", "softmax.dim_ignored"),
    ),
    _law(
        "row_alone",
        "a row alone gives what it gives among others",
        "rows share something that each should have of its own",
        "reduced",
        calls.row_alone(softmax, row_alone),
        inputs="softmax_rows",
        guarantee="batch-invariant",
        rejects=("softmax.maximum_of_all_rows", "softmax.first_row_of_tile"),
    ),
    _law(
        "others_change_nothing",
        "other content of the other rows changes no bit of a row",
        "rows share something that each should have of its own",
        "exact",
        calls.others_change_nothing(row_alone),
        inputs="softmax_rows",
        guarantee="mask-exact",
        rejects=("softmax.maximum_of_all_rows",),
    ),
    *calls.call_laws(
        "softmax",
        softmax,
        others,
        {
            "inputs_unchanged": ("softmax.writes_over_input",),
            "repeatable": ("softmax.normaliser_not_cleared",),
            "views_equal_copies": ("softmax.reads_as_contiguous",),
            "no_memory": ("softmax.buffer_handed_out", "softmax.padded_to_longest_call"),
            "output_form": ("softmax.result_in_float32",),
            "empty_batch": ("softmax.empty_batch_flattened",),
        },
    ),
)
