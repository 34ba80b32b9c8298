"""Calls of a Llama-style layer that are made from a drawn one: other tokens, weights, heads, pairs.

A call made here lies contiguous in memory, as its values need not repeat where those of the drawn
one do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.calls import agree
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.mla_calls import pair_members
from attnspec.oracle.precision import snapped
from attnspec.oracle.transformer_layer_values import (
    head_counts,
    transformer_layer,
    weight_of_gain,
)

Array = np.ndarray[Any, Any]


def changed(inputs: Inputs, options: Mapping[str, Any] | None = None, /, **arrays: Array) -> Inputs:
    """The same call with other options and arrays."""
    return replace(
        inputs,
        options={**inputs.options, **(options or {})},
        arrays={**inputs.arrays, **arrays},
        layout="contiguous",
        drawn=b"",
    )


def zeroed(inputs: Inputs, *names: str) -> Inputs:
    """The call with some weights of zeros."""
    return changed(inputs, **{name: np.zeros_like(inputs.arrays[name]) for name in names})


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


def one_entry(inputs: Inputs) -> tuple[Inputs, Any]:
    """A batch entry alone, and where it is."""
    x = inputs.arrays["x"]
    at = int(generator(inputs, "entry").integers(max(len(x), 1)))
    return changed(inputs, x=x[at : at + 1]), slice(at, at + 1)


def blocks(weight: Array, heads: int) -> Array:
    """`m (h d)` as `m h d`."""
    return weight.reshape(weight.shape[0], heads, weight.shape[1] // heads)


def with_head_rows(out: Array, heads: int, order: Array) -> Array:
    """w_o with the rows of its heads in another order."""
    rows = out.reshape(heads, out.shape[0] // heads, out.shape[1])
    return np.array(rows[order].reshape(out.shape))


def with_heads(inputs: Inputs, order: Array, groups: Array) -> Inputs:
    """The call with its heads, and those of keys, in another order."""
    h, g = head_counts(inputs)
    made = {}
    for name, heads, taken in (("w_q", h, order), ("w_k", g, groups), ("w_v", g, groups)):
        weight = inputs.arrays[name]
        made[name] = np.array(blocks(weight, heads)[:, taken].reshape(weight.shape))
    return changed(inputs, **made, w_o=with_head_rows(inputs.arrays["w_o"], h, order))


def group_of(implementation: Implementation, inputs: Inputs) -> Array:
    """For every query head the head of keys that it reads."""
    h, g = head_counts(inputs)
    grouped = implementation.conventions["gqa.head_order"] == "grouped"
    return np.arange(h) // (h // g) if grouped else np.arange(h) % g


def with_own_keys(implementation: Implementation, inputs: Inputs) -> Inputs:
    """The call in which every query head has keys and values of its own: those that it shared."""
    h, g = head_counts(inputs)
    taken = group_of(implementation, inputs)
    made = {}
    for name in ("w_k", "w_v"):
        weight = inputs.arrays[name]
        made[name] = np.array(blocks(weight, g)[:, taken].reshape(len(weight), -1))
    return changed(inputs, {"n_kv_heads": h}, **made)


def with_pairs(implementation: Implementation, inputs: Inputs) -> Inputs:
    """The call with the pairs of queries and keys turned by a right angle."""
    made = {}
    for name, heads in zip(("w_q", "w_k"), head_counts(inputs), strict=True):
        weight = inputs.arrays[name]
        by_head = blocks(weight, heads)
        layout = implementation.conventions["rope.layout"]
        first, second = pair_members(layout, by_head.shape[-1])
        found = np.empty_like(by_head)
        found[..., first], found[..., second] = -by_head[..., second], by_head[..., first]
        made[name] = found.reshape(weight.shape)
    return changed(inputs, **made)


def held(inputs: Inputs, arrays: Mapping[str, Array]) -> bool:
    """Whether the dtype of a call holds these numbers."""
    return all((snapped(values, inputs.dtype) == values).all() for values in arrays.values())


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
    room = transformer_layer(implementation, one).allowance[rows]
    room = room + transformer_layer(implementation, other).allowance[other_rows]
    return [agree(what, second, first, room, implementation.dtype)]
