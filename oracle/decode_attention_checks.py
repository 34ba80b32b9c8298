"""What laws of attention over a cache compare: other contents of slots, other orders, other rooms.

Calls that are made from a drawn one lie contiguous in memory, as their values need not repeat.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.calls import Alone, agree, close, same, same_where
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.decode_attention_values import (
    CACHES,
    at_slots,
    decode_attention,
    gradients,
    seen,
    valid,
)
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.precision import snapped
from attnspec.oracle.upstream import upstream_of

Array = np.ndarray[Any, Any]


def changed(inputs: Inputs, **arrays: Any) -> Inputs:
    """The call with other arrays, in order in memory."""
    return replace(inputs.with_arrays(**arrays), layout="contiguous")


def taken(inputs: Inputs, entries: Any) -> Inputs:
    """The call with some batch entries, in that order."""
    return changed(inputs, **{name: values[entries] for name, values in inputs.arrays.items()})


def one_entry(inputs: Inputs) -> Alone:
    """One batch entry alone, and where it is in the whole."""
    place = int(generator(inputs, "entry").integers(len(inputs.arrays["lengths"])))
    entry = slice(place, place + 1)
    return taken(inputs, entry), entry


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: other values, other lengths, more slots, and less of them."""
    lengths, slots = inputs.arrays["lengths"], inputs.arrays["k_cache"].shape[2]
    doubled = {n: np.concatenate([-inputs.arrays[n], inputs.arrays[n]], 2) for n in CACHES}
    return [
        changed(inputs, q=-inputs.arrays["q"], v_cache=-inputs.arrays["v_cache"]),
        changed(inputs, lengths=np.where(lengths < slots, slots, 1)),
        changed(inputs, **doubled, lengths=2 * lengths),
        changed(inputs, **{n: -inputs.arrays[n][:, :, :1] for n in CACHES},
                lengths=np.ones_like(lengths)),
    ]  # fmt: skip


