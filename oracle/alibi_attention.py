"""ALiBi's bias where it is used: attention with it, beside what the key alone would give.

Source: `alibi_bias.linear_in_distance` in `spec/alibi_bias_weights.py`: under causality softmax
does not see where the query is, so slope times key position does the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.alibi_values import bias, positions, slopes
from attnspec.oracle.attention_values import attention
from attnspec.oracle.calls import alike
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.precision import snapped

Array = np.ndarray[Any, Any]

CHANNELS = 4
"""Of the heads that attend here."""
NEEDED = ("bias", "causal")


def attention_by_key(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The target's causal attention with its own bias, beside exact attention with slope times key
    position in its place. Nothing for a target that cannot do both."""
    attends = implementation.sibling("attention")
    if attends is None or not all(attends.accepts(option) for option in NEEDED):
        return []
    t, s = inputs.numbers["t"], inputs.numbers["s"]
    if implementation.conventions["attention.causal_alignment"] != "bottom-right" and t < s:
        return []
    keys = np.arange(s)
    seen = keys <= positions(inputs)[:, None]
    given = implementation(inputs)
    call = _call(inputs, np.where(seen, given, 0.0))
    if not attends.legal(call):
        return []
    right = bias(implementation, inputs, given)
    value, allowance = (np.where(seen, x, 0.0)[None] for x in (right.value, right.allowance))
    room = attention(attends, call, bias=(value, allowance)).allowance
    slope = slopes(implementation, inputs).value[:, None, None]
    by_key = call.with_arrays(bias=np.broadcast_to(slope * keys, given.shape)[None])
    wanted = attention(attends, by_key)
    if inputs.dtype == "float64":
        # then what is expected is itself off by as much
        room = room + wanted.allowance
    return [alike("attention", attends(call), wanted.value, room, attends.dtype)]


def _call(inputs: Inputs, given: Array) -> Inputs:
    """Causal attention of one batch entry with a bias for every head."""
    heads, t, s = given.shape
    rng = generator(inputs, "attention")

    def drawn(n: int) -> Array:
        return snapped(rng.standard_normal((1, heads, n, CHANNELS)), inputs.dtype)

    arrays = {"q": drawn(t), "k": drawn(s), "v": drawn(s), "bias": given[None]}
    return Inputs("attention", inputs.dtype, arrays, {"causal": True}, seed=inputs.seed)
