"""Calls of latent attention that are made from a drawn one: other tokens, heads, bases of latents.

Axes are named as in the contract.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle import changed_calls
from attnspec.oracle.changed_calls import (
    blocks,
    changed,
    held,
    pair_members,
    two_runs_of,
    with_head_rows,
)
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.mla_values import latent_attention, sizes

Array = np.ndarray[Any, Any]

PACKED = ("w_uq", "w_qr", "w_uk", "w_uv")
"""Weights with heads side by side in their columns; those of w_o are in its rows."""

two_runs = two_runs_of(latent_attention)


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: other tokens, fewer, other weights, another base, without causality."""
    x, w = inputs.arrays["x"], inputs.arrays
    back = np.array(-x[..., ::-1])
    found = [
        changed(inputs, x=back),
        changed(inputs, w_uk=-w["w_uk"], w_uv=np.array(w["w_uv"][::-1]), w_dkv=-2.0 * w["w_dkv"]),
    ]
    if "c_kv" in w:
        found.append(changed(inputs, c_kv=w["c_kv"][:, -1:], k_rope=-w["k_rope"][:, -1:]))
    else:
        found.append(changed(inputs, x=x[:, :1]))
    if implementation.accepts("rope_base"):
        found.append(changed(inputs, {"rope_base": 7.0}, x=back))
    if implementation.accepts("causal"):
        found.append(changed(inputs, {"causal": not inputs.options.get("causal", True)}))
    return found


def with_heads(inputs: Inputs, order: Array) -> Inputs:
    """The call with its heads in another order."""
    h = int(inputs.options["n_heads"])
    arrays = {}
    for name in PACKED:
        weight = inputs.arrays[name]
        arrays[name] = np.array(blocks(weight, h)[:, order].reshape(weight.shape))
    return changed(inputs, **arrays, w_o=with_head_rows(inputs.arrays["w_o"], h, order))


def with_pairs(
    implementation: Implementation, inputs: Inputs, signs: tuple[float, float]
) -> Inputs:
    """The call with the members of every pair of the position stream exchanged, in queries and in
    the key, and with these signs then."""
    p, h = sizes(inputs)["rotary"], int(inputs.options["n_heads"])
    first, second = pair_members(implementation.conventions["rope.layout"], p)

    def turned(weight: Array) -> Array:
        found = np.empty_like(weight)
        found[..., first] = signs[0] * weight[..., second]
        found[..., second] = signs[1] * weight[..., first]
        return found

    of_queries = inputs.arrays["w_qr"]
    turned_queries = turned(blocks(of_queries, h)).reshape(of_queries.shape)
    keys = {n: turned(inputs.arrays[n]) for n in ("w_kr", "k_rope") if n in inputs.arrays}
    return changed(inputs, w_qr=turned_queries, **keys)


def in_other_bases(inputs: Inputs) -> Inputs | None:
    """The call with both latents in another basis: their channels in another order, each times a
    power of two that the weights from it are divided by. None where the dtype doesn't hold it."""
    rng, w = generator(inputs, "bases"), inputs.arrays
    made: dict[str, Array] = {}
    for down, ups in (("w_dq", ("w_uq", "w_qr")), ("w_dkv", ("w_uk", "w_uv"))):
        width = w[down].shape[1]
        order, factor = rng.permutation(width), np.ldexp(1.0, rng.integers(-3, 4, width))
        made[down] = (w[down] * factor)[:, order]
        for up in ups:
            made[up] = (w[up] / factor[:, None])[order]
    if "c_kv" in w:
        made["c_kv"] = (w["c_kv"] * factor)[..., order]
    return changed(inputs, **made) if held(inputs, made) else None


def one_entry(inputs: Inputs) -> tuple[Inputs, Any]:
    """A batch entry alone, with its cache, and where it is."""
    return changed_calls.one_entry(inputs, ("x", "c_kv", "k_rope"))
