"""The derivatives of rms_norm along directions of its arguments.

Source: the adjoint of a normalised row is the derivative itself, r (I - x_hat x_hat^T/d) being
symmetric (wherever eps stands); the result is linear in the gain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnspec.oracle.expected import Expected
from attnspec.oracle.gradient_passes import Along
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.layer_norm_jacobians import times, without
from attnspec.oracle.rms_norm_values import gain, gradients, rms_norm

Array = np.ndarray[Any, Any]


def along_x(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
    """The derivative of a bare row, times the gain."""
    bare = gradients(implementation, without(inputs, "weight"), direction)["x"]
    weight = inputs.arrays.get("weight")
    if weight is None:
        return bare
    return times(bare, gain(implementation, weight), implementation.contract.format("output"))


def along_weight(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
    """Rows normalised, times the direction."""
    bare = rms_norm(implementation, without(inputs, "weight"))
    return times(bare, direction, implementation.contract.format("output"))


JACOBIANS: Mapping[str, Along] = {"x": along_x, "weight": along_weight}
