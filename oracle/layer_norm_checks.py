"""The checks of layer_norm's own laws: from an implementation and inputs to two sides and an
allowance.

Sources: the claims of `spec/layer_norm.py`, `spec/layer_norm_tokens.py` and
`spec/norm_invariances.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.calls import agree, alike, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inner_products import vanishing
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.layer_norm_values import (
    AFFINE,
    eps_of,
    factor,
    layer_norm,
    placement_of,
    variance,
)
from attnspec.oracle.precision import FORMATS, snapped
from attnspec.oracle.rounding import formed

Array = np.ndarray[Any, Any]

FACTORS = tuple(sign * 2.0**k for k in (4, -4, 1, -1, 7, -7, 0) for sign in (1, -1))
"""By which rows are multiplied."""
LARGEST = 2.0**56
"""Whose square, a thousand times over, is a number of float32 still."""


def _together(
    what: str, implementation: Implementation, one: Inputs, other: Inputs, back: float = 1.0
) -> Comparison:
    """Two calls whose results must agree, the second times `back`, 1 or -1."""
    room = sum(layer_norm(implementation, call).allowance for call in (one, other))
    first = implementation(one, layout="contiguous")
    second = back * implementation(other, layout="contiguous")
    return agree(what, first, second, np.asarray(room), implementation.dtype)


def shift_invariance(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Rows as they are, and moved so that their first entry is 0, where the dtype holds that."""
    x, dtype = inputs.arrays["x"], implementation.dtype
    moved = x - x[..., :1]
    exact = (snapped(moved, dtype) == moved).all(axis=-1, keepdims=True)
    other = inputs.with_arrays(x=np.where(exact, moved, x))
    return [_together("rows after a shift", implementation, inputs, other)]


def scale_invariance(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Rows times a power of two, with eps times what that makes of it: nothing changes but the
    sign, if the factor is negative."""
    x, dtype = inputs.arrays["x"], implementation.dtype
    factors = generator(inputs, "factor").permutation(FACTORS)
    by = float(next(f for f in factors if abs(f) == 1.0 or _holds(f * x, dtype)))
    square = by**2 if placement_of(implementation) == "inside" else abs(by)
    scaled = {"x": by * x}
    if by < 0.0 and "bias" in inputs.arrays:
        scaled["bias"] = -inputs.arrays["bias"]
    options = {**inputs.options, "eps": square * eps_of(inputs)}
    other = replace(inputs.with_arrays(**scaled), options=options)
    what = f"rows times {by:g}, eps times {square:g}"
    return [_together(what, implementation, inputs, other, float(np.sign(by)))]


def _holds(values: Array, dtype: str) -> bool:
    """Whether a dtype has all these numbers, none of them so small that it may be flushed to zero,
    or so large that its square overflows."""
    sizes = np.abs(values[values != 0.0])
    within = (sizes >= FORMATS[dtype].normal) & (sizes < LARGEST)
    return bool(within.all() and (snapped(values, dtype) == values).all())


def channels_permuted(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Channels in another order, weight and bias with them."""
    order = generator(inputs, "order").permutation(inputs.arrays["x"].shape[-1])
    other = inputs.with_arrays(**{n: a[..., order] for n, a in inputs.arrays.items()})
    plain, among = (implementation(call, layout="contiguous") for call in (inputs, other))
    allowance = layer_norm(implementation, inputs).allowance[..., order]
    allowance = allowance + layer_norm(implementation, other).allowance
    return [agree("channels permuted", among, plain[..., order], allowance, implementation.dtype)]


def moments(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Of a call without weight and bias: the mean of a row is 0, and the mean of its squares that
    of the row over what it is divided by."""
    x = inputs.arrays["x"]
    actual, dtype = implementation(inputs), implementation.dtype
    allowance = layer_norm(implementation, inputs).allowance
    spread, d = variance(x), x.shape[-1]
    inverse = factor(x, eps_of(inputs), placement_of(implementation))
    wanted = (spread * inverse**2)[..., 0]
    size = np.abs(actual)
    room = np.mean(2.0 * size * allowance + allowance**2, axis=-1)
    # the variance, the square and the mean are formed in float64 here
    room += formed(np.mean(size**2, axis=-1) + 4.0 * wanted, d + 8)
    return [
        vanishing(
            "sum of a row: its positive part against its negative part",
            actual, allowance, -1, dtype,
        ),
        alike("mean square of a row", np.mean(actual**2, axis=-1), wanted, room, "float64"),
    ]  # fmt: skip


def bounded(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Of a call without weight and bias: no entry exceeds sqrt(d - 1)."""
    actual = implementation(inputs)
    allowance = layer_norm(implementation, inputs).allowance
    most = float(np.sqrt(inputs.arrays["x"].shape[-1] - 1))
    within = np.clip(actual, -most, most)
    return [alike("entry within sqrt(d - 1)", actual, within, allowance, implementation.dtype)]


def constant_gives_bias(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Rows of one number give the bias: of zeros exactly, of others as far as their mean is
    exact, which the sum of many equal numbers need not be."""
    x, dtype = inputs.arrays["x"], implementation.dtype
    wanted = np.broadcast_to(inputs.arrays.get("bias", np.zeros(x.shape[-1])), x.shape)
    actual = implementation(inputs)
    zero = np.broadcast_to((x == 0.0).all(axis=-1, keepdims=True), x.shape)
    allowance = layer_norm(implementation, inputs).allowance
    return [
        same("a row of zeros", actual[zero], wanted[zero], dtype),
        alike("a row of one number", actual[~zero], wanted[~zero], allowance[~zero], dtype),
    ]


def affine_is_last(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The normalised value is multiplied by the weight, and then the bias is added."""
    arrays = inputs.arrays
    bare = replace(inputs, arrays={n: a for n, a in arrays.items() if n not in AFFINE}, drawn=b"")
    plain, whole = implementation(bare), implementation(inputs)
    weight, bias = arrays["weight"], arrays["bias"]
    room = layer_norm(implementation, inputs).allowance
    room = room + np.abs(weight) * layer_norm(implementation, bare).allowance
    room += formed(np.abs(weight * plain) + np.abs(bias), 2)
    return [alike("output", whole, weight * plain + bias, room, implementation.dtype)]


def eps_read_off(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Rows of s and -s by turns have the mean 0 and the variance s^2, exactly, so that eps stands
    in every entry of the output."""
    size = np.abs(inputs.arrays["x"])
    right = layer_norm(implementation, inputs)
    inside = placement_of(implementation) == "inside"

    def read(values: Array) -> Array:
        share = size / values
        found: Array = share**2 - size**2 if inside else share - size
        return found

    high = np.abs(right.value)
    found, room = read(np.abs(implementation(inputs))), right.allowance
    low = np.where(high > room, high - room, 0.0)
    share = size / low
    reach = read(low) - read(high) + formed(share**2 + size**2 if inside else share + size, 6)
    wanted = np.full(size.shape, eps_of(inputs))
    return [alike("eps as it stands in the output", found, wanted, reach, "float64")]
