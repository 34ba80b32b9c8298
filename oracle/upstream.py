"""Drawn gradients of a result, and directions of an argument.

Sources: `tests/test_adjoint.py`. A sum of the result alone has a constant upstream, which softmax
and norms send to zero, so that one is drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Inputs
from attnspec.oracle.precision import snapped

Array = np.ndarray[Any, Any]

SIZES = (0, 0, 0, 1, -1, 2, -3)
"""Exponents of two for the size of an upstream."""
MEAN = 4.0
"""What one upstream in five is shifted by: rows of dP whose mean is large cancel with it."""


def upstream_of(inputs: Inputs, purpose: str = "upstream") -> Array:
    """A drawn gradient of the result, in the dtype of the call."""
    rng = generator(inputs, purpose)
    values: Any = rng.standard_normal(COMPONENTS[inputs.component].result(inputs))
    values = values * 2.0 ** SIZES[int(rng.integers(len(SIZES)))]
    if rng.random() < 0.2:
        values = values + MEAN
    return snapped(values, inputs.dtype)


def direction_of(inputs: Inputs, name: str) -> Array:
    """A drawn change of an argument, of its shape and in the dtype of the call."""
    rng = generator(inputs, f"direction of {name}")
    values: Any = rng.standard_normal(inputs.arrays[name].shape)
    return snapped(values, inputs.dtype)
