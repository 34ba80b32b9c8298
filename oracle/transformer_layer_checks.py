"""The checks of a Llama-style layer's own laws: from an implementation and inputs to two sides and
an allowance.

Sources: the claims of `spec/transformer_layer.py`, `spec/rope_reach.py` and `spec/gqa.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.oracle.calls import agree, same_where
from attnspec.oracle.changed_calls import changed, held, zeroed
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.grouped_heads import head_counts
from attnspec.oracle.head_calls import RIGHT_ANGLE, group_of, with_heads, with_own_keys, with_pairs
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.rounding import formed
from attnspec.oracle.transformer_layer_calls import two_runs, ungained
from attnspec.oracle.transformer_layer_values import transformer_layer, weight_of_gain

Array = np.ndarray[Any, Any]


def _equal(
    what: str, implementation: Implementation, one: Inputs, other: Inputs
) -> list[Comparison]:
    """Two calls that must agree to the bit where nothing can overflow on the way."""
    first, second = implementation(one), implementation(other)
    sure = np.isfinite(transformer_layer(implementation, one).allowance)
    sure &= np.isfinite(transformer_layer(implementation, other).allowance)
    return [same_where(sure, what, first, second, implementation.dtype)]


def both_off(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """With w_o and w_down of zeros x comes back."""
    call = zeroed(inputs, "w_o", "w_down")
    actual, x = implementation(call), inputs.arrays["x"]
    sure = np.isfinite(transformer_layer(implementation, call).allowance)
    return [same_where(sure, "w_o = 0, w_down = 0", actual, x, implementation.dtype)]


def network_off(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """w_down, w_up, w_gate or the gain of the second norm of zeros: the network adds nothing."""
    call, found = zeroed(inputs, "w_down"), []
    for name in ("w_up", "w_gate"):
        found += _equal(f"{name} = 0 beside w_down = 0", implementation, zeroed(inputs, name), call)
    other = ungained(implementation, inputs, "norm_feed_forward")
    return found + _equal("second gain 0 beside w_down = 0", implementation, other, call)


def attention_off(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """w_o, w_v or the gain of the first norm of zeros: attention adds nothing."""
    call = zeroed(inputs, "w_o")
    found = _equal("w_v = 0 beside w_o = 0", implementation, zeroed(inputs, "w_v"), call)
    other = ungained(implementation, inputs, "norm_attention")
    return found + _equal("first gain 0 beside w_o = 0", implementation, other, call)


def linear_in_up(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Columns of w_up times powers of two, and the rows of w_down divided by them."""
    rng, w = generator(inputs, "hidden"), inputs.arrays
    factor = np.ldexp(1.0, rng.integers(-2, 3, w["w_up"].shape[1]))
    made = {"w_up": w["w_up"] * factor, "w_down": w["w_down"] / factor[:, None]}
    if not held(inputs, made):
        return []
    return two_runs("w_up by powers of two, w_down over them", implementation, inputs,
                    changed(inputs, **made))  # fmt: skip


