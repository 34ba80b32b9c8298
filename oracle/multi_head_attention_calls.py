"""Calls of multi-head attention that are made from a drawn one: other tokens, weights, heads."""

from __future__ import annotations

import numpy as np

from attnspec.oracle.changed_calls import blocks, changed, two_runs_of
from attnspec.oracle.grouped_heads import head_counts
from attnspec.oracle.head_calls import group_of
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.multi_head_attention_values import multi_head_attention

two_runs = two_runs_of(multi_head_attention)


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: other tokens, fewer, other weights, another base, another causality."""
    x, w = inputs.arrays["x"], inputs.arrays
    found = [
        changed(inputs, x=np.array(-x[..., ::-1])),
        changed(inputs, w_q=-2.0 * w["w_q"], w_k=-w["w_k"], w_v=np.array(w["w_v"][::-1]),
                w_o=-w["w_o"]),
        changed(inputs, x=x[:, :1]),
    ]  # fmt: skip
    if implementation.accepts("rope_base") and inputs.options.get("rope_base") is not None:
        found.append(changed(inputs, {"rope_base": 7.0}))
    if implementation.accepts("causal"):
        found.append(changed(inputs, {"causal": not inputs.options.get("causal", False)}))
    return found


def one_head(implementation: Implementation, inputs: Inputs, head: int) -> Inputs:
    """The call of one head with its columns of the weights, and its rows of w_o."""
    (h, g), w = head_counts(inputs), inputs.arrays
    group = int(group_of(implementation, inputs)[head])
    rows = len(w["w_o"]) // h
    made = {
        name: np.array(blocks(w[name], heads)[:, at])
        for name, heads, at in (("w_q", h, head), ("w_k", g, group), ("w_v", g, group))
    }
    counts = {"n_heads": 1} | ({"n_kv_heads": 1} if "n_kv_heads" in inputs.options else {})
    return changed(inputs, counts, **made, w_o=np.array(w["w_o"][head * rows : (head + 1) * rows]))


def of_one_head(inputs: Inputs, head: int) -> Inputs:
    """The call in which all other heads have rows of zeros in w_o."""
    h, out = head_counts(inputs)[0], inputs.arrays["w_o"]
    made, rows = np.zeros_like(out), len(out) // h
    made[head * rows : (head + 1) * rows] = out[head * rows : (head + 1) * rows]
    return changed(inputs, w_o=made)
