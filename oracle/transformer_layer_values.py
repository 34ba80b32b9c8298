"""What a Llama-style layer returns, and its gradients: the oracle's side of its laws.

Sources: `spec/transformer_layer_definition.py`. Every stage's allowance is derived from the
definition of its part, and what one stage may be off goes through the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.composition import expected_gradients_of, expected_of
from attnspec.oracle.expected import Expected
from attnspec.oracle.grouped_heads import head_counts
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.rms_norm_values import gain
from attnspec.spec.transformer_layer_definition import LayerOptions
from attnspec.spec.transformer_layer_definition import transformer_layer as composition_of

Array = np.ndarray[Any, Any]

WEIGHTS = (
    "w_q", "w_k", "w_v", "w_o", "norm_attention", "norm_feed_forward", "w_gate", "w_up", "w_down",
)  # fmt: skip
"""In the order of the contract."""
DEFAULT_BASE, DEFAULT_EPS = 10000.0, 1e-6


def sizes(inputs: Inputs) -> dict[str, int]:
    """The sizes of a call, by the names of the definition."""
    w, (b, n, m) = inputs.arrays, inputs.arrays["x"].shape
    h, g = head_counts(inputs)
    return {
        "batch": b, "n": n, "width": m, "heads": h, "groups": g, "d": w["w_q"].shape[1] // h,
        "e": w["w_v"].shape[1] // g, "hidden": w["w_gate"].shape[1],
    }  # fmt: skip


def turns(inputs: Inputs) -> bool:
    """Whether queries and keys are rotated."""
    return inputs.options.get("rope_base", DEFAULT_BASE) is not None


def options(implementation: Implementation, inputs: Inputs) -> LayerOptions:
    """Conventions and options of a call."""
    follows = implementation.conventions
    return LayerOptions(
        layout=follows["rope.layout"] if turns(inputs) else None,
        direction=follows["rope.direction"] if turns(inputs) else "forward",
        head_order=follows["gqa.head_order"],
        scaling=implementation.contract.scaling,
        eps_placement=follows["rms_norm.eps"],
        gain=follows["rms_norm.gain"],
    )


def transformer_layer(implementation: Implementation, inputs: Inputs) -> Expected:
    """The output of a call: b n m."""
    composition = composition_of(options(implementation, inputs))
    return expected_of(composition, _parameters(inputs), inputs.arrays, implementation.contract)


def gradients(
    implementation: Implementation, inputs: Inputs, upstream: Array
) -> dict[str, Expected]:
    """The gradients of x and of every weight, each of its shape."""
    composition, names = composition_of(options(implementation, inputs)), ("x", *WEIGHTS)
    given = {**inputs.arrays, "upstream": upstream}
    contract = implementation.contract
    right = expected_gradients_of(composition, names, _parameters(inputs), given, contract)
    return dict(zip(names, right, strict=True))


def gains(implementation: Implementation, weight: Array) -> Array:
    """What channels with this weight of a norm are multiplied by."""
    return gain(implementation, weight)


def weight_of_gain(implementation: Implementation, gains: Array) -> Array:
    """The weight of a norm by which channels are multiplied by these."""
    return gains if implementation.conventions["rms_norm.gain"] == "plain" else gains - 1.0


def _parameters(inputs: Inputs) -> dict[str, Any]:
    base = inputs.options.get("rope_base", DEFAULT_BASE)
    eps = inputs.options.get("eps", DEFAULT_EPS)
    return {**sizes(inputs), "base": base, "eps": eps}
