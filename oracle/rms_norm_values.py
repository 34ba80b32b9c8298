"""What rms_norm returns and its gradients: the oracle's side of its laws.

Sources: `spec/rms_norm_definition.py`. Conventions of the target decide where eps stands and what
the gain is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.expected import Expected, expected, expected_gradients, value_of
from attnspec.oracle.law import Implementation, Inputs
from attnspec.spec import rms_norm_definition
from attnspec.spec.definition import Definition

Array = np.ndarray[Any, Any]

DEFAULT_EPS = 1e-6


def rms_norm(implementation: Implementation, inputs: Inputs) -> Expected:
    """The normalised x, of its shape."""
    definition, parameters, arrays = _call(implementation, inputs)
    right = expected(definition, parameters, arrays, implementation.contract)
    return right.reshaped(inputs.arrays["x"].shape)


def gradients(
    implementation: Implementation, inputs: Inputs, upstream: Array
) -> dict[str, Expected]:
    """The gradients of x, of its shape, and of the weight, if the call has one: m."""
    definition, parameters, arrays = _call(implementation, inputs)
    names = tuple(arrays)
    arrays = {**arrays, "upstream": upstream.reshape(arrays["x"].shape)}
    right = expected_gradients(definition, names, parameters, arrays, implementation.contract)
    return {n: r.reshaped(inputs.arrays[n].shape) for n, r in zip(names, right, strict=True)}


def of_one_channel(implementation: Implementation, inputs: Inputs, x: Array) -> Array:
    """What rows of a single channel give without a gain, in float64: of the shape of x. A row of
    equal numbers gives the same in every channel, and one of another kind has their root mean
    square where they are its own."""
    call = inputs.with_arrays(x=x.reshape(-1, 1))
    definition, parameters, arrays = _call(implementation, call, weight=False)
    return value_of(definition, parameters, arrays).reshape(x.shape)


def gain(implementation: Implementation, weight: Array) -> Array:
    """What channels with this weight are multiplied by: the result at a row of ones, at eps 0."""
    definition = rms_norm_definition.rms_norm(
        eps_placement="none", gain=implementation.conventions["rms_norm.gain"]
    )
    ones = np.ones((1, weight.size))
    found = value_of(definition, {"rows": 1, "d": weight.size}, {"x": ones, "weight": weight})
    return found.reshape(weight.shape)


def eps_of(inputs: Inputs) -> float:
    """The eps of a call."""
    return float(inputs.options.get("eps", DEFAULT_EPS))


def placement(implementation: Implementation) -> str:
    """Where eps stands."""
    return implementation.conventions["rms_norm.eps"]


def _call(
    implementation: Implementation, inputs: Inputs, *, weight: bool = True
) -> tuple[Definition, dict[str, Any], dict[str, Array]]:
    """A call as its definition takes it: rows of channels."""
    x = inputs.arrays["x"]
    arrays = {"x": x.reshape(-1, x.shape[-1])}
    if weight and "weight" in inputs.arrays:
        arrays["weight"] = inputs.arrays["weight"]
    definition = rms_norm_definition.rms_norm(
        weight="weight" in arrays,
        eps_placement=placement(implementation),
        gain=implementation.conventions["rms_norm.gain"],
    )
    rows, d = arrays["x"].shape
    parameters: dict[str, Any] = {"rows": rows, "d": d}
    if placement(implementation) != "none":
        parameters["eps"] = eps_of(inputs)
    return definition, parameters, arrays
