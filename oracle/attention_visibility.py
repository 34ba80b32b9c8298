"""The checks of attention's laws about who sees whom: what is hidden changes nothing, what is
visible does, and each way to hide keys is as good as another.

Sources: `spec/attention_definition.py` (`sees`); the contract's 'Guarantees' and its conventions
`attention.*`. Masks come from the definition (`visible`), never from a formula here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnspec.oracle.attention_calls import (
    BY_POSITION,
    changed,
    explicit,
    key_heads,
    masked,
    plain,
    promised_rows,
    sizes,
    taken,
    two_runs,
    with_bias,
)
from attnspec.oracle.attention_values import attention, visible
from attnspec.oracle.calls import alike, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.precision import FORMATS, snapped
from attnspec.oracle.rounding import formed

Array = np.ndarray[Any, Any]


def _unseen(implementation: Implementation, inputs: Inputs) -> tuple[Array, Array]:
    """Keys that a drawn row of their head does not see, [b, g, s], and the promised rows that see
    none of them, [b, h, t]."""
    seen = visible(implementation, inputs)
    of = key_heads(implementation, inputs)
    b, g, s, _ = inputs.arrays["k"].shape
    keys = np.zeros((b, g, s), dtype=bool)
    rng = generator(inputs, "hidden")
    for entry in range(b):
        for head in range(g):
            rows = seen[entry, of == head].reshape(-1, s)
            some = np.flatnonzero(rows.any(axis=-1) & ~rows.all(axis=-1))
            if some.size:
                keys[entry, head] = ~rows[rng.choice(some)]
    touched = (seen & keys[:, of][:, :, None]).any(axis=-1)
    return keys, promised_rows(implementation, inputs) & ~touched


def other_content(inputs: Inputs, name: str) -> Array:
    """Finite numbers of the dtype in the shape of q, k or v, large ones among the draws, but
    none whose scores with what is there could overflow."""
    values, fmt = inputs.arrays[name], FORMATS[inputs.dtype]
    rng = generator(inputs, f"other {name}")
    drawn: Any = rng.standard_normal(values.shape)
    partner = np.abs(inputs.arrays["k" if name == "q" else "q"]).max(initial=1.0)
    reach = 1.0 if name == "v" else values.shape[-1] * float(partner)
    reach *= max(1.0, float(inputs.options.get("scale") or 1.0))
    # as no drawn number exceeds 8, this leaves another factor of 8
    most = math.frexp(fmt.overflow / 64.0 / reach)[1] - 1
    size = 2.0 ** min(int(rng.integers(-1, 11)), most)
    return snapped(np.clip(drawn, -8.0, 8.0) * size, inputs.dtype)


def hidden_keys_change_nothing(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Other finite keys and values where rows cannot see them, to the bit."""
    keys, rows = _unseen(implementation, inputs)
    k, v = inputs.arrays["k"], inputs.arrays["v"]
    at = keys[..., None]
    before = changed(inputs)
    after = changed(
        inputs,
        k=np.where(at, other_content(inputs, "k"), k),
        v=np.where(at, other_content(inputs, "v"), v),
    )
    promised = "mask-exact" in implementation.guarantees
    first, second = implementation.parts(before), implementation.parts(after)
    names = ("rows that cannot see what changed", "their lse")
    return [
        same(what, new[rows], old[rows], implementation.dtype, promised=promised)
        for what, old, new in zip(names, first, second, strict=False)
    ]


