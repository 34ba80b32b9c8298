"""Calls of latent attention that are made from a drawn one: other tokens, heads, bases of latents.

Axes are named as in the contract. A call made here lies contiguous in memory, as its values need
not repeat where those of the drawn one do.
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
from attnspec.oracle.mla_values import latent_attention, sizes
from attnspec.oracle.precision import snapped

Array = np.ndarray[Any, Any]

PACKED = ("w_uq", "w_qr", "w_uk", "w_uv")
"""Weights with heads side by side in their columns; those of w_o are in its rows."""


def changed(inputs: Inputs, options: Mapping[str, Any] | None = None, /, **arrays: Array) -> Inputs:
    """The same call with other options and arrays."""
    return replace(
        inputs,
        options={**inputs.options, **(options or {})},
        arrays={**inputs.arrays, **arrays},
        layout="contiguous",
        drawn=b"",
    )


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


def one_entry(inputs: Inputs) -> tuple[Inputs, Any]:
    """A batch entry alone, and where it is."""
    x = inputs.arrays["x"]
    at = int(generator(inputs, "entry").integers(max(len(x), 1)))
    parts = {n: inputs.arrays[n][at : at + 1] for n in ("x", "c_kv", "k_rope") if n in
             inputs.arrays}  # fmt: skip
    return changed(inputs, **parts), slice(at, at + 1)


def blocks(weight: Array, heads: int) -> Array:
    """`r (h d)` as `r h d`."""
    return weight.reshape(weight.shape[0], heads, -1)


def with_heads(inputs: Inputs, order: Array) -> Inputs:
    """The call with its heads in another order."""
    h = int(inputs.options["n_heads"])
    arrays = {}
    for name in PACKED:
        weight = inputs.arrays[name]
        arrays[name] = np.array(blocks(weight, h)[:, order].reshape(weight.shape))
    out = inputs.arrays["w_o"]
    arrays["w_o"] = out.reshape(h, -1, out.shape[1])[order].reshape(out.shape)
    return changed(inputs, **arrays)


def pair_members(layout: str, width: int) -> tuple[Array, Array]:
    """The first and the second channels of all pairs of a position stream."""
    channels = np.arange(width)
    if layout == "half":
        return channels[: width // 2], channels[width // 2 :]
    return channels[0::2], channels[1::2]


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
    if any((snapped(values, inputs.dtype) != values).any() for values in made.values()):
        return None
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
    if not implementation.legal(other):
        return []
    first, second = implementation(one)[rows], implementation(other)[other_rows]
    room = latent_attention(implementation, one).allowance[rows]
    room = room + latent_attention(implementation, other).allowance[other_rows]
    return [agree(what, second, first, room, implementation.dtype)]
