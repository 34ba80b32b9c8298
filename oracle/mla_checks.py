"""The checks of latent attention's own laws: from an implementation and inputs to two sides and an
allowance.

Sources: the claims of `spec/mla.py`, `spec/mla_orders.py` and `spec/mla_streams.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.calls import agree, alike
from attnspec.oracle.changed_calls import blocks, changed
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.mla_calls import in_other_bases, two_runs, with_heads, with_pairs
from attnspec.oracle.mla_values import latent_attention, sizes
from attnspec.oracle.precision import snapped
from attnspec.oracle.rounding import formed
from attnspec.spec.mla_definition import SCALE

Array = np.ndarray[Any, Any]

LARGEST_LOGIT = 1.0
"""Of the probe that reads the scale: no weight is close to 0 or 1."""


def absorbed_eq_built(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """`mla_absorbed` gives what `mla` of the same target gives, within both allowances."""
    other = implementation.sibling("mla")
    call = replace(inputs, component="mla", drawn=b"")
    known = other is not None and all(other.accepts(name) for name in inputs.options)
    if other is None or not known or not other.legal(call):
        return []
    room = latent_attention(implementation, inputs).allowance
    room = room + latent_attention(other, call).allowance
    one, two = implementation(inputs), other(call)
    return [agree("mla_absorbed beside mla", one, two, room, implementation.dtype)]


def bases_are_free(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The latents in another basis give the same output."""
    other = in_other_bases(inputs)
    if other is None:
        return []
    return two_runs("latents in another basis", implementation, inputs, other)


def heads_in_any_order(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Heads in another order, with the rows of w_o, give the same output."""
    order = np.roll(np.arange(inputs.options["n_heads"]), 1)
    other = with_heads(inputs, order)
    return two_runs("heads in another order", implementation, inputs, other)


def quarter_turn(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Every pair of the position stream turned by a right angle, in queries and in the key."""
    other = with_pairs(implementation, inputs, (-1.0, 1.0))
    return two_runs("pairs turned by a right angle", implementation, inputs, other)


def mirrored(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The tokens backwards, with the members of every pair exchanged, which turns them the other
    way: all displacements change their sign, and the output comes backwards."""
    other = with_pairs(implementation, inputs, (1.0, 1.0))
    other = changed(other, x=np.array(inputs.arrays["x"][:, ::-1]))
    back = (slice(None), slice(None, None, -1))
    return two_runs("tokens backwards", implementation, inputs, other, other_rows=back)


def content_without_position(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Without a rotary key, or without rotary queries, tokens in another order come back in it."""
    rng = generator(inputs, "order")
    name = "w_kr" if rng.random() < 0.5 else "w_qr"
    plain = changed(inputs, **{name: np.zeros_like(inputs.arrays[name])})
    order = rng.permutation(inputs.arrays["x"].shape[1])
    other = changed(plain, x=inputs.arrays["x"][:, order])
    what = f"{name} = 0, tokens in another order"
    return two_runs(what, implementation, plain, other, rows=(slice(None), order))


def only_latents_are_seen(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """What of a token goes neither into its latent nor into its rotary key reaches no other row:
    some channels of x have rows of zeros there."""
    x, w = inputs.arrays["x"], inputs.arrays
    b, n, m = x.shape
    if m < 2:
        return []
    rng = generator(inputs, "hidden channels")
    hidden = np.zeros(m, dtype=bool)
    hidden[rng.permutation(m)[: max(1, m // 2)]] = True
    cut = {name: np.where(hidden[:, None], 0.0, w[name]) for name in ("w_dkv", "w_kr")}
    one = changed(inputs, **cut)
    token = int(rng.integers(n))
    moved = np.array(x)
    moved[:, token, hidden] = snapped(rng.standard_normal((b, int(hidden.sum()))), inputs.dtype)
    rows = (slice(None), np.arange(n) != token)
    return two_runs("rows of other tokens", implementation, one, changed(one, x=moved),
                    rows=rows, other_rows=rows)  # fmt: skip


def scale_read_off(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """From the weight that the last token gives itself, while all others have a score of 0, the
    scale: its logit is that of the weight, and the logarithm of how many others there are."""
    probe, product = _probe(inputs)
    if probe is None or not implementation.legal(probe):
        return []
    size = sizes(probe)
    right = latent_attention(implementation, probe)
    at = (slice(None), -1, slice(0, 1))
    weight, room = right.value[at], right.allowance[at]
    found = implementation(probe)[at]
    number = float(SCALE.subs({s: size[str(s)] for s in SCALE.free_symbols}))
    logit = product * number - np.log(size["length"] - 1)
    wanted = np.broadcast_to(logit, weight.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = _log_odds(weight - room), _log_odds(weight + room)
        lost = np.maximum(high - _log_odds(weight), _log_odds(weight) - low)
        measured = _log_odds(found)
    terms = formed(np.abs(wanted) + np.abs(np.log(weight)) + 1.0, 16)
    lost = np.where(np.isfinite(lost), lost, np.inf) + terms
    measured = np.where(np.isfinite(lost), measured, wanted)
    lost = np.where(np.isfinite(lost), lost, 0.0)
    return [alike("logit that the weight tells", measured, wanted, lost, "float64")]


def _log_odds(weight: Array) -> Array:
    found: Array = np.log(weight) - np.log1p(-weight)
    return found


def _probe(inputs: Inputs) -> tuple[Inputs | None, float]:
    """A call in which channel 0 of the last row is the weight of the last token in head 0, and the
    product of its query and key. None for a model of one channel, or one token."""
    x, w = inputs.arrays["x"], inputs.arrays
    size = sizes(inputs)
    if size["length"] < 2 or x.shape[2] < 2:
        return None, 0.0
    h, d, e = size["heads"], size["d"], size["e"]
    arrays = {name: np.zeros_like(values) for name, values in w.items()}
    arrays["x"][:, :-1, 0] = 1.0
    arrays["x"][:, -1, 1] = 1.0
    if "c_kv" in arrays:
        arrays["c_kv"][:, -1, 0] = 1.0
    arrays["w_dq"][1, 0] = 1.0
    arrays["w_dkv"][1, 0] = 1.0
    entry = 2.0 ** np.floor(np.log2(LARGEST_LOGIT / np.sqrt(d)))
    blocks(arrays["w_uq"], h)[0, 0, :] = entry
    blocks(arrays["w_uk"], h)[0, 0, :] = 1.0
    blocks(arrays["w_uv"], h)[0, 0, 0] = 1.0
    arrays["w_o"].reshape(h, e, -1)[0, 0, 0] = 1.0
    return changed(inputs, **arrays), float(entry * d)
