"""Softmax as an expression.

Sources: document 000 (2), document 003 (2), document 004 (3.1).
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition, Maximum, either, rnd, weights

_a, _j = sp.symbols("a j", integer=True, nonnegative=True)
_rows, _n = sp.symbols("rows n", integer=True, positive=True)

BLOCK = 16
"""Fewest keys that a kernel takes at a time: a running sum is rescaled, and a log-sum-exp stored,
once for each block."""
RESCALING = 6
"""Roundings of a running sum for each block: four of an exponential, which is right to two ulps,
one of a product, and one of a sum."""
LOGARITHMS = 4
"""Roundings of a log-sum-exp besides those of merging blocks: of the logit and of the maximum, each
multiplied by log2(e), which is rounded itself."""

_x = sp.IndexedBase("x", shape=(_rows, _n), real=True)


def blocks(n: sp.Expr) -> sp.Expr:
    """The most blocks that n keys are taken in."""
    return sp.floor((n + BLOCK - 1) / BLOCK)


def _definition() -> Definition:
    """softmax of rows: x[a, j] -> p[a, j].

    The row maximum is subtracted first; that any shift gives the same weights is the claim
    `softmax.shift_invariance`. Implementations divide by the sum of the exponentials (or
    multiply by its inverse), or subtract the log-sum-exp from the logit: that both give the same
    is the claim `softmax.eq_exp_of_log_softmax`. The second way stands for all that work with
    logarithms: log-softmax from shifted logits, a log-sum-exp that was saved, one that was merged
    from blocks of keys (a rounding of its size each, at least 16 keys a block), and exponentials
    to base 2 of logits that were multiplied by log2(e) first (a rounding of the logit and of the
    maximum, above and below the fraction: four).
    """
    logits = (_j, 0, _n - 1)
    largest = Maximum(_x[_a, _j], logits)
    shifted = rnd(_x[_a, _j] - largest, "scores")
    numerator = rnd(sp.exp(shifted), "probabilities")
    total = rnd(sp.Sum(numerator, logits), "statistics")
    divided = numerator * rnd(1 / total, "statistics")
    stored = blocks(_n) + LOGARITHMS
    log_sum_exp = rnd(largest + sp.log(total), "lse", stored)
    subtracted = sp.exp(rnd(shifted - (log_sum_exp - largest), "scores"))
    weight = rnd(weights(either(divided, subtracted), _x[_a, _j], _j, sp.true), "output")
    return Definition("softmax", weight, ((_a, _rows), (_j, _n)), (_x,), (_rows, _n))


DEFINITION = _definition()


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return (DEFINITION,)
