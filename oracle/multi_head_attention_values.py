"""What multi-head attention returns, and its gradients: the oracle's side of its laws.

Sources: `spec/multi_head_attention_definition.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.expected import Expected, expected, expected_gradients
from attnspec.oracle.grouped_heads import head_counts
from attnspec.oracle.law import Implementation, Inputs
from attnspec.spec.definition import Definition
from attnspec.spec.multi_head_attention_definition import MultiHead
from attnspec.spec.multi_head_attention_definition import multi_head_attention as definition_of

Array = np.ndarray[Any, Any]

WEIGHTS = ("w_q", "w_k", "w_v", "w_o")
"""In the order of the contract."""


def turns(inputs: Inputs) -> bool:
    """Whether queries and keys are rotated."""
    return inputs.options.get("rope_base") is not None


def options(implementation: Implementation, inputs: Inputs) -> MultiHead:
    """Conventions and options of a call."""
    follows = implementation.conventions
    return MultiHead(
        causal=bool(inputs.options.get("causal", False)),
        layout=follows["rope.layout"] if turns(inputs) else None,
        direction=follows["rope.direction"] if turns(inputs) else "forward",
        head_order=follows["gqa.head_order"],
        scaling=implementation.contract.scaling,
    )


def multi_head_attention(implementation: Implementation, inputs: Inputs) -> Expected:
    """The output of a call: b n m."""
    definition = definition_of(options(implementation, inputs))
    parameters = _parameters(definition, inputs)
    return expected(definition, parameters, inputs.arrays, implementation.contract)


def gradients(
    implementation: Implementation, inputs: Inputs, upstream: Array
) -> dict[str, Expected]:
    """The gradients of x and of every weight, each of its shape."""
    definition, names = definition_of(options(implementation, inputs)), ("x", *WEIGHTS)
    given = {**inputs.arrays, "upstream": upstream}
    parameters = _parameters(definition, inputs)
    right = expected_gradients(definition, names, parameters, given, implementation.contract)
    return dict(zip(names, right, strict=True))


def _parameters(definition: Definition, inputs: Inputs) -> dict[str, Any]:
    w, (b, n, m) = inputs.arrays, inputs.arrays["x"].shape
    h, g = head_counts(inputs)
    known = {
        "batch": b, "n": n, "width": m, "heads": h, "groups": g, "d": w["w_q"].shape[1] // h,
        "e": w["w_v"].shape[1] // g, "base": inputs.options.get("rope_base"),
    }  # fmt: skip
    return {str(p): known[str(p)] for p in definition.parameters}