def hidden_in_any_order(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Hidden channels in another order, with the columns and rows of all three matrices."""
    w = inputs.arrays
    order = np.arange(w["w_up"].shape[1])[::-1]
    other = changed(inputs, w_gate=w["w_gate"][:, order], w_up=w["w_up"][:, order],
                    w_down=w["w_down"][order])  # fmt: skip
    return two_runs("hidden channels in another order", implementation, inputs, other)


def channels_in_any_order(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Channels of the stream in another order, with those of all weights: they come back in it."""
    w = inputs.arrays
    order = np.arange(w["x"].shape[2])[::-1]
    made = {n: w[n][order] for n in ("w_q", "w_k", "w_v", "w_gate", "w_up")}
    made |= {n: w[n][..., order] for n in ("x", "w_o", "w_down")}
    made |= {n: w[n][order] for n in ("norm_attention", "norm_feed_forward")}
    return two_runs("channels of the stream in another order", implementation, inputs,
                    changed(inputs, **made), rows=(..., order))  # fmt: skip


def gains_in_matrices(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Gains of powers of two, against gains of 1 and rows of the matrices times them."""
    w, made, plain = inputs.arrays, {}, {}
    of_norms = {"norm_attention": ("w_q", "w_k", "w_v"), "norm_feed_forward": ("w_gate", "w_up")}
    rng = generator(inputs, "gains")
    for norm, matrices in of_norms.items():
        sizes = np.ldexp(1.0, rng.integers(-2, 2, w[norm].shape))
        gain = sizes * np.where(rng.random(w[norm].shape) < 0.5, -1.0, 1.0)
        made[norm] = weight_of_gain(implementation, gain)
        plain[norm] = weight_of_gain(implementation, np.ones_like(gain))
        plain |= {name: w[name] * gain[:, None] for name in matrices}
    if not (held(inputs, made) and held(inputs, plain)):
        return []
    return two_runs("gains beside rows of matrices times them", implementation,
                    changed(inputs, **made), changed(inputs, **plain))  # fmt: skip


def heads_in_any_order(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Heads in another order, with the keys that they share and the rows of w_o."""
    h, g = head_counts(inputs)
    rng, taken = generator(inputs, "heads"), group_of(implementation, inputs)
    groups = np.roll(np.arange(g), 1)
    readers = [rng.permutation(np.flatnonzero(taken == k)) for k in groups]
    order = np.empty(h, dtype=np.int64)
    for k in range(g):
        order[taken == k] = readers[k]
    if g == h:
        order = groups
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


def earlier_in_any_order(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Without rotation the last token's row does not depend on the order of the earlier ones."""
    n = inputs.arrays["x"].shape[1]
    order = np.append(np.roll(np.arange(n - 1), 1), n - 1)
    return _last("earlier tokens in another order", implementation, inputs, order)


def unasked_in_any_order(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """With queries of zeros, rotated or not, the last row does not depend on that order."""
    n = inputs.arrays["x"].shape[1]
    order = np.append(np.arange(n - 1)[::-1], n - 1)
    return _last("w_q = 0, earlier tokens backwards", implementation, zeroed(inputs, "w_q"), order)


def _last(
    what: str, implementation: Implementation, inputs: Inputs, order: Array
) -> list[Comparison]:
    other = changed(inputs, x=inputs.arrays["x"][:, order])
    last = (slice(None), slice(-1, None))
    return two_runs(what, implementation, inputs, other, rows=last, other_rows=last)


def shifted(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Tokens of zeros in front move all positions. They add keys of score 0 and no value, so that
    what attention adds to a row keeps its direction: where the network is off, products of the
    additions' channels, exchanged between the two calls, are the same. One head is left: others
    have other sums of weights."""
    x = inputs.arrays["x"]
    front = int(generator(inputs, "shift").integers(1, 6))
    one = _of_first_head(zeroed(inputs, "w_down"))
    padded = np.concatenate([np.zeros((len(x), front, x.shape[2])), x], axis=1)
    other = changed(one, x=padded)
    without_eps = implementation.conventions["rms_norm.eps"] == "none"
    if x.shape[2] < 2 or without_eps or not implementation.legal(other):
        return []
    first = implementation(one) - x
    second = implementation(other)[:, front:] - x
    room = transformer_layer(implementation, one).allowance
    more = transformer_layer(implementation, other).allowance[:, front:]
    turn = np.roll(np.arange(x.shape[2]), 1)
    left, right = first * second[..., turn], first[..., turn] * second
    a, b = np.abs(first) + room, np.abs(second) + more
    lost = a * more[..., turn] + room * b[..., turn] + a[..., turn] * more + room[..., turn] * b
    lost = lost + formed(np.abs(left) + np.abs(right) + a + b, 4)
    return [agree("exchanged products of what attention adds, tokens moved", left, right, lost,
                  "float64")]  # fmt: skip


def _of_first_head(inputs: Inputs) -> Inputs:
    """The call in which the first head alone adds to the stream, to every channel and much."""
    out = np.zeros_like(inputs.arrays["w_o"])
    first = out[: len(out) // head_counts(inputs)[0]]
    first[:] = 4.0 * generator(inputs, "output").choice([-1.0, 1.0], first.shape)
    return changed(inputs, w_o=out)
