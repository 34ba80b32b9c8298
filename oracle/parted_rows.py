"""What the gradients of softmax weights lose where a row is taken in parts.

Where the keys of a row are taken in parts that are merged by their log-sum-exps, and all of it is
differentiated step by step, the gradient of a logit is

    dS_j = P_j ((a_j - r_p) + (r_p - r_q) + ... - r),    a_j = sum_c G_c V_jc,

with the mean r of a over the part of j, over the merged part that this is in, and so on up to the
whole row. Each of them enters with both signs, formed in two ways. A mean over a part may be far
larger than that over the row: of a_k it holds P_k / sum of the part's P, at most
P_k / (P_j + P_k) for a part that j is in. So that r's share of a_k in dS_j is at most
min(P_j, P_k) |a_k|, and all of it at most P_j max |a_k|, or sum P_k |a_k|.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp

from attnspec.oracle.precision import LIBRARY_ULPS, Contract
from attnspec.oracle.rounding import gamma
from attnspec.spec.softmax_definition import blocks

Array = np.ndarray[Any, Any]
Erring = tuple[Array, Any]

STEPS = 4
"""Roundings of a mean over a part besides those of its two sums: of its weights and of merging."""


def lost_in_parts(
    contract: Contract, axis: int, n: int, channels: int
) -> Callable[[Erring, Array, Array, Array], Array]:
    """From the weights P with their errors, the sizes sum_c |G_c V_jc|, the logits and which of
    them are seen, along an axis of n entries, to what dS_j may be off by beyond what it is off by
    for the row as a whole.

    For each level of merging: two means, each of `channels` products and up to n terms, and two
    weights of a part, formed twice as exponentials of a difference of logarithms."""
    u, levels = contract.format("reductions").roundoff, int(blocks(sp.Integer(n)))
    slope = 4.0 * max(u, contract.format("lse").roundoff)
    common = 2.0 * gamma(n + channels + STEPS, u) + 8.0 * LIBRARY_ULPS * u

    each, all_alike = levels * slope, levels * (common + slope * math.log(max(n, 1)))

    def lost(p: Erring, sizes: Array, logits: Array, seen: Array) -> Array:
        largest = np.maximum.reduce(np.where(seen, logits, -np.inf), axis=axis, keepdims=True)
        # the logarithm of a part's sum lies between the logit and that of the row, which is the
        # largest logit, or more by no more than log n
        reach = np.abs(np.where(seen, logits, 0.0))
        reach += np.abs(np.where(np.isfinite(largest), largest, 0.0))
        reach *= each
        reach += all_alike
        weights = np.where(seen, p[0] + np.minimum(p[1], 1.0), 0.0)
        sizes = np.where(seen, sizes, 0.0)
        whole = np.add.reduce(weights * sizes, axis=axis, keepdims=True)
        most = np.maximum.reduce(sizes, axis=axis, keepdims=True)
        found: Array = reach * np.minimum(weights * most, whole)
        if math.isfinite(np.add.reduce(found, axis=None)):
            return found
        # nothing times what may overflow is nothing; what else is unknown may be anything
        found = np.where(weights > 0.0, found, 0.0)
        found[np.isnan(found)] = np.inf
        return found

    return lost
