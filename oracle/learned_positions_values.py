"""What learned_positions returns and the gradient of its table: the oracle's side of its laws.

Sources: `spec/learned_positions_definition.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.expected import Expected, expected
from attnspec.oracle.law import Implementation, Inputs
from attnspec.spec.learned_positions_definition import DEFINITION, TABLE_GRADIENT

Array = np.ndarray[Any, Any]


def _sizes(inputs: Inputs) -> dict[str, int]:
    (length,), (rows, width) = (inputs.arrays[name].shape for name in ("positions", "table"))
    return {"length": length, "rows": rows, "width": width}


def learned_positions(implementation: Implementation, inputs: Inputs) -> Expected:
    """The rows that the positions name, of shape n m. Nothing is computed: the allowance is 0."""
    return expected(DEFINITION, _sizes(inputs), inputs.arrays, implementation.contract)


def table_gradient(
    implementation: Implementation, inputs: Inputs, upstream: Array
) -> dict[str, Expected]:
    """The gradient of the table, L m: to each row the upstream of every token that read it."""
    arrays = {"positions": inputs.arrays["positions"], "upstream": upstream}
    right = expected(TABLE_GRADIENT, _sizes(inputs), arrays, implementation.contract)
    return {"table": right}


def readers(inputs: Inputs) -> Array:
    """How many tokens read each row: L."""
    positions, table = inputs.arrays["positions"], inputs.arrays["table"]
    return np.bincount(positions, minlength=len(table))
