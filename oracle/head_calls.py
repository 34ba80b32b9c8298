"""Calls with heads that share keys, made from drawn ones: heads in another order, keys of their
own, pairs turned.

Axes are those of the contract: h heads of queries, g of keys and values, d and e channels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.changed_calls import blocks, changed, pair_members, with_head_rows
from attnspec.oracle.grouped_heads import head_counts
from attnspec.oracle.law import Implementation, Inputs

Array = np.ndarray[Any, Any]

EXCHANGED, RIGHT_ANGLE = (1.0, 1.0), (-1.0, 1.0)
"""Signs of the members of a pair, once they are exchanged."""


def group_of(implementation: Implementation, inputs: Inputs) -> Array:
    """For every query head the head of keys that it reads."""
    h, g = head_counts(inputs)
    grouped = implementation.conventions["gqa.head_order"] == "grouped"
    return np.arange(h) // (h // g) if grouped else np.arange(h) % g


def with_heads(inputs: Inputs, order: Array, groups: Array) -> Inputs:
    """The call with its heads, and those of keys, in another order."""
    h, g = head_counts(inputs)
    made = {}
    for name, heads, taken in (("w_q", h, order), ("w_k", g, groups), ("w_v", g, groups)):
        weight = inputs.arrays[name]
        made[name] = np.array(blocks(weight, heads)[:, taken].reshape(weight.shape))
    return changed(inputs, **made, w_o=with_head_rows(inputs.arrays["w_o"], h, order))


def with_own_keys(implementation: Implementation, inputs: Inputs) -> Inputs:
    """The call in which every query head has keys and values of its own: those that it shared."""
    h, g = head_counts(inputs)
    taken = group_of(implementation, inputs)
    made = {}
    for name in ("w_k", "w_v"):
        weight = inputs.arrays[name]
        made[name] = np.array(blocks(weight, g)[:, taken].reshape(len(weight), -1))
    return changed(inputs, {"n_kv_heads": h}, **made)


def with_pairs(
    implementation: Implementation, inputs: Inputs, signs: tuple[float, float]
) -> Inputs:
    """The call with the members of every pair of queries and keys exchanged, and with these signs
    then."""
    made = {}
    for name, heads in zip(("w_q", "w_k"), head_counts(inputs), strict=True):
        weight = inputs.arrays[name]
        by_head = blocks(weight, heads)
        layout = implementation.conventions["rope.layout"]
        first, second = pair_members(layout, by_head.shape[-1])
        found = np.empty_like(by_head)
        found[..., first] = signs[0] * by_head[..., second]
        found[..., second] = signs[1] * by_head[..., first]
        made[name] = found.reshape(weight.shape)
    return changed(inputs, **made)