def hidden_nan_ignored(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """NaN and infinities where rows cannot see them, for targets that promise to ignore them."""
    keys, rows = _unseen(implementation, inputs)
    rng = generator(inputs, "not finite")
    arrays = {}
    for name in ("k", "v"):
        values = inputs.arrays[name]
        found = rng.choice([np.nan, np.inf, -np.inf], size=values.shape, p=[0.5, 0.25, 0.25])
        arrays[name] = np.where(keys[..., None], found, values)
    allowance = 2.0 * attention(implementation, inputs).allowance[rows]
    before = implementation(changed(inputs))[rows]
    after = implementation(changed(inputs, **arrays))[rows]
    what = "rows that cannot see what is not finite"
    return [alike(what, after, before, allowance, implementation.dtype)]


def visible_nan_propagates(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """One query, key or value of NaN reaches every row that sees it; rows that read other heads,
    or other queries' rows, stay."""
    seen = visible(implementation, inputs)
    if not seen.any():
        return []
    rng = generator(inputs, "visible NaN")
    name = ("q", "k", "v")[rng.integers(3)]
    entry, head, row, key = (int(i) for i in rng.choice(np.argwhere(seen)))
    of = key_heads(implementation, inputs)
    values = np.array(inputs.arrays[name])
    reads = np.zeros(seen.shape[:3], dtype=bool)
    if name == "q":
        values[entry, head, row] = np.nan
        reads[entry, head, row] = True
        reached = reads
    else:
        values[entry, of[head], key] = np.nan
        reads[entry, of == of[head]] = True
        reached = reads & seen[..., key]
    # what is stored at hidden keys is another convention's matter
    ignored = implementation.conventions["attention.masked_nan"] == "ignored"
    left = promised_rows(implementation, inputs) & ~(reached if ignored else reads)
    allowance = 2.0 * attention(implementation, inputs).allowance[left]
    before = implementation(changed(inputs))
    after = implementation(changed(inputs, **{name: values}))
    dtype, found = implementation.dtype, after[reached]
    return [
        same(f"rows that see the NaN in {name}", found, np.full_like(found, np.nan), dtype),
        alike("the other rows", after[left], before[left], allowance, dtype),
    ]


def visible_values_matter(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The output of row i moves by the sum of P_ij dv_j over the keys that it sees."""
    v = inputs.arrays["v"]
    rng = generator(inputs, "moved values")
    # half of the keys, as one alone may be next to nothing in every row
    at = rng.integers(2, size=v.shape[:3]) > 0
    at |= rng.integers(v.shape[2], size=v.shape[:2])[..., None] == np.arange(v.shape[2])
    largest = float(np.abs(v).max(initial=0.0)) or 1.0
    # larger than everything else, so that even a small weight shows, but kernels that divide
    # last must be able to add all of them up
    size = min(4.0 * largest, FORMATS[inputs.dtype].overflow / (8.0 * v.shape[2]))
    other = snapped(size * rng.choice([-1.0, 1.0], size=v.shape), inputs.dtype)
    moved = changed(inputs, v=np.where(at[..., None], other, v))
    first, second = attention(implementation, inputs), attention(implementation, moved)
    before, after = implementation(inputs), implementation(moved)
    allowance = first.allowance + second.allowance
    allowance = allowance + formed(np.abs(first.value) + np.abs(second.value), 2)
    rows = promised_rows(implementation, inputs)
    change, right = (after - before)[rows], (second.value - first.value)[rows]
    return [alike("change of the output", change, right, allowance[rows], implementation.dtype)]


def mask_eq_subset(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A row is what attention over the gathered keys that it sees gives."""
    seen = visible(implementation, inputs)
    places = np.argwhere(seen.any(axis=-1))
    if not len(places):
        return []
    of = key_heads(implementation, inputs)
    rng = generator(inputs, "subset")
    entry, head, row = (int(i) for i in rng.choice(places))
    keys = np.flatnonzero(seen[entry, head, row])
    gathered = changed(inputs, BY_POSITION, mask=None)
    part = taken(gathered, b=[entry], h=[head], g=[of[head]], t=[row], s=keys)
    rows: Any = np.s_[entry : entry + 1, head : head + 1, row : row + 1]
    if not implementation.legal(part):
        # a number of heads that is not supported: all heads, if they see the same
        if not (seen[entry, :, row] == seen[entry, head, row]).all():
            return []
        part = taken(gathered, b=[entry], t=[row], s=keys)
        rows = np.s_[entry : entry + 1, :, row : row + 1]
    what = f"row {(entry, head, row)} over its {len(keys)} visible keys"
    return two_runs(what, implementation, inputs, part, rows)


def bool_mask_eq_infinite_bias(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """False in a mask is minus infinity in a bias, to the bit; beside a finite bias too."""
    call = changed(inputs)
    if generator(inputs, "beside a bias").integers(2):
        call = with_bias(implementation, call)
    if "bias" in call.arrays and call.arrays["bias"].shape[-1] < sizes(inputs)[3]:
        # the same for all keys, and so of no weight: it need not be added beside a mask
        call = changed(call, bias=None)
    bias = np.where(call.arrays["mask"], call.arrays.get("bias", 0.0), -np.inf)
    rows = promised_rows(implementation, call)
    first = implementation.parts(call)
    second = implementation.parts(changed(call, mask=None, bias=bias))
    names = ("output with a bias of 0 and -inf", "its lse")
    return [
        same(what, biased[rows], plainly[rows], implementation.dtype)
        for what, plainly, biased in zip(names, first, second, strict=False)
    ]


def positions_eq_mask(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Causality and window are the mask of the same pairs, beside a bias too: the laws
    `causal_eq_mask` and `window_eq_mask`."""
    call = inputs
    if generator(inputs, "beside a bias").integers(2):
        call = with_bias(implementation, inputs)
    other = explicit(implementation, call)
    if other is None or other is call:
        return []
    return two_runs("output with a mask instead", implementation, call, other)


def broadcast_eq_expanded(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A mask and a bias that are shared along some axes are what their full copies are."""
    call, full = with_bias(implementation, inputs), sizes(inputs)
    copies = {
        name: np.broadcast_to(call.arrays[name], full).copy()
        for name in ("mask", "bias")
        if name in call.arrays
    }
    return two_runs("output with full copies", implementation, call, changed(call, **copies))


def block_diagonal_eq_separate(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Two documents under a block-diagonal mask are what they are in calls of their own."""
    _, _, t, s = sizes(inputs)
    if t < 2 or s < 2:
        return []
    rng = generator(inputs, "documents")
    cut, border = int(rng.integers(1, t)), int(rng.integers(1, s))
    call = plain(inputs)
    first, later = np.arange(t) < cut, np.arange(s) < border
    together = masked(call, first[:, None] == later)
    result = []
    for number, inside in enumerate((True, False)):
        queries, keys = np.flatnonzero(first == inside), np.flatnonzero(later == inside)
        rows = np.s_[:, :, queries]
        part = taken(call, t=queries, s=keys)
        result += two_runs(f"document {number} alone", implementation, together, part, rows)
    return result


def suffix_of_queries(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The last queries over all keys are the last rows of the whole call; the first ones where
    queries and keys are aligned at the top left."""
    t = sizes(inputs)[2]
    if t < 2:
        return []
    many = int(generator(inputs, "suffix").integers(1, t))
    start = implementation.conventions["attention.causal_alignment"] == "top-left"
    kept = np.arange(t)[:many] if start else np.arange(t)[-many:]
    what = f"the {'first' if start else 'last'} {many} of {t} queries"
    other = taken(inputs, t=kept)
    return two_runs(what, implementation, inputs, other, np.s_[:, :, kept])


def row_constant_of_bias(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """One number added to all biases of a row, exactly."""
    bias, dtype = inputs.arrays["bias"], implementation.dtype
    rng = generator(inputs, "constant")
    shape = (*bias.shape[:-1], 1)
    shift = 2.0 ** rng.integers(-2, 3, size=shape) * rng.choice([-1.0, 1.0], size=shape)
    high = snapped(bias + shift, dtype)
    low = high - shift
    # the difference is exact; where the dtype cannot hold it the row stays as it is
    exact = (snapped(low, dtype) == low).all(axis=-1, keepdims=True)
    one = changed(inputs, {"return_lse": None}, bias=np.where(exact, high, bias))
    other = changed(inputs, {"return_lse": None}, bias=np.where(exact, low, bias))
    return two_runs("output after a shift of the bias", implementation, one, other)