def anything_in_unused(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The output beside the exact one where NaN, and where infinities, are in every slot that holds
    no key."""
    free, right = ~valid(inputs), decode_attention(implementation, inputs)
    found = []
    for name, number in (("NaN", np.nan), ("infinity", np.inf), ("minus infinity", -np.inf)):
        call = changed(inputs, **at_slots(inputs, free, number))
        what = f"output with {name} in slots that hold no key"
        found.append(close(what, implementation(call), right, implementation.dtype))
    return found


def hidden_change_nothing(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Other numbers in slots that are not seen, unused or before the window."""
    hidden = ~seen(implementation, inputs)
    call = changed(inputs, **at_slots(inputs, hidden, lambda cache: -cache[:, :, ::-1]))
    promised = "mask-exact" in implementation.guarantees
    first, second = implementation(changed(inputs)), implementation(call)
    return [same("other numbers in slots that are not seen", second, first, implementation.dtype,
                 promised=promised)]  # fmt: skip


def room_changes_nothing(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The caches cut down to the longest entry, and with more room behind."""
    longest = max(int(inputs.arrays["lengths"].max(initial=1)), 1)
    rng = generator(inputs, "room")
    more = int(rng.choice([1, 3, 16, 29]))
    cut = {n: inputs.arrays[n][:, :, :longest] for n in CACHES}
    roomy = {
        n: np.concatenate([inputs.arrays[n], np.ones_like(inputs.arrays[n][:, :, :1]).repeat(
            more, 2)], 2)
        for n in CACHES
    }  # fmt: skip
    whole = implementation(changed(inputs))
    room = 2.0 * decode_attention(implementation, inputs).allowance
    found = []
    for what, arrays in (("caches without room", cut), (f"{more} more slots", roomy)):
        call = changed(inputs, **arrays)
        if implementation.legal(call):
            found.append(agree(what, implementation(call), whole, room, implementation.dtype))
    return found


def slots_in_any_order(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """What is seen, in another order: the same output."""
    rng, shown = generator(inputs, "order"), seen(implementation, inputs)
    order = np.tile(np.arange(shown.shape[1]), (len(shown), 1))
    for row, places in zip(order, shown, strict=True):
        row[places] = rng.permutation(row[places])
    arrays = {n: np.take_along_axis(inputs.arrays[n], order[:, None, :, None], 2) for n in CACHES}
    room = 2.0 * decode_attention(implementation, inputs).allowance
    first, second = implementation(changed(inputs)), implementation(changed(inputs, **arrays))
    return [agree("the seen slots in another order", second, first, room, implementation.dtype)]


def entries_in_any_order(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The entries backwards, with their lengths: the output backwards."""
    call = taken(inputs, slice(None, None, -1))
    room = 2.0 * decode_attention(implementation, inputs).allowance
    first, second = implementation(changed(inputs)), implementation(call)
    return [agree("entries backwards", second[::-1], first, room, implementation.dtype)]


def edges_read_off(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Keys of zero give every seen slot the same weight; a one in one slot's value shows it. The
    slots on both sides of the newest key and of the oldest that is seen."""
    shown = seen(implementation, inputs)
    slots = shown.shape[1]
    last = inputs.arrays["lengths"] - 1
    first = last + 1 - shown.sum(1)
    zeros = {n: np.zeros_like(inputs.arrays[n]) for n in CACHES}
    marks = {"the newest key": last, "the slot after it": last + 1, "the oldest key seen": first,
             "the slot before it": first - 1}  # fmt: skip
    found = []
    for what, places in marks.items():
        ones = (np.arange(slots) == places[:, None])[:, None, :, None]
        value = snapped(np.where(ones, 1.0, zeros["v_cache"]), inputs.dtype)
        call = changed(inputs, k_cache=zeros["k_cache"], v_cache=value)
        right = decode_attention(implementation, call)
        found.append(close(f"weight of {what}", implementation(call), right, implementation.dtype))
    return found


def step_by_step(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A cache that fills up by drawn chunks: after each the newest query gives what it gives over a
    cache of no more slots than there are tokens, as in prefill."""
    rng = generator(inputs, "chunks")
    lengths, slots = inputs.arrays["lengths"], inputs.arrays["k_cache"].shape[2]
    steps = sorted({*rng.integers(1, slots + 1, size=3).tolist(), 1})
    found = []
    for step in steps:
        then = changed(inputs, lengths=np.minimum(lengths, step))
        alone = changed(then, **{n: inputs.arrays[n][:, :, :step] for n in CACHES})
        if not implementation.legal(alone):
            continue
        room = decode_attention(implementation, then).allowance
        room = room + decode_attention(implementation, alone).allowance
        what = f"query after {step} tokens, in the whole cache and in one of {step} slots"
        first, second = implementation(alone), implementation(then)
        found.append(agree(what, second, first, room, implementation.dtype))
    return found


def unused_have_none(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Slots that are not seen have a gradient of zero, to the bit, and what is in them, NaN too,
    reaches no other gradient."""
    upstream, dtype = upstream_of(inputs), implementation.dtype
    right = gradients(implementation, inputs, upstream)
    hidden = np.broadcast_to(
        ~seen(implementation, inputs)[:, None, :, None], inputs.arrays["k_cache"].shape
    )[..., :1]
    actual = implementation.gradients(changed(inputs), upstream)
    found = []
    for name in CACHES:
        sure = hidden & np.isfinite(right[name].allowance)
        zero = np.zeros_like(actual[name])
        what = f"gradient of {name} in slots that are not seen"
        found.append(same_where(sure, what, actual[name], zero, dtype))
    call = changed(inputs, **at_slots(inputs, ~valid(inputs), np.nan))
    spoilt = implementation.gradients(call, upstream)
    found += [
        close(f"gradient of {name} with NaN in slots that hold no key", spoilt[name], right[name],
              dtype)
        for name in right
    ]  # fmt: skip
    return found
