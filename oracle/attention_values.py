"""What attention returns, its gradients, and who sees whom: the oracle's side of its laws.

Sources: `spec/attention_definition.py`. Conventions of the target decide the alignment of queries
with keys, what a window counts, the order of heads, and what a row without keys gives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.attention_sight import (
    head_order,
    in_range,
    reach,
    seen,
    spread,
    with_four_axes,
)
from attnspec.oracle.expected import Expected, expected, expected_gradients
from attnspec.oracle.law import Implementation, Inputs
from attnspec.spec import attention_definition
from attnspec.spec.attention_definition import Options

Array = np.ndarray[Any, Any]


def attention(implementation: Implementation, inputs: Inputs, **pairs: Any) -> Expected:
    """The output, b h t e. A pair (values, errors) takes the place of an argument of that name."""
    options = options_of(implementation, inputs)
    right = expected(
        attention_definition.attention(options),
        parameters(implementation, inputs),
        {**arrays(inputs), **pairs},
        implementation.contract,
    )
    lost = undivided_overflow(implementation, inputs.arrays["v"])
    if lost.any():
        right = replace(right, allowance=np.where(lost, np.inf, right.allowance))
    if not options.hides:
        return right
    return of_empty_rows(implementation, right, empty(implementation, inputs)[..., None])


def undivided_overflow(implementation: Implementation, values: Array) -> Array:
    """Where numerators times values, added up before the division and stored, may overflow: bool,
    b h t e or what broadcasts to it. Numerators are at most 1."""
    v = np.abs(values)
    stored = implementation.contract.format("activations")
    largest = np.where(np.isfinite(v), v, 0.0).max(initial=0.0)
    if largest < stored.overflow / max(v.shape[2], 1):
        return np.zeros((1, 1, 1, 1), bool)
    with np.errstate(over="ignore"):
        total: Any = v.sum(axis=2, keepdims=True).max(axis=1, keepdims=True)
    lost: Array = np.greater_equal(total, stored.overflow)
    return lost


def log_sum_exp(implementation: Implementation, inputs: Inputs) -> Expected:
    """The natural logarithm of the sum of each row's exponentials, b h t, float32 or wider."""
    options = options_of(implementation, inputs)
    given = {name: a for name, a in arrays(inputs).items() if name != "v"}
    right = expected(
        attention_definition.log_sum_exp(options),
        parameters(implementation, inputs, value_size=False),
        given,
        implementation.contract,
    )
    lost = overflowing(implementation, inputs)
    if options.hides and implementation.conventions["attention.empty_row"] != "zero":
        lost = lost | empty(implementation, inputs)
    return replace(right, allowance=np.where(lost, np.inf, right.allowance))


def overflowing(implementation: Implementation, inputs: Inputs) -> Array:
    """Rows with a score that may overflow, of a hidden key too: bool, b h t. Nothing is promised
    of them (an implementation that hides keys by adding minus infinity gives NaN)."""
    given = {name: a for name, a in arrays(inputs).items() if name not in ("v", "mask")}
    right = expected(
        attention_definition.scores(options_of(implementation, inputs)),
        parameters(implementation, inputs, value_size=False),
        given,
        implementation.contract,
        exact=False,
    )
    lost: Array = np.asarray(np.isinf(right.allowance).any(axis=-1))
    return lost


def gradients(
    implementation: Implementation, inputs: Inputs, upstream: Array
) -> dict[str, Expected]:
    """Gradients of sum(upstream * output), each of its argument's shape."""
    options = options_of(implementation, inputs)
    names = ("q", "k", "v", *(("bias",) if options.bias else ()))
    right = expected_gradients(
        attention_definition.attention(options),
        names,
        parameters(implementation, inputs),
        {**arrays(inputs), "upstream": upstream},
        implementation.contract,
    )
    found = {n: r.reshaped(inputs.arrays[n].shape) for n, r in zip(names, right, strict=True)}
    followed = implementation.conventions["attention.empty_row"]
    undefined = followed != "zero" and options.hides and empty(implementation, inputs).any()
    if undefined or undivided_overflow(implementation, inputs.arrays["v"]).any():
        # what comes out of a row that is not defined goes into every sum over rows
        return {
            n: replace(r, allowance=np.full_like(r.allowance, np.inf)) for n, r in found.items()
        }
    return found


def visible(implementation: Implementation, inputs: Inputs) -> Array:
    """Whether query i sees key j: bool, b h t s."""
    given = inputs.arrays
    shape = (*given["q"].shape[:3], given["k"].shape[2])
    mask, bias = given.get("mask"), given.get("bias")
    return seen(implementation.conventions, shape, inputs.options, mask, bias)


def empty(implementation: Implementation, inputs: Inputs) -> Array:
    """Whether a row sees no key at all: bool, b h t."""
    some: Array = np.asarray(visible(implementation, inputs).any(axis=-1))
    return ~some


# -- a call as the definition takes it -----------------------------------------------------------


def options_of(implementation: Implementation, inputs: Inputs) -> Options:
    """Which definition of attention a call asks for."""
    given, heads = inputs.options, inputs.arrays["q"].shape[1]
    return Options(
        mask="mask" in inputs.arrays,
        bias="bias" in inputs.arrays,
        softcap=given.get("softcap") is not None,
        ranges=in_range(given),
        head_order=head_order(implementation.conventions, heads, inputs.arrays["k"].shape[1]),
        scaling=implementation.contract.scaling,
    )


def scale_of(inputs: Inputs) -> float:
    """The scale of a call, default or not."""
    given = inputs.options.get("scale")
    return float(inputs.arrays["q"].shape[-1] ** -0.5 if given is None else given)


def parameters(
    implementation: Implementation, inputs: Inputs, *, value_size: bool = True
) -> dict[str, Any]:
    """Sizes, scale and the rest, by the definition's names."""
    (b, h, t, d), (_, g, s, e) = inputs.arrays["q"].shape, inputs.arrays["v"].shape
    options = options_of(implementation, inputs)
    found: dict[str, Any] = {"batch": b, "heads": h, "groups": g, "t": t, "s": s, "d": d}
    if value_size:
        found["e"] = e
    given = inputs.options
    found["scale"] = scale_of(inputs)
    if options.softcap:
        found["cap"] = float(given["softcap"])
    if options.ranges:
        limits = reach(implementation.conventions, t, s, given)
        found.update(zip(("offset", "left", "right"), limits, strict=True))
    if options.bias:
        found.update(spread(inputs.arrays["bias"]))
    return found


def arrays(inputs: Inputs) -> dict[str, Array]:
    """The call's arrays, of the definition's shapes."""
    given = inputs.arrays
    found = {name: given[name] for name in "qkv"}
    if "mask" in given:
        full = (*given["q"].shape[:3], given["k"].shape[2])
        found["mask"] = np.broadcast_to(given["mask"], full).astype(np.int8)
    if "bias" in given:
        found["bias"] = with_four_axes(given["bias"])
    return found


def of_empty_rows(implementation: Implementation, right: Expected, hidden: Array) -> Expected:
    """What the target's convention makes of rows without keys."""
    followed = implementation.conventions["attention.empty_row"]
    if followed == "zero" or not hidden.any():
        return right
    if followed == "nan":
        value = np.where(hidden, np.nan, right.value)
        return replace(right, value=value, allowance=np.where(hidden, 0.0, right.allowance))
    return replace(right, allowance=np.where(hidden, np.inf, right.allowance))
