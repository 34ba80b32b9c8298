"""Calls of multi-head attention that are made from a drawn one: other tokens, weights, heads."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.calls import agree
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.mla_calls import pair_members
from attnspec.oracle.multi_head_attention_values import head_counts, multi_head_attention
from attnspec.oracle.transformer_layer_calls import blocks, changed, group_of

Array = np.ndarray[Any, Any]


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


def with_exchanged_pairs(implementation: Implementation, inputs: Inputs) -> Inputs:
    """The call with the members of every pair of queries and keys exchanged."""
    made = {}
    for name, heads in zip(("w_q", "w_k"), head_counts(inputs), strict=True):
        by_head = blocks(inputs.arrays[name], heads)
        layout = implementation.conventions["rope.layout"]
        first, second = pair_members(layout, by_head.shape[-1])
        found = np.empty_like(by_head)
        found[..., first], found[..., second] = by_head[..., second], by_head[..., first]
        made[name] = found.reshape(inputs.arrays[name].shape)
    return changed(inputs, **made)


def two_runs(
    what: str,
    implementation: Implementation,
    one: Inputs,
    other: Inputs,
    *,
    rows: Any = (),
    other_rows: Any = (),
) -> list[Comparison]:
    """`other` must give in `other_rows` what `one` gives in `rows`, within both runs' allowances.
    Nothing is said about another call that the target's limits exclude."""
    if not (implementation.legal(one) and implementation.legal(other)):
        return []
    first, second = implementation(one)[rows], implementation(other)[other_rows]
    room = multi_head_attention(implementation, one).allowance[rows]
    room = room + multi_head_attention(implementation, other).allowance[other_rows]
    return [agree(what, second, first, room, implementation.dtype)]
