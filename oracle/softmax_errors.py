"""How far softmax weights move when their logits do: exact worst cases, finite at any error.

A quotient w / sum w counts every logit's error twice, and says nothing once the error of the sum
reaches the sum. Seen as a whole softmax is tame: weights stay between 0 and 1. Two ways of forming
them are covered, and what is returned is the larger of both: numerators over their own sum, where
errors common to a row cancel, and exponentials of logits less a log-sum-exp, where they do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp

from attnspec.oracle.precision import LIBRARY_ULPS, Contract
from attnspec.oracle.rounding import gamma
from attnspec.spec.softmax_definition import LOGARITHMS, RESCALING, blocks

Array = np.ndarray[Any, Any]
Erring = tuple[Array, Any]

LARGEST = 600.0
"""Beyond it e^x leaves float64, and nothing more is lost: a weight is off by itself or by 1."""


def _logarithmic(u: float) -> float:
    """A relative error u as a shift of the logarithm."""
    return -math.log1p(-u)


def weights(contract: Contract, axis: int, n: int) -> Callable[[Erring, Array], Erring]:
    """From logits with their errors, and which of them are seen, to the weights along an axis of
    n entries, and how far each may be off under the contract."""
    work, scores = contract.format("accumulate"), contract.format("scores")
    kept, lse = contract.format("probabilities"), contract.format("lse")
    statistics = contract.format("statistics")
    in_blocks = int(blocks(sp.Integer(n)))
    stored = scores.roundoff if scores.roundoff > work.roundoff else 0.0
    # of the difference that the exponential is taken of: the subtraction, its storage, and the
    # factor and the product of exponentials to base 2
    slope = 3.0 * work.roundoff + stored
    tiny = scores.underflow + work.underflow
    function = _logarithmic(2.0 * LIBRARY_ULPS * work.roundoff)
    kept_unit = kept.roundoff if kept.roundoff > work.roundoff else 0.0
    numerator = function + _logarithmic(kept_unit)
    numerator += RESCALING * in_blocks * _logarithmic(work.roundoff)
    common = (in_blocks + LOGARITHMS) * _logarithmic(lse.roundoff)
    after = gamma(n, statistics.roundoff) + 3.0 * statistics.roundoff
    lost = (n + 1) * (kept.underflow + work.underflow)

    def formed(logits: Erring, shown: Array) -> Erring:
        z = np.where(shown, logits[0], -np.inf)
        largest = np.maximum.reduce(z, axis=axis, keepdims=True)
        largest = np.where(np.isfinite(largest), largest, 0.0)
        shifted = z - largest
        p = np.exp(shifted)
        total = np.add.reduce(p, axis=axis, keepdims=True)
        total = np.where(total > 0.0, total, 1.0)
        p /= total
        logarithm = np.log(total)
        seen = np.isfinite(shifted)
        t = np.where(seen, -shifted, 0.0)
        e = np.where(shown, logits[1], 0.0)
        # the largest logit moves up by no more than what reaches past it, and down by its own
        moves = np.maximum.reduce(np.where(seen, e - t, 0.0), axis=axis, keepdims=True)
        size = t + e
        size += moves
        moved = e + slope * size + tiny

        def share() -> Array:
            return np.where(seen, -t - logarithm, -np.inf)

        d = moved + numerator
        more, less = _more(p, share, d), p * -np.expm1(-d)
        shift = np.log1p(np.add.reduce(more, axis=axis, keepdims=True))
        drift = shift + common * (np.abs(largest + logarithm) + shift)
        # a second difference, of the shifted logit and the logarithm of the sum
        own = moved + slope * (size + (logarithm + shift)) + (function + drift)
        worst = np.maximum(_normalised(p, more, less, axis), _more(p, share, own))
        worst += after * (p + worst) + lost
        worst = np.where(seen, worst, 0.0)
        if np.isinf(logits[1]).any():
            # a logit that may be infinite makes its row anything, NaN too, even a hidden one: many
            # implementations hide by adding minus infinity
            lost_rows = np.isinf(logits[1]).any(axis=axis, keepdims=True)
            worst = np.where(lost_rows, np.inf, worst)
        return p, worst

    return formed


def _more(p: Array, logarithm: Callable[[], Array], d: Array) -> Array:
    """p (e^d - 1). Where p vanishes in float64 a large d can still bring it back, so that large
    ones go by the logarithm of p."""
    if d.max(initial=0.0) < 1.0:
        small: Array = p * np.expm1(d)
        return small
    grown = np.exp(np.minimum(logarithm() + d, LARGEST)) - p
    return np.where(d < 1.0, p * np.expm1(np.minimum(d, 1.0)), grown)


def _normalised(p: Array, more: Array, less: Array, axis: int) -> Array:
    """The most that p_j = w_j / sum w can move when every w_k is off by a factor e^(+-d_k): up
    with w_j up and all others down, down the other way round. `more` and `less` are what p_k
    itself gains and loses by that."""
    others_more = np.add.reduce(more, axis=axis, keepdims=True) - more
    others_less = np.add.reduce(less, axis=axis, keepdims=True) - less
    up = (more - p * more + p * others_less) / (1.0 + more - others_less)
    down = (less - p * less + p * others_more) / (1.0 - less + others_more)
    most: Array = np.maximum(np.minimum(up, 1.0), np.minimum(down, p))
    return most
