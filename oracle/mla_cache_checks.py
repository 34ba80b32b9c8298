"""The checks of the laws of mla_cache and mla_decode.

Sources: the claims of `spec/mla_orders.py`, `spec/mla_sizes.py` and `spec/mla_rotation.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.calls import agree, close
from attnspec.oracle.changed_calls import changed, pair_members
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.mla_calls import two_runs
from attnspec.oracle.mla_values import (
    WEIGHTS,
    cached,
    decoded_from_cache_of,
    latent_attention,
    sizes,
)
from attnspec.oracle.precision import snapped

Array = np.ndarray[Any, Any]
NAMES = ("c_kv", "k_rope")
"""Both results of mla_cache, in their order."""


def caches_match(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Latents and rotated keys, each element within its allowance."""
    right = cached(implementation, inputs)
    actual = implementation.parts(inputs)
    dtype = implementation.dtype
    return [close(n, a, right[n], dtype) for n, a in zip(NAMES, actual, strict=True)]


def _two_caches(
    what: str,
    implementation: Implementation,
    one: Inputs,
    other: Inputs,
    rows: dict[str, Any],
    other_rows: dict[str, Any] | None = None,
) -> list[Comparison]:
    """In these rows of each result of `other` stands what does in those of `one`."""
    if not implementation.legal(other):
        return []
    first = dict(zip(NAMES, implementation.parts(one), strict=True))
    second = dict(zip(NAMES, implementation.parts(other), strict=True))
    own, others = cached(implementation, one), cached(implementation, other)
    found = []
    for name, at in rows.items():
        there = () if other_rows is None else other_rows[name]
        room = own[name].allowance[at] + others[name].allowance[there]
        found.append(
            agree(f"{name}, {what}", second[name][there], first[name][at], room,
                  implementation.dtype)
        )  # fmt: skip
    return found


def tokens_are_appended(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The cache of the first tokens is the first part of the cache of all."""
    x = inputs.arrays["x"]
    kept = int(generator(inputs, "prefix").integers(1, x.shape[1]))
    rows = (slice(None), slice(kept))
    return _two_caches("first tokens alone", implementation, inputs,
                       changed(inputs, x=x[:, :kept]), dict.fromkeys(NAMES, rows))  # fmt: skip


def latents_without_position(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The latents of tokens in another order are in that order."""
    x = inputs.arrays["x"]
    order = np.roll(np.arange(x.shape[1]), 1)
    return _two_caches("tokens in another order", implementation, inputs,
                       changed(inputs, x=x[:, order]), {"c_kv": (slice(None), order)},
                       {"c_kv": ()})  # fmt: skip


def keys_turn_in_pairs(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """w_kr with every pair turned by a right angle gives keys that are so."""
    p = sizes(inputs)["rotary"]
    first, second = pair_members(implementation.conventions["rope.layout"], p)
    weight = inputs.arrays["w_kr"]
    turned = np.empty_like(weight)
    turned[:, first], turned[:, second] = -weight[:, second], weight[:, first]
    other = changed(inputs, w_kr=turned)
    if not implementation.legal(other):
        return []
    one, two = implementation.parts(inputs)[1], implementation.parts(other)[1]
    back = np.empty_like(two)
    back[..., second], back[..., first] = -two[..., first], two[..., second]
    own, others = (cached(implementation, c)["k_rope"].allowance for c in (inputs, other))
    room = np.empty_like(others)
    room[..., second], room[..., first] = others[..., first], others[..., second]
    return [agree("k_rope of turned pairs", back, one, own + room, implementation.dtype)]


def first_key_at_rest(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The key of the first token does not depend on the base: at position 0 nothing turns."""
    if not implementation.accepts("rope_base"):
        return []
    other = changed(inputs, {"rope_base": 2.0})
    at = (slice(None), slice(0, 1))
    return _two_caches("first token, another base", implementation, inputs, other,
                       {"k_rope": at}, {"k_rope": at})  # fmt: skip


def entries_in_any_order(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """What is cached before the newest token, in another order: keys have their positions."""
    n = inputs.arrays["c_kv"].shape[1]
    order = np.append(np.roll(np.arange(n - 1), 1), n - 1)
    other = changed(inputs, **{name: inputs.arrays[name][:, order] for name in NAMES})
    return two_runs("entries in another order", implementation, inputs, other)


def eq_prefill(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """From the target's own cache of some tokens, its own last row of mla."""
    maker, whole = implementation.sibling("mla_cache"), implementation.sibling("mla")
    if maker is None or whole is None:
        return []
    size, rng = sizes(inputs), generator(inputs, "tokens")
    x = rng.standard_normal((size["batch"], size["length"], size["width"]))
    # of one sign in a channel as often as not: sums that don't cancel can be judged anywhere
    x = np.abs(x) if rng.random() < 0.5 else x
    x = snapped(x, inputs.dtype)
    weights = {name: inputs.arrays[name] for name in WEIGHTS}
    bases = {n: v for n, v in inputs.options.items() if n == "rope_base"}
    heads = {"n_heads": inputs.options["n_heads"]}
    blank = replace(inputs, arrays={"x": x, **weights}, layout="contiguous", drawn=b"")
    caching = replace(blank, component="mla_cache", options=bases)
    prefill = replace(blank, component="mla", options={**heads, **bases})
    able = (maker.accepts("rope_base") and whole.accepts("rope_base")) or not bases
    if not able or not maker.legal(caching) or not whole.legal(prefill):
        return []
    parts = dict(zip(NAMES, maker.parts(caching), strict=True))
    call = changed(inputs, x=x[:, -1:], **parts)
    stored = cached(maker, caching)
    room = decoded_from_cache_of(implementation, call, stored).allowance
    room = room + latent_attention(whole, prefill).allowance[:, -1:]
    one, two = implementation(call), whole(prefill)[:, -1:]
    return [agree("mla_decode beside the last row of mla", one, two, room, implementation.dtype)]
