"""The checks of t5_bias's own laws: from an implementation and inputs to two sides.

Sources: the claims of `spec/t5_bias.py`. Entries of the table are read and nothing is computed, so
that results agree to the bit; next to a threshold of sizes that aren't T5's own either of two rows
may be read (`t5_values`), and what compares two results leaves such pairs out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnspec.oracle.calls import close, same, same_where
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.expected import Expected
from attnspec.oracle.inner_products import paired
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.precision import FORMATS, snapped
from attnspec.oracle.t5_values import (
    bias,
    bias_gradients,
    bucket_range,
    displacements,
    rows_read,
    setting_of,
    settled_pairs,
)
from attnspec.oracle.upstream import upstream_of

Array = np.ndarray[Any, Any]


def of_displacement(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Along a diagonal, where the key moves on with the query, every head has one number."""
    actual, known = implementation(inputs), settled_pairs(inputs)
    return [
        same_where(
            known[1:, 1:] & known[:-1, :-1],
            "one step further along the diagonal",
            actual[:, 1:, 1:],
            actual[:, :-1, :-1],
            implementation.dtype,
        )
    ]


def decode_row(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The bias of the last queries alone is the last rows of the bias of all."""
    t, s = inputs.numbers["t"], inputs.numbers["s"]
    square = inputs.with_numbers(t=s)
    if not implementation.legal(square):
        return []
    rows, whole = implementation(inputs), implementation(square)[:, s - t :]
    what = f"the last {t} of {s} queries"
    return [same_where(settled_pairs(inputs), what, rows, whole, implementation.dtype)]


def head_alone(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A head's column of the table alone gives that head's bias."""
    table = inputs.arrays["table"]
    head = int(generator(inputs, "head").integers(table.shape[1]))
    alone = inputs.with_arrays(table=table[:, head : head + 1])
    if not implementation.legal(alone):
        return []
    one, whole = implementation(alone), implementation(inputs)[head : head + 1]
    what = f"head {head} alone"
    return [same_where(settled_pairs(inputs), what, one, whole, implementation.dtype)]


def unread_rows(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """Rows of buckets that no pair of the call is in may hold any number."""
    table, unread = inputs.arrays["table"], ~rows_read(inputs)
    if not unread.any():
        return []
    others = np.where(unread[:, None], snapped(3.0 - table, inputs.dtype), table)
    changed = implementation(inputs.with_arrays(table=others))
    what = "other numbers in rows that no pair reads"
    return [
        same_where(
            settled_pairs(inputs), what, changed, implementation(inputs), implementation.dtype
        )
    ]


def numbers_of_buckets(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """A table that holds each bucket's number gives the target's own buckets."""
    buckets = implementation.sibling("t5_bucket")
    if buckets is None:
        return []
    options = dict(inputs.options)
    if buckets.accepts("num_buckets"):
        options["num_buckets"] = inputs.arrays["table"].shape[0]
    offsets = displacements(inputs)
    call = Inputs("t5_bucket", "int64", {"relative_position": offsets}, options, seed=inputs.seed)
    if setting_of(call) != setting_of(inputs) or not all(map(buckets.accepts, options)):
        return []
    right = np.broadcast_to(buckets(call), (inputs.arrays["table"].shape[1], *offsets.shape))
    what = "numbers of buckets beside those of t5_bucket"
    return [
        same_where(settled_pairs(inputs), what, implementation(inputs), right, implementation.dtype)
    ]


def gradient_counts(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """With an upstream of ones an entry's gradient is the number of pairs that read it: exact in
    any order and any storage, as long as that holds every whole number on the way."""
    setting, known = setting_of(inputs), settled_pairs(inputs)
    rows, heads = inputs.arrays["table"].shape
    least, most = (b.astype(np.int64) for b in bucket_range(displacements(inputs), setting))
    counts = np.bincount(least[known], minlength=rows).astype(np.float64)
    sure = counts <= 2.0 ** FORMATS[implementation.dtype].width
    sure[least[~known]] = sure[most[~known]] = False
    actual = implementation.gradients(inputs, np.ones((heads, *known.shape)))["table"]
    right = np.broadcast_to(counts[:, None], actual.shape)
    what = "gradient of the table, upstream of ones, beside the number of pairs"
    return [same_where(sure[:, None], what, actual, right, implementation.dtype)]


def unread_rows_get_none(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The gradient of a row that no pair reads is zero."""
    unread = ~rows_read(inputs)
    actual = implementation.gradients(inputs, upstream_of(inputs))["table"][unread]
    what = "gradient of rows that no pair reads"
    return [same(what, actual, np.zeros(actual.shape), implementation.dtype)]


def long_sums(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """From the first pair of every bucket an upstream so large that half precision holds no 1
    beside it, from the others ones, which are counted all the same."""
    least, _ = bucket_range(displacements(inputs), setting_of(inputs))
    width = FORMATS[implementation.dtype].width
    upstream = np.ones((inputs.arrays["table"].shape[1], *least.shape))
    _, first = np.unique(least, return_index=True)
    large = 2.0**width if width < FORMATS["float32"].width else 1.0
    upstream.reshape(len(upstream), -1)[:, first] = large
    actual = implementation.gradients(inputs, upstream)["table"]
    right = bias_gradients(implementation, inputs, upstream)["table"]
    return [close("gradient of the table, a long sum", actual, right, implementation.dtype)]


def along(implementation: Implementation, inputs: Inputs, direction: Array) -> Expected:
    """Entries are read, so that the derivative along a direction of the table is what is read in
    it."""
    return bias(implementation, inputs.with_arrays(table=direction))


def gradients_adjoint(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
    """The bias is linear in its table: <G, bias> = <dT, T>, with nothing from above at pairs of
    which it isn't known what they read."""
    table = inputs.arrays["table"]
    upstream = np.where(settled_pairs(inputs), upstream_of(inputs), 0.0)
    output, right = implementation(inputs), bias(implementation, inputs)
    gradient = implementation.gradients(inputs, upstream)["table"]
    room = bias_gradients(implementation, inputs, upstream)["table"].allowance
    left = upstream, output, right.allowance
    return [paired("<G, y> = <dT, T>", left, (table, gradient, room), 0)]


def others(implementation: Implementation, inputs: Inputs) -> list[Inputs]:
    """Other calls: another table, more keys or queries, the other direction, another distance."""
    t, s = inputs.numbers["t"], inputs.numbers["s"]
    setting = setting_of(inputs)
    made = [
        inputs.with_arrays(table=-inputs.arrays["table"][::-1]),
        inputs.with_numbers(t=t, s=s + 9),
        inputs.with_numbers(t=t + 5, s=s + 5),
    ]
    changed: dict[str, Any] = {
        "bidirectional": not setting.both,
        "max_distance": 2 * setting.max_distance + 100,
    }
    for option, other in changed.items():
        call = replace(inputs, options={**inputs.options, option: other}, drawn=b"")
        if implementation.accepts(option) and setting_of(call).legal:
            made.append(call)
    return made
