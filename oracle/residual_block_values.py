"""What residual_block returns: the oracle's side of its laws.

Sources: `spec/residual_block_definition.py`. What a block hands to its norm or sublayer leaves it,
so that it is rounded to storage, whatever else the contract promises of activations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.callee import Callee, Moved, Own
from attnspec.oracle.expected import Expected, expected, expected_gradients, value_of
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.norm_rows import as_rows
from attnspec.oracle.precision import Contract
from attnspec.oracle.rounding import stored_often
from attnspec.spec.definition import Definition
from attnspec.spec.layer_norm_definition import layer_norm, layer_norm_factor
from attnspec.spec.residual_block_definition import residual_block as definition_of
from attnspec.spec.residual_block_definition import residual_sum
from attnspec.spec.rms_norm_definition import rms_norm, rms_norm_factor

Array = np.ndarray[Any, Any]

DEFAULT_EPS = {"layer_norm": 1e-5, "rms_norm": 1e-6}
"""Where a call leaves it to the norm."""

READINGS = {"layer_norm": 5, "rms_norm": 3}
"""How often a norm reads x: once itself, twice where squares are products, and for the mean, of the
row and of what is squared."""

_FACTORS = {"layer_norm": layer_norm_factor(), "rms_norm": rms_norm_factor()}
_OWN = {
    "layer_norm": layer_norm(weight=False, bias=False),
    "rms_norm": rms_norm(weight=False),
}

Call = tuple[Definition, dict[str, Any], dict[str, Any]]
"""A definition, its parameters and its arrays."""


def placement_of(inputs: Inputs) -> str:
    """Where the norm of a call stands."""
    return str(inputs.options["placement"])


def eps_of(norm: Own) -> float:
    """The eps of a norm of the target's own."""
    return DEFAULT_EPS[norm.function] if norm.eps is None else norm.eps


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
        parameters["eps"] = eps_of(norm)
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
    """The gradient of x: what comes back past the sublayer, and what comes back through it."""
    contract, above = contract_of(implementation), as_rows(upstream)
    sublayer, rows = moved_of(inputs, "sublayer"), as_rows(inputs.arrays["x"])
    sizes = {"rows": rows.shape[0], "d": rows.shape[1]}
    if placement_of(inputs) == "pre":
        stream: Pair = above, None
        back = sublayer.transposed(above)
        branch = _through_norm(inputs, (back, None), (rows, None), contract)
        branch = _in_any_order(inputs, above, back, branch, contract)
    else:
        given = {"x": rows, "branch": sublayer.of(rows)}
        total = _pair(expected(residual_sum(), sizes, given, contract))
        stream = _through_norm(inputs, (above, None), total, contract)
        branch = _transposed(sublayer, stream)
    arrays = {"x": _given(stream), "branch": _given(branch)}
    right = expected(residual_sum(), sizes, arrays, contract)
    return {"x": right.reshaped(inputs.arrays["x"].shape)}


Pair = tuple[Array, Array | None]
"""Values, and how far an implementation may be from them; None where they are exact."""


def _given(pair: Pair) -> Any:
    return pair[0] if pair[1] is None else pair


def _pair(right: Expected) -> Pair:
    """What the value lacks in float64 counts as an error: the next tape does not have it."""
    rest = 0.0 if right.residual is None else np.abs(right.residual)
    return right.value, right.allowance + rest


def _transposed(layer: Moved, pair: Pair) -> Pair:
    """Back through an exact layer."""
    values, room = pair
    sizes = replace(layer, factors=tuple(abs(factor) for factor in layer.factors))
    return layer.transposed(values), None if room is None else sizes.transposed(room)


def _in_any_order(
    inputs: Inputs, above: Array, back: Array, branch: Pair, contract: Contract
) -> Pair:
    """The gradient of a norm, of which each reading of x is added to the skip on its own, as
    autograd does: then what is rounded has the size of the skip, and of those parts. The direct
    one is the norm's upstream times its factor; in LayerNorm the mean gets the mean of that."""
    norm = inputs.callees["norm"]
    values, room = branch
    if isinstance(norm, Moved) or room is None:
        return branch
    rows = as_rows(inputs.arrays["x"])
    sizes = {"rows": rows.shape[0], "d": rows.shape[1], "eps": eps_of(norm)}
    factor = value_of(_FACTORS[norm.function], sizes, {"x": rows}).reshape(-1, 1)
    direct = np.abs(factor * back)
    size = np.abs(above) + np.abs(values) + direct + direct.mean(axis=1, keepdims=True)
    count = np.full(size.shape, READINGS[norm.function] - 1)
    _, more = stored_often((size, np.zeros(size.shape)), contract.format("output"), count)
    return values, room + more


def _through_norm(inputs: Inputs, above: Pair, rows: Pair, contract: Contract) -> Pair:
    """Back through the norm of a call, which was given these rows."""
    norm = inputs.callees["norm"]
    if isinstance(norm, Moved):
        return _transposed(norm, above)
    count, d = rows[0].shape
    sizes = {"rows": count, "d": d, "eps": eps_of(norm)}
    arrays = {"x": _given(rows), "upstream": _given(above)}
    (right,) = expected_gradients(_OWN[norm.function], ("x",), sizes, arrays, contract)
    return _pair(right)


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
