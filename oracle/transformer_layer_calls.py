"""Calls of a Llama-style layer that are made from a drawn one: without gains, and any other."""

from __future__ import annotations

import numpy as np

from attnspec.oracle.changed_calls import changed, two_runs_of
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.transformer_layer_values import transformer_layer, weight_of_gain

two_runs = two_runs_of(transformer_layer)


def ungained(implementation: Implementation, inputs: Inputs, *names: str) -> Inputs:
    """The call with some norms whose gains are zero."""
    made = {n: weight_of_gain(implementation, np.zeros_like(inputs.arrays[n])) for n in names}
    return changed(inputs, **made)


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: other tokens, fewer, other weights, another base, another eps."""
    x, w = inputs.arrays["x"], inputs.arrays
    found = [
        changed(inputs, x=np.array(-x[..., ::-1])),
        changed(inputs, w_k=-w["w_k"], w_up=np.array(w["w_up"][::-1]), w_o=-w["w_o"],
                norm_attention=np.array(w["norm_attention"][::-1]), w_q=-2.0 * w["w_q"],
                w_down=-w["w_down"]),
        changed(inputs, x=x[:, :1]),
    ]  # fmt: skip
    if implementation.accepts("rope_base"):
        found.append(changed(inputs, {"rope_base": 7.0}))
    if implementation.accepts("eps"):
        found.append(changed(inputs, {"eps": 0.5}))
    return found
