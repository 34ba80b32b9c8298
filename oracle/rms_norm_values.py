"""What rms_norm returns and its gradients: the oracle's side of its laws.

Sources: `spec/rms_norm_definition.py`. Conventions of the target decide where eps stands and what
the gain is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.expected import Expected, expected, expected_gradients, value_of
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.norm_rows import as_rows
from attnspec.oracle.precision import contract
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
    given = {**arrays, "upstream": as_rows(upstream)}
    right = expected_gradients(definition, names, parameters, given, implementation.contract)
    found = {n: r.reshaped(inputs.arrays[n].shape) for n, r in zip(names, right, strict=True)}
    lost = _cube_out_of_range(implementation, inputs)
    if lost.any():
        room = np.where(lost, np.inf, found["x"].allowance)
        found["x"] = replace(found["x"], allowance=room)
    return found


def _cube_out_of_range(implementation: Implementation, inputs: Inputs) -> Array:
    """Rows whose factor r has a cube that the format of the statistics does not hold: autograd of
    an inverse root multiplies by it. Nothing is promised of dx there. Bool, ... 1."""
    right = factor(implementation, inputs)
    fmt = implementation.contract.format("statistics")
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = (right.value + sign * right.allowance for sign in (-1.0, 1.0))
        held: Array = (low**3 >= fmt.normal) & (high**3 < fmt.overflow)
    return ~held


def factor(implementation: Implementation, inputs: Inputs) -> Expected:
    """What the rows of a call are multiplied by, before the gain, with what float64 may have
    lost of it: ... 1."""
    _, parameters, arrays = _call(implementation, inputs, weight=False)
    definition = rms_norm_definition.rms_norm_factor(placement(implementation))
    right = expected(definition, parameters, arrays, contract("float64"), exact=False)
    return right.reshaped((*inputs.arrays["x"].shape[:-1], 1))


def gain(implementation: Implementation, weight: Array) -> Array:
    """What channels with this weight are multiplied by."""
    definition = rms_norm_definition.rms_norm(
        eps_placement="none", gain=implementation.conventions["rms_norm.gain"]
    )
    # a row of ones is its own normalised value
    arrays = {"x": np.ones((1, weight.size)), "weight": weight}
    found = value_of(definition, {"rows": 1, "d": weight.size}, arrays)
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
    arrays = {"x": as_rows(x)}
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
