"""What the full score matrix costs: operations, entries, bytes, and what streaming holds.

Source: document 004 (3.7, quadratic cost).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention_cost_definition import ATTENTION_FLOPS, TERM, pair_flops
from attnspec.spec.attention_merging import streamed
from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.symbols import i, j
from attnspec.spec.window_definition import band_pairs

_n, _d, _e = sp.symbols("n d_k d_v", integer=True, positive=True)
_MILLION = sp.Integer(10) ** 6
_HALF_PRECISION = 2
"""Bytes of a 16-bit number."""


def _entries() -> sp.Expr:
    return sp.Sum(sp.S.One, (j, 0, _n - 1), (i, 0, _n - 1)).doit()


def _quadratic() -> tuple[Step, ...]:
    scores = TERM * _d * _entries()
    sizes = {p.name: p for p in ATTENTION_FLOPS.parameters}
    one_head = {sizes[name]: 1 for name in ("batch", "heads")}
    small = {sizes["t"]: 3, sizes["s"]: 3, sizes["offset"]: 0, sizes["left"]: 2, sizes["right"]: 2}
    widths = {sizes["d"]: _d, sizes["e"]: _e}
    counted = ATTENTION_FLOPS.expression.subs({**one_head, **small, **widths}).doit()
    return (
        Step("one row and one column a token: n^2 entries", _entries() - _n**2),
        Step(
            "as windows that hide nothing have",
            sp.expand(band_pairs(_n, _n - 1, _n - 1) - _entries()),
        ),
        Step("each a dot product of d_k terms: 2 n^2 d_k", scores - 2 * _n**2 * _d),
        Step("per n^2 that is 2 d_k", scores / _n**2 - 2 * _d),
        Step(
            "the averages over the values add 2 n^2 d_v",
            sp.expand(_entries() * pair_flops(_d, _e) - scores - 2 * _n**2 * _e),
        ),
        Step("counted pair by pair for 3 tokens",
             sp.expand(counted - (_entries() * pair_flops(_d, _e)).subs(_n, 3))),
    )  # fmt: skip


def _million() -> tuple[Step, ...]:
    causal = sp.Sum(j + 1, (j, 0, _n - 1)).doit()
    return (
        Step("10^6 tokens: 10^12 entries", _entries().subs(_n, _MILLION) - sp.Integer(10) ** 12),
        Step(
            "of which a causal mask leaves 500000500000",
            causal.subs(_n, _MILLION) - 500_000_500_000,
        ),
        Step(
            "as the window of all keys back does",
            band_pairs(_MILLION, _MILLION - 1, sp.S.Zero) - 500_000_500_000,
        ),
    )


def _streamed_numbers() -> sp.Expr:
    """What all rows hold while keys are streamed: a maximum, a sum, and an output."""
    return _n * (2 + _e)


def _stored() -> tuple[Step, ...]:
    size = _HALF_PRECISION * _entries()
    return (
        Step(
            "10^12 entries of 16 bits: 2 * 10^12 bytes",
            size.subs(_n, _MILLION) - 2 * sp.Integer(10) ** 12,
        ),
        *streamed(),
        Step(
            "so a row needs a maximum, a sum and its output so far: n (2 + d_v) numbers in all, "
            "linear in n",
            sp.diff(_streamed_numbers(), _n, 2),
        ),
        Step(
            "130000000 with d_v = 128 and 10^6 tokens",
            _streamed_numbers().subs({_n: _MILLION, _e: 128}) - 130_000_000,
        ),
    )


def _never_whole() -> Counterexample:
    return Counterexample(
        "n = 10^6, d_v = 128, keys streamed: numbers held at once for exact attention, stated to "
        "be those of the full matrix",
        stated=_entries().subs(_n, _MILLION),
        actual=_streamed_numbers().subs({_n: _MILLION, _e: 128}),
    )


_COST = "3.7 Quadratic Cost"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="attention.scores_are_quadratic",
        number="C133",
        statement="The score matrix of n tokens costs O(n^2).",
        latex=r"2n^2d_k",
        source=Source("004", _COST, "An n by n matrix costs the square of the length."),
        verdict="holds",
        form="symbolic",
        truth="For a fixed d_k: 2 n^2 d_k products and sums.",
        derivation=_quadratic,
    ),
    Claim(
        id="attention.entries_of_million",
        number="C134",
        statement="A million tokens have 10^12 scores.",
        latex=r"(10^6)^2=10^{12},\quad n(n+1)/2=500000500000",
        source=Source("004", _COST, "Counts the entries for a million tokens."),
        verdict="holds",
        form="symbolic",
        truth="A causal mask leaves 500000500000.",
        derivation=_million,
    ),
    Claim(
        id="attention.matrix_too_large_to_store",
        number="C135",
        statement="At a million tokens it is infeasible to form the matrix in full.",
        latex=r"2\cdot10^{12}\text{ bytes},\quad n(2+d_v)\text{ numbers streamed}",
        source=Source("004", _COST, "The matrix of a million tokens can't be formed whole."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition(
                "D1",
                "in full means stored whole, in 16 bits, in less than 2 * 10^12 bytes of memory",
            ),
        ),
        truth="Exact attention doesn't need it whole: streamed keys leave O(n) numbers to hold.",
        counterexample=_never_whole,
        derivation=_stored,
    ),
)
