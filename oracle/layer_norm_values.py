"""What layer_norm returns: the oracle's side of its laws.

Sources: `spec/layer_norm_definition.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.expected import Expected, expected, expected_gradients, value_of
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.norm_rows import as_rows
from attnspec.oracle.precision import snapped
from attnspec.spec import layer_norm_definition
from attnspec.spec.definition import Definition

Array = np.ndarray[Any, Any]

DEFAULT_EPS = 1e-5
AFFINE = ("weight", "bias")

_DEFINITIONS = {
    (weight, bias, placement): layer_norm_definition.layer_norm(
        weight=weight, bias=bias, eps_placement=placement
    )
    for weight in (False, True)
    for bias in (False, True)
    for placement in layer_norm_definition.PLACEMENTS
}

Call = tuple[Definition, dict[str, Any], dict[str, Any]]
"""A definition, its parameters and its arrays."""


def eps_of(inputs: Inputs) -> float:
    """The eps of a call."""
    return float(inputs.options.get("eps", DEFAULT_EPS))


def placement_of(implementation: Implementation) -> str:
    """Where the eps of an implementation stands."""
    return implementation.conventions["layer_norm.eps"]


def call_of(implementation: Implementation, inputs: Inputs) -> Call:
    """A call as its definition takes it."""
    rows = as_rows(inputs.arrays["x"])
    given = {name: inputs.arrays[name] for name in AFFINE if name in inputs.arrays}
    definition = _DEFINITIONS["weight" in given, "bias" in given, placement_of(implementation)]
    parameters = {"rows": rows.shape[0], "d": rows.shape[1], "eps": eps_of(inputs)}
    return definition, parameters, {"x": rows, **given}


def layer_norm(implementation: Implementation, inputs: Inputs) -> Expected:
    """The normalised x, of its shape."""
    right = expected(*call_of(implementation, inputs), implementation.contract)
    return right.reshaped(inputs.arrays["x"].shape)


def gradients(
    implementation: Implementation, inputs: Inputs, upstream: Array
) -> dict[str, Expected]:
    """The gradients of x, and of weight and bias where they are given."""
    definition, parameters, arrays = call_of(implementation, inputs)
    names = tuple(arrays)
    right = expected_gradients(
        definition,
        names,
        parameters,
        {**arrays, "upstream": as_rows(upstream)},
        implementation.contract,
    )
    given = inputs.arrays
    return {n: r.reshaped(given[n].shape) for n, r in zip(names, right, strict=True)}


def centred(x: Array) -> Array:
    """Entries less their row's mean, in float64."""
    return _part(layer_norm_definition.layer_norm_centred(), x).reshape(x.shape)


def variance(x: Array) -> Array:
    """The variance over d of every row, with an axis of 1 for the row."""
    return _part(layer_norm_definition.layer_norm_variance(), x).reshape(*x.shape[:-1], 1)


def factor(x: Array, eps: float, placement: str) -> Array:
    """What a row's differences to its mean are multiplied by, with an axis of 1 for the row."""
    found = _part(layer_norm_definition.layer_norm_factor(placement), x, eps=eps)
    return found.reshape(*x.shape[:-1], 1)


def _part(definition: Definition, x: Array, **more: float) -> Array:
    """A part of the definition that no shift of a row changes. A row is first shifted by its first
    entry: where a mean is large beside its deviation that is exact, so that nothing is lost."""
    rows = as_rows(x - x[..., :1])
    sizes = {"rows": rows.shape[0], "d": rows.shape[1], **more}
    return value_of(definition, sizes, {"x": rows})


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


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: other rows, another weight and bias, another eps, twice as many rows."""
    arrays = inputs.arrays
    x, affine = arrays["x"], {n: arrays[n] for n in AFFINE if n in arrays}
    changed = {name: values[::-1] + 1.0 for name, values in affine.items()}
    found = [
        inputs.with_arrays(x=-2.0 * x),
        inputs.with_arrays(**{n: snapped(a, inputs.dtype) for n, a in changed.items()}),
        inputs.with_arrays(x=np.concatenate([x, -x]) if x.ndim > 1 else np.stack([x, -x])),
    ]
    if implementation.accepts("eps"):
        options = {**inputs.options, "eps": 4.0 * eps_of(inputs)}
        found.append(replace(inputs, options=options, drawn=b""))
    return found
