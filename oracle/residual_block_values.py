"""What residual_block returns: the oracle's side of its laws.

Sources: `spec/residual_block_definition.py`. What a block hands to its norm or sublayer leaves it,
so that it is rounded to storage, whatever else the contract promises of activations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.callee import Callee, Moved, Own
from attnspec.oracle.expected import Expected, expected, expected_gradients
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.norm_rows import as_rows
from attnspec.oracle.precision import Contract
from attnspec.spec.definition import Definition
from attnspec.spec.residual_block_definition import residual_block as definition_of

Array = np.ndarray[Any, Any]

DEFAULT_EPS = {"layer_norm": 1e-5, "rms_norm": 1e-6}
"""Where a call leaves it to the norm."""

Call = tuple[Definition, dict[str, Any], dict[str, Any]]
"""A definition, its parameters and its arrays."""


def placement_of(inputs: Inputs) -> str:
    """Where the norm of a call stands."""
    return str(inputs.options["placement"])


def moved_of(inputs: Inputs, name: str) -> Moved:
    """A callable of a call that is exact. Raises TypeError for another."""
    found = inputs.callees[name]
    if not isinstance(found, Moved):
        raise TypeError(f"{name} is {found!r}; expected one that is exact")
    return found


def contract_of(implementation: Implementation) -> Contract:
    """Its contract, with what is handed over in storage."""
    own = implementation.contract
    return replace(own, activations=own.storage)


def call_of(inputs: Inputs) -> Call:
    """A call as its definition takes it."""
    rows = as_rows(inputs.arrays["x"])
    d = rows.shape[1]
    norm = inputs.callees["norm"]
    arrays = {"x": rows, **_layer("sublayer", inputs.callees["sublayer"], d)}
    parameters: dict[str, Any] = {"rows": rows.shape[0], "d": d}
    if isinstance(norm, Own):
        parameters["eps"] = DEFAULT_EPS[norm.function] if norm.eps is None else norm.eps
        return definition_of(placement_of(inputs), norm.function), parameters, arrays
    arrays |= _layer("norm", norm, d)
    return definition_of(placement_of(inputs), "moved"), parameters, arrays


def _layer(name: str, callee: Callee, d: int) -> dict[str, Array]:
    if not isinstance(callee, Moved):
        raise TypeError(f"{name} is {callee!r}; expected one that is exact")
    return {f"{name}_factor": callee.factor(d), f"{name}_order": callee.order(d)}


def residual_block(implementation: Implementation, inputs: Inputs) -> Expected:
    """The output, of the shape of x."""
    right = expected(*call_of(inputs), contract_of(implementation))
    return right.reshaped(inputs.arrays["x"].shape)


def gradients(
    implementation: Implementation, inputs: Inputs, upstream: Array
) -> dict[str, Expected]:
    """The gradient of x, through norm and sublayer."""
    definition, parameters, arrays = call_of(inputs)
    above = {**arrays, "upstream": as_rows(upstream)}
    (right,) = expected_gradients(
        definition, ("x",), parameters, above, contract_of(implementation)
    )
    return {"x": right.reshaped(inputs.arrays["x"].shape)}


def along_x(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
    """The derivative along a direction: a block of exact layers is linear, so that it is the block
    of the direction."""
    return residual_block(implementation, inputs.with_arrays(x=direction))


def one_row(inputs: Inputs) -> tuple[Inputs, Any]:
    """One entry of a leading axis, alone, and its index; the whole where there is none."""
    x = inputs.arrays["x"]
    rng = generator(inputs, "row")
    axes = [a for a in range(x.ndim - 1) if x.shape[a] > 1]
    index: list[Any] = [slice(None)] * x.ndim
    if axes:
        axis = axes[rng.integers(len(axes))]
        at = int(rng.integers(x.shape[axis]))
        index[axis] = slice(at, at + 1)
    return inputs.with_arrays(x=x[tuple(index)]), tuple(index)


def others(_implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: other rows, other layers, the other placement, twice as many rows."""
    x = inputs.arrays["x"]
    placement = "post" if placement_of(inputs) == "pre" else "pre"
    return [
        inputs.with_arrays(x=-2.0 * x),
        inputs.with_callees(sublayer=Moved((-4.0, 1.0), 1), norm=Moved((2.0,))),
        replace(inputs, options={**inputs.options, "placement": placement}, drawn=b""),
        inputs.with_arrays(x=np.concatenate([x, -x]) if x.ndim > 1 else np.stack([x, -x])),
    ]
