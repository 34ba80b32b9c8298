"""The checks of rms_norm's own laws: from an implementation and inputs to two sides and an
allowance.

Sources: the claims of `spec/rms_norm.py` and `spec/norm_invariances.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.calls import agree, alike, close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.layer_norm_values import layer_norm
from attnspec.oracle.norm_rows import as_rows
from attnspec.oracle.precision import FORMATS, snapped
from attnspec.oracle.rms_norm_values import eps_of, factor, placement, rms_norm
from attnspec.oracle.rounding import formed

Array = np.ndarray[Any, Any]

SHARES = (0.5, 1.0, 2.0, 4.0)
"""Sizes of gains that every dtype holds, and of which it holds the gain less 1."""
EXPONENTS = (-8, 7, -5, 4, -3, 2, 1, -1)
"""Of the powers of two by which rows are scaled."""


def with_weight(inputs: Inputs, weight: Array | None) -> Inputs:
    """The same call with another weight, or without one."""
    arrays = {name: values for name, values in inputs.arrays.items() if name != "weight"}
    if weight is not None:
        arrays["weight"] = weight
    return replace(inputs, arrays=arrays, drawn=b"")


def with_gain(implementation: Implementation, inputs: Inputs, gain: Array) -> Inputs:
    """The same call with the weight by which channels are multiplied by `gain`."""
    plain = implementation.conventions["rms_norm.gain"] == "plain"
    return with_weight(inputs, gain if plain else gain - 1.0)


def mean_square(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The mean square of what comes back without a gain, beside that of x times the square of the
    row's factor: 1, as far as eps allows."""
    call = with_weight(inputs, None)
    actual, right = implementation(call), factor(implementation, call)
    allowance = rms_norm(implementation, call).allowance
    x, m = call.arrays["x"], call.arrays["x"].shape[-1]
    square = np.mean((x * right.value) ** 2, axis=-1)
    room = np.mean(2.0 * np.abs(actual) * allowance + allowance**2, axis=-1)
    lost = np.mean(2.0 * x**2 * right.value * right.allowance, axis=-1)
    found = np.mean(actual**2, axis=-1)
    room = room + 2.0 * lost + formed(square, m + 4) + formed(found, m + 2)
    return [alike("mean square of a row", found, square, room, "float64")]


