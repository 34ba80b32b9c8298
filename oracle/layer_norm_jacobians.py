"""The derivatives of layer_norm along directions of its arguments, and what its rows don't share.

Source: the adjoint of a normalised row is the derivative itself, r (I - 1 1^T/d - x_hat x_hat^T/d)
being symmetric (with eps outside of the root too); the result is linear in weight and bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.expected import Expected
from attnspec.oracle.gradient_passes import Along, Part, along_axis, index_of, one_of_axis
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.layer_norm_values import gradients, layer_norm
from attnspec.oracle.precision import Format
from attnspec.oracle.rounding import stored

Array = np.ndarray[Any, Any]


def without(inputs: Inputs, *names: str) -> Inputs:
    """The call without some of its arrays."""
    kept = {name: a for name, a in inputs.arrays.items() if name not in names}
    return replace(inputs, arrays=kept, drawn=b"")


def times(right: Expected, factor: Array, fmt: Format) -> Expected:
    """A result, multiplied by known factors and rounded to storage."""
    value, allowance = stored((right.value * factor, right.allowance * np.abs(factor)), fmt)
    return Expected(value, allowance)


def along_x(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
    """The derivative of a bare row, times the weight."""
    bare = gradients(implementation, without(inputs, "weight", "bias"), direction)["x"]
    fmt = implementation.contract.format("output")
    weight = inputs.arrays.get("weight")
    return bare if weight is None else times(bare, weight, fmt)


def along_weight(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
    """Rows normalised, with the direction for weight and no bias."""
    call = without(inputs, "bias").with_arrays(weight=direction)
    return layer_norm(implementation, call)


def along_bias(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
    """The direction in every row, to the bit."""
    value = np.broadcast_to(direction, inputs.arrays["x"].shape)
    return Expected(value, np.zeros(value.shape))


JACOBIANS: Mapping[str, Along] = {"x": along_x, "weight": along_weight, "bias": along_bias}


def row(implementation: Implementation, inputs: Inputs) -> Part:
    """One place of a leading axis, and the entries of x that it does not depend on."""
    shape = inputs.arrays["x"].shape
    if len(shape) < 2:
        return (), {}
    at, others = one_of_axis(inputs, shape, tuple(range(len(shape) - 1)))
    return index_of(others, at), {"x": along_axis(others, at, shape)}
