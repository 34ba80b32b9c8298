"""What attention over a cache returns, its gradients, and which slots are seen: the oracle's side.

Sources: `spec/decode_attention_definition.py`. Conventions of the target decide what a window
counts, the order of heads, and what a row without keys gives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.attention_sight import head_order, reach
from attnspec.oracle.attention_values import of_empty_rows, scale_of, undivided_overflow
from attnspec.oracle.expected import Expected, expected, expected_gradients
from attnspec.oracle.law import Implementation, Inputs
from attnspec.spec import decode_attention_definition
from attnspec.spec.definition import Definition

Array = np.ndarray[Any, Any]

NAMES = ("q", "k_cache", "v_cache")
CACHES = NAMES[1:]


def decode_attention(implementation: Implementation, inputs: Inputs) -> Expected:
    """The output, b h 1 e."""
    call = with_valid_alone(inputs)
    right = expected(
        _definition(implementation, call),
        _parameters(implementation, call),
        dict(call.arrays),
        implementation.contract,
    )
    lost = undivided_overflow(implementation, call.arrays["v_cache"])
    if lost.any():
        right = replace(right, allowance=np.where(lost, np.inf, right.allowance))
    hidden = (call.arrays["lengths"] == 0)[:, None, None, None]
    return of_empty_rows(implementation, right, hidden)


def gradients(
    implementation: Implementation, inputs: Inputs, upstream: Array
) -> dict[str, Expected]:
    """Gradients of sum(upstream * output), each of its argument's shape."""
    call = with_valid_alone(inputs)
    right = expected_gradients(
        _definition(implementation, call),
        NAMES,
        _parameters(implementation, call),
        {**call.arrays, "upstream": upstream},
        implementation.contract,
    )
    found = dict(zip(NAMES, right, strict=True))
    followed = implementation.conventions["attention.empty_row"]
    undefined = followed != "zero" and (call.arrays["lengths"] == 0).any()
    if undefined or undivided_overflow(implementation, call.arrays["v_cache"]).any():
        # what comes out of a row that is not defined goes into every gradient
        return {
            n: replace(r, allowance=np.full_like(r.allowance, np.inf)) for n, r in found.items()
        }
    return found


def valid(inputs: Inputs) -> Array:
    """Whether a slot holds a key of its batch entry: bool, b S."""
    slots = np.arange(inputs.arrays["k_cache"].shape[2])
    found: Array = slots < inputs.arrays["lengths"][:, None]
    return found


def seen(implementation: Implementation, inputs: Inputs) -> Array:
    """Whether the newest token sees a slot: bool, b S."""
    slots = np.arange(inputs.arrays["k_cache"].shape[2])
    oldest = inputs.arrays["lengths"][:, None] - 1 - _left(implementation, inputs)
    found: Array = valid(inputs) & (slots >= oldest)
    return found


def at_slots(inputs: Inputs, slots: Array, filling: Any) -> dict[str, Array]:
    """Both caches with other content at some slots, a bool b S: a number, or a function from a
    cache to another of its shape."""
    where = slots[:, None, :, None]
    made = {}
    for name in CACHES:
        cache = inputs.arrays[name]
        other = filling(cache) if callable(filling) else filling
        made[name] = np.where(where, other, cache)
    return made


def with_valid_alone(inputs: Inputs) -> Inputs:
    """The call with zeros in the slots that hold nothing: whatever is there is not read."""
    return inputs.with_arrays(**at_slots(inputs, ~valid(inputs), 0.0))


def _left(implementation: Implementation, inputs: Inputs) -> int:
    """Keys before the newest that it sees."""
    slots = inputs.arrays["k_cache"].shape[2]
    _, left, _ = reach(implementation.conventions, 1, slots, inputs.options)
    return left


def _definition(implementation: Implementation, inputs: Inputs) -> Definition:
    heads, groups = inputs.arrays["q"].shape[1], inputs.arrays["k_cache"].shape[1]
    return decode_attention_definition.decode_attention(
        window=inputs.options.get("window") is not None,
        head_order=head_order(implementation.conventions, heads, groups),
        scaling=implementation.contract.scaling,
    )


def _parameters(implementation: Implementation, inputs: Inputs) -> dict[str, Any]:
    (b, h, _, d), (_, g, slots, e) = inputs.arrays["q"].shape, inputs.arrays["v_cache"].shape
    found: dict[str, Any] = {"batch": b, "heads": h, "groups": g, "slots": slots, "d": d, "e": e}
    found["scale"] = scale_of(inputs)
    if inputs.options.get("window") is not None:
        found["left"] = _left(implementation, inputs)
    return found