def equal_entries(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A row of one number comes back as the sign of that number, as far as eps allows."""
    call = with_weight(inputs, None)
    actual, right = implementation(call), factor(implementation, call)
    x, allowance = call.arrays["x"], rms_norm(implementation, call).allowance
    value = x * right.value
    room = allowance + np.abs(x) * right.allowance + formed(np.abs(value), 1)
    return [alike("row of one number", actual, value, room, implementation.dtype)]


def scaled_alike(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Rows times a power of two, with eps scaled along, give the same rows, or their negatives for
    a negative factor. Where eps cannot be given, only the sign is changed."""
    x, where = inputs.arrays["x"], placement(implementation)
    rng = generator(inputs, "factor")
    sign = float(rng.choice([-1.0, 1.0]))
    options = dict(inputs.options)
    if where == "none" or implementation.accepts("eps"):
        c = _power(x, inputs.dtype, rng)
    else:
        c, sign = 1.0, -1.0
    if implementation.accepts("eps"):
        options["eps"] = eps_of(inputs) * {"outside": c, "none": 1.0}.get(where, c * c)
    scaled = replace(inputs.with_arrays(x=sign * c * x), options=options)
    allowance = rms_norm(implementation, inputs).allowance
    allowance = allowance + rms_norm(implementation, scaled).allowance
    what = f"rows times {sign * c:g}"
    one, other = sign * implementation(inputs), implementation(scaled)
    return [agree(what, other, one, allowance, implementation.dtype)]


def _power(x: Array, dtype: str, rng: np.random.Generator) -> float:
    """A power of two by which x can be multiplied in its dtype without a loss, squares included as
    far as they did not overflow before; 1 where there is none."""
    sizes = np.abs(x[x != 0.0])
    fmt = FORMATS[dtype]
    low, high = (sizes.min(), sizes.max()) if sizes.size else (1.0, 1.0)
    # float32 holds the squares of all other formats' statistics but float64's
    wide = min(fmt.overflow, FORMATS[dtype if dtype == "float64" else "float32"].overflow ** 0.25)
    held = [
        k for k in EXPONENTS if low * 2.0**k >= fmt.normal and high * 2.0**k < wide and high < wide
    ]
    return float(2.0 ** held[int(rng.integers(len(held)))]) if held else 1.0


def zeros_stay(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A row of zeros gives zeros exactly, unless 1 over what it is divided by may overflow, and
    other rows are what they are."""
    actual, right = implementation(inputs), rms_norm(implementation, inputs)
    empty = ~inputs.arrays["x"].any(axis=-1, keepdims=True)
    zero = actual[empty & np.isfinite(right.allowance)]
    return [
        same("row of zeros", zero, np.zeros_like(zero), implementation.dtype),
        close("output", actual, right, implementation.dtype),
    ]


def gain_read_off(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Weights that give each channel a gain of plus or minus a power of two: what comes back,
    over the gain, is what comes back without a weight; and at a gain of 0 it is 0 exactly."""
    m, dtype = inputs.arrays["x"].shape[-1], implementation.dtype
    rng = generator(inputs, "gains")
    gain = rng.choice(SHARES, size=m) * rng.choice([-1.0, 1.0], size=m)
    bare, one = with_weight(inputs, None), with_gain(implementation, inputs, gain)
    none = with_gain(implementation, inputs, np.zeros(m))
    base, read = rms_norm(implementation, bare), rms_norm(implementation, one)
    sure = np.isfinite(rms_norm(implementation, none).allowance)
    room = np.abs(gain) * base.allowance + read.allowance
    at_zero = implementation(none)[sure]
    return [
        same("channels at a gain of 0", at_zero, np.zeros_like(at_zero), dtype),
        agree(
            "gains of powers of two", implementation(one), gain * implementation(bare), room, dtype
        ),
    ]


def linear_in_weight(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """What comes back changes with the weight along a straight line: for weights a and b, results
    at a + b and 0 add up to those at a and b."""
    dtype, a = implementation.dtype, inputs.arrays["weight"]
    drawn: Any = generator(inputs, "weight").standard_normal(a.shape)
    total = snapped(a + snapped(drawn, dtype), dtype)
    b = snapped(total - a, dtype)
    # a summand that the dtype cannot hold exactly is left out
    b = np.where(a + b == total, b, 0.0)
    calls = [with_weight(inputs, w) for w in (a, b, a + b, np.zeros_like(a))]
    at_a, at_b, both, none = (implementation(call, layout="contiguous") for call in calls)
    allowance = sum(rms_norm(implementation, call).allowance for call in calls)
    what = "results at weights a and b, and at a + b and 0"
    return [agree(what, both + none, at_a + at_b, np.asarray(allowance), dtype)]


def permuted_channels(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Channels in another order, with their weights, come back in that order."""
    order = generator(inputs, "order").permutation(inputs.arrays["x"].shape[-1])
    arrays = {name: values[..., order] for name, values in inputs.arrays.items()}
    layout = "contiguous"
    plain = implementation(inputs, layout=layout)[..., order]
    moved = implementation(inputs.with_arrays(**arrays), layout=layout)
    allowance = 2.0 * rms_norm(implementation, inputs).allowance[..., order]
    return [agree("channels in another order", moved, plain, allowance, implementation.dtype)]


def leading_axes(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Rows with any axes before them are what they are with one, in their order."""
    x, layout = inputs.arrays["x"], "contiguous"
    flat = inputs.with_arrays(x=as_rows(x))
    one = implementation(inputs, layout=layout)
    other = implementation(flat, layout=layout).reshape(x.shape)
    allowance = 2.0 * rms_norm(implementation, inputs).allowance
    return [agree("leading axes as one", other, one, allowance, implementation.dtype)]


def eq_layer_norm(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """On rows whose mean is 0 it is the same target's LayerNorm, with the same eps and gain."""
    sibling = implementation.sibling("layer_norm")
    options = {"eps": eps_of(inputs)}
    if sibling is None or not sibling.accepts("eps"):
        return []
    own = replace(inputs, drawn=b"")
    if implementation.accepts("eps"):
        own = replace(own, options=options)
    other = replace(own, component="layer_norm", options=options)
    if "weight" in inputs.arrays:
        if not sibling.accepts("weight"):
            return []
        m = inputs.arrays["x"].shape[-1]
        rng = generator(inputs, "gains")
        gain = rng.choice(SHARES, size=m) * rng.choice([-1.0, 1.0], size=m)
        own = with_gain(implementation, own, gain)
        other = with_weight(other, gain)
    if not sibling.legal(other):
        return []
    allowance = rms_norm(implementation, own).allowance + layer_norm(sibling, other).allowance
    what = "LayerNorm of rows of mean 0"
    return [agree(what, implementation(own), sibling(other), allowance, implementation.dtype)]
