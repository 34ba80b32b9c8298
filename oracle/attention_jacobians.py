"""The derivative of attention along a direction of its values, and what parts of it don't read.

Source: the claim `attention.values_adjoint`; the output is linear in v.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.attention_sight import key_heads
from attnspec.oracle.attention_values import attention
from attnspec.oracle.expected import Expected
from attnspec.oracle.gradient_passes import Part, along_axis, index_of, one_of_axis
from attnspec.oracle.law import Implementation, Inputs

Array = np.ndarray[Any, Any]


def along_values(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
    """The output is linear in v: its derivative along a direction is attention over that."""
    return attention(implementation, inputs.with_arrays(v=direction))


def head_or_query(implementation: Implementation, inputs: Inputs) -> Part:
    """A batch entry, a head or a query, and the queries, keys and values that it does not read."""
    shape, keys = inputs.arrays["q"].shape, inputs.arrays["k"].shape
    at, others = one_of_axis(inputs, shape, (0, 1, 2))
    found = {"q": along_axis(others, at, shape)}
    unread = others
    if at == 1:
        read = key_heads(implementation.conventions, shape[1], keys[1])
        unread = np.array([others[read == group].all() for group in range(keys[1])])
    if at < 2:
        found |= {n: along_axis(unread, at, inputs.arrays[n].shape) for n in ("k", "v")}
    return index_of(others, at), found
