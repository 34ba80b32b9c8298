"""The checks of attention's laws about what belongs together: heads, batch entries, rows and keys.

Sources: the definition in `spec/attention_definition.py` treats batch entries, heads and rows
alike and sums over keys in any order; the contract's 'Guarantees' and `gqa.head_order`; merging
partial results by their log-sum-exp: Milakov and Gimelshein, *Online normalizer calculation for
softmax* (2018).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.attention_calls import (
    changed,
    explicit,
    key_heads,
    masked,
    promised_rows,
    sizes,
    taken,
    two_runs,
)
from attnspec.oracle.attention_values import attention, log_sum_exp, visible
from attnspec.oracle.attention_visibility import other_content
from attnspec.oracle.calls import alike, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.rounding import formed

Array = np.ndarray[Any, Any]


def gqa_eq_repeated_heads(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Query heads that share a key head are what they are with a copy of it each."""
    of = key_heads(implementation, inputs)
    if inputs.arrays["k"].shape[1] == len(of):
        return []
    repeated = taken(inputs, g=of)
    return two_runs("output with repeated key heads", implementation, inputs, repeated)


def permutation_of_heads(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Query heads in another order, with their key heads: the output's heads in that order."""
    h = sizes(inputs)[1]
    of = key_heads(implementation, inputs)
    rng = generator(inputs, "heads")
    key_order = rng.permutation(inputs.arrays["k"].shape[1])
    order = np.empty(h, dtype=np.int64)
    for place, source in enumerate(key_order):
        # the query heads that read one key head take the places of those that read another
        order[of == place] = rng.permutation(np.flatnonzero(of == source))
    other = taken(inputs, h=order, g=key_order)
    what = "output of exchanged heads"
    return two_runs(what, implementation, inputs, other, np.s_[:, order])


def permutation_of_batch(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Batch entries in another order."""
    order = generator(inputs, "batch").permutation(sizes(inputs)[0])
    other = taken(inputs, b=order)
    return two_runs("output of exchanged batch entries", implementation, inputs, other, order)


def permutation_of_queries(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Queries in another order, each with its row of mask and bias."""
    call = explicit(implementation, inputs)
    if call is None:
        return []
    order = generator(inputs, "queries").permutation(sizes(inputs)[2])
    what, other = "output of exchanged queries", taken(call, t=order)
    return two_runs(what, implementation, inputs, other, np.s_[:, :, order])


def permutation_of_keys(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Keys in another order, each with its value and its column of mask and bias."""
    call = explicit(implementation, inputs)
    if call is None:
        return []
    order = generator(inputs, "keys").permutation(sizes(inputs)[3])
    return two_runs("output of exchanged keys", implementation, inputs, taken(call, s=order))


def _chosen(implementation: Implementation, inputs: Inputs, *, queries: bool) -> tuple[str, int]:
    """The axis and the place of one batch entry, one key head or, if wanted, one query, drawn
    among the axes that have several."""
    b, _, t, _ = sizes(inputs)
    lengths = {"b": b, "g": inputs.arrays["k"].shape[1], "t": t if queries else 1}
    several = [axis for axis, size in lengths.items() if size > 1] or ["b"]
    rng = generator(inputs, "one among others")
    axis = several[rng.integers(len(several))]
    return axis, int(rng.integers(lengths[axis]))


def row_alone(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """One batch entry, group of heads or query by itself gives what it gives among the others. A
    query is alone only where its position is not needed, or can be told by a mask."""
    call = explicit(implementation, inputs)
    axis, at = _chosen(implementation, inputs, queries=call is not None)
    rows: Any
    if axis == "b":
        part, rows = taken(inputs, b=[at]), np.s_[at : at + 1]
    elif axis == "t":
        part, rows = taken(call or inputs, t=[at]), np.s_[:, :, at : at + 1]
    else:
        heads = np.flatnonzero(key_heads(implementation, inputs) == at)
        part, rows = taken(inputs, h=heads, g=[at]), np.s_[:, heads]
    result = two_runs("row alone", implementation, inputs, part, rows)
    exact = "batch-invariant" in implementation.guarantees
    return result + [
        same(f"{found.what}, to the bit", found.actual, found.expected, found.dtype, promised=exact)
        for found in result
    ]


def others_change_nothing(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Other finite content in the other batch entries, heads or queries, to the bit."""
    axis, at = _chosen(implementation, inputs, queries=True)
    b, h, t, _ = sizes(inputs)
    of = key_heads(implementation, inputs)
    own_keys = np.zeros(inputs.arrays["k"].shape[:3], dtype=bool)
    own = np.zeros((b, h, t), dtype=bool)
    if axis == "t":
        own[:, :, at] = own_keys[:] = True
    elif axis == "b":
        own[at] = own_keys[at] = True
    else:
        own[:, of == at] = own_keys[:, at] = True
    arrays = {
        name: np.where(kept[..., None], inputs.arrays[name], other_content(inputs, name))
        for name, kept in (("q", own), ("k", own_keys), ("v", own_keys))
    }
    rows = own & promised_rows(implementation, inputs)
    promised = "mask-exact" in implementation.guarantees
    first = implementation.parts(changed(inputs))
    second = implementation.parts(changed(inputs, **arrays))
    names = ("rows among others of other content", "their lse")
    return [
        same(what, among[rows], alone[rows], implementation.dtype, promised=promised)
        for what, alone, among in zip(names, first, second, strict=False)
    ]


def _parts(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """The call over two or three parts of the keys: cut out where positions do not matter and
    the limits allow it, or else hidden by masks. A part may be empty then."""
    s = sizes(inputs)[3]
    rng = generator(inputs, "parts")
    cuts = np.sort(rng.integers(0, s + 1, size=rng.integers(1, 3)))
    number = np.searchsorted(cuts, np.arange(s), side="right")
    call = explicit(implementation, inputs)
    if call is not None and rng.integers(2):
        sliced = [taken(call, s=np.flatnonzero(number == p)) for p in np.unique(number)]
        if all(map(implementation.legal, sliced)):
            return sliced
    if not implementation.accepts("mask"):
        return []
    return [masked(changed(inputs), number == p) for p in range(len(cuts) + 1)]


def split_and_merge(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Parts of the keys, merged by their log-sum-exps, are the whole: output and log-sum-exp."""
    parts = _parts(implementation, inputs)
    if not parts:
        return []
    outputs, logs, room, spread = [], [], [], []
    zero = implementation.conventions["attention.empty_row"] == "zero"
    for part in parts:
        output, lse = implementation.parts(part)
        some = np.asarray(visible(implementation, part).any(axis=-1))
        # what an empty part holds is only to be relied on where it is zero
        used = np.logical_or(some, zero)
        outputs.append(np.where(used[..., None], output, 0.0))
        logs.append(np.where(used, lse, -np.inf))
        room.append(np.where(some[..., None], attention(implementation, part).allowance, 0.0))
        spread.append(np.where(some, log_sum_exp(implementation, part).allowance, 0.0))
    found, error, lse, moved = merged(
        np.stack(outputs), np.stack(room), np.stack(logs), np.stack(spread)
    )
    output, whole = implementation.parts(inputs)
    rows = promised_rows(implementation, inputs) & visible(implementation, inputs).any(axis=-1)
    error = error + attention(implementation, inputs).allowance
    moved = moved + log_sum_exp(implementation, inputs).allowance
    wide = implementation.contract.accumulate
    what = f"{len(parts)} parts merged"
    return [
        alike(what, found[rows], output[rows], error[rows], implementation.dtype),
        alike(f"{what}, lse", lse[rows], whole[rows], moved[rows], wide),
    ]


def merged(o: Array, e: Array, x: Array, d: Array) -> tuple[Array, Array, Array, Array]:
    """Outputs o and log-sum-exps x of the parts, merged along the first axis, each with its
    error: e that of o, d that of x.

    A part's weight is exp(x_p) over their sum, so that it is off by a factor between e^-(d_p + D)
    and e^(d_p + D) with D the largest d; the merged log-sum-exp is off by D.
    """
    with np.errstate(all="ignore"):
        largest = x.max(axis=0)
        shift = np.where(np.isfinite(largest), largest, 0.0)
        numerators = np.exp(x - shift)
        total = numerators.sum(axis=0)
        weights = (numerators / total)[..., None]
        most = d.max(axis=0)
        growth = (d + most)[..., None]
        terms = weights * o
        error = (weights * (np.abs(o) * np.expm1(growth) + e * np.exp(growth))).sum(axis=0)
        # a weight is formed here from a logarithm, so that its roundings grow with the exponent
        deep = formed(np.abs(x) + np.abs(shift) + 4.0, 8)[..., None]
        error += np.where(weights > 0.0, np.abs(terms) * np.expm1(deep), 0.0).sum(axis=0)
        error += formed(np.abs(terms).sum(axis=0), len(o) + 2)
        lse = shift + np.log(total)
        moved = most + formed(np.abs(shift) + np.abs(np.log(total)) + 1.0, len(o) + 4)
    return terms.sum(axis=0), error, lse, moved
