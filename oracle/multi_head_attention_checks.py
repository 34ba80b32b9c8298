"""The checks of multi-head attention's own laws: from an implementation and inputs to two sides and
an allowance.

Sources: the claims of `spec/multi_head_attention*.py` and `spec/gqa.py`.
"""

from __future__ import annotations

import numpy as np

from attnspec.oracle.calls import agree
from attnspec.oracle.changed_calls import changed, zeroed
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.grouped_heads import head_counts
from attnspec.oracle.head_calls import (
    EXCHANGED,
    RIGHT_ANGLE,
    group_of,
    with_heads,
    with_own_keys,
    with_pairs,
)
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.multi_head_attention_calls import of_one_head, one_head, two_runs
from attnspec.oracle.multi_head_attention_values import multi_head_attention
from attnspec.oracle.rounding import formed


def sum_of_heads(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The output is the sum of what every head gives alone, with its columns and its rows."""
    parts = [
        one_head(implementation, inputs, head) for head in range(head_counts(inputs)[0])
    ]  # fmt: skip
    if not all(map(implementation.legal, parts)):
        return []
    outputs = np.stack([implementation(part) for part in parts])
    rooms = np.stack([multi_head_attention(implementation, part).allowance for part in parts])
    room = multi_head_attention(implementation, inputs).allowance + rooms.sum(0)
    room = room + formed((np.abs(outputs) + rooms).sum(0), len(parts))
    actual = implementation(inputs)
    return [agree("sum over heads alone", actual, outputs.sum(0), room, implementation.dtype)]


def head_alone(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """With zeros in the other heads' rows of w_o, one head is what is left."""
    head = int(generator(inputs, "head").integers(head_counts(inputs)[0]))
    return two_runs("one head of w_o, beside the head alone", implementation,
                    of_one_head(inputs, head), one_head(implementation, inputs, head))  # fmt: skip


def heads_in_any_order(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Heads in another order, with the keys that they share and the rows of w_o."""
    h, g = head_counts(inputs)
    rng, taken = generator(inputs, "heads"), group_of(implementation, inputs)
    groups = np.roll(np.arange(g), 1)
    order = np.empty(h, dtype=np.int64)
    for k in range(g):
        order[taken == k] = rng.permutation(np.flatnonzero(taken == groups[k]))
    return two_runs("heads in another order", implementation, inputs,
                    with_heads(inputs, order, groups))  # fmt: skip


def keys_repeated(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Shared keys and values, against as many copies of them as there are query heads."""
    return two_runs("every head with its own copy of keys and values", implementation, inputs,
                    with_own_keys(implementation, inputs))  # fmt: skip


def quarter_turn(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """All pairs of queries and keys turned by a right angle."""
    return two_runs("pairs turned by a right angle", implementation, inputs,
                    with_pairs(implementation, inputs, RIGHT_ANGLE))  # fmt: skip


def mirrored(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The tokens backwards, with the members of every pair exchanged, which turns them the other
    way: all displacements change their sign, and the output comes backwards."""
    other = with_pairs(implementation, inputs, EXCHANGED)
    other = changed(other, x=np.array(inputs.arrays["x"][:, ::-1]))
    back = (slice(None), slice(None, None, -1))
    return two_runs("tokens backwards", implementation, inputs, other, other_rows=back)


def tokens_in_any_order(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Without rotation or causality, tokens in another order come back in it."""
    order = np.roll(np.arange(inputs.arrays["x"].shape[1])[::-1], 1)
    other = changed(inputs, x=inputs.arrays["x"][:, order])
    return two_runs("tokens in another order", implementation, inputs, other,
                    rows=(slice(None), order))  # fmt: skip


def unasked(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """With queries of zeros rotation changes nothing: values have no position."""
    one = zeroed(inputs, "w_q")
    return two_runs("w_q = 0, with rotation and without", implementation, one,
                    changed(one, {"rope_base": None}))  # fmt: skip


def single_token(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """One token alone attends to itself, whatever its query and key."""
    w = inputs.arrays
    other = changed(inputs, w_q=np.array(w["w_q"][::-1, ::-1]), w_k=np.zeros_like(w["w_k"]))
    return two_runs("one token, other queries and keys", implementation, inputs, other)
