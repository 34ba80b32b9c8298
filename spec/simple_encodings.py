"""Encodings of a position that are simpler than sines: the number itself, a share of the length,
its binary digits, and one channel for each position.

Source: document 004 (3.3, simpler encodings), which has the first and the last. The other two are
lemmas of our own: they are what the first lacks, bounded values and periods, each at a price.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.symbols import c, m, n

_J = sp.ImmutableMatrix([[0, 1], [-1, 0]])
_length = sp.Symbol("L", integer=True, positive=True)
_more = sp.Symbol("u", integer=True, nonnegative=True)
_at = sp.Symbol("p", integer=True, nonnegative=True)
_digit = sp.Symbol("b", integer=True, nonnegative=True)


def raw(position: sp.Expr) -> sp.ImmutableMatrix:
    """A position as the number that it is."""
    return sp.ImmutableMatrix([[position]])


def with_constant(position: sp.Expr) -> sp.ImmutableMatrix:
    """The same with a channel that is always 1."""
    return sp.ImmutableMatrix([[position, 1]])


def score(
    query: sp.ImmutableMatrix, matrix: sp.ImmutableMatrix, key: sp.ImmutableMatrix
) -> sp.Expr:
    """p_m M p_n^T: a score of two encodings through W_Q W_K^T = M."""
    return (query * matrix * key.T)[0]


def _along(value: sp.Expr) -> sp.Expr:
    """The slope of a score as both positions move together."""
    return sp.diff(value, m) + sp.diff(value, n)


def _bilinear() -> tuple[Step, ...]:
    weight = sp.Symbol("w", real=True)
    entries = sp.symbols("M_11 M_12 M_21 M_22", real=True)
    bare = score(raw(m), sp.ImmutableMatrix([[weight]]), raw(n))
    general = score(with_constant(m), sp.ImmutableMatrix(2, 2, entries), with_constant(n))
    w_q, w_k = sp.ImmutableMatrix.eye(2), _J.T
    projected = (with_constant(m) * w_q) * (with_constant(n) * w_k).T
    return (
        Step(
            "with a channel of 1 beside it, W_Q = I and W_K = [[0, -1], [1, 0]] score m - n",
            sp.expand(projected[0] - (m - n)),
        ),
        Step(
            "moving both positions on leaves that score",
            sp.expand(_along(score(with_constant(m), _J, with_constant(n)))),
        ),
        Step(
            "a score M of two such encodings moves by M_11 (m + n) + M_12 + M_21 as both move on: "
            "it knows the distance alone for M_11 = 0, M_21 = -M_12, and is then M_12 (m - n) + "
            "M_22",
            sp.expand(_along(general) - (entries[0] * (m + n) + entries[1] + entries[2])),
        ),
        Step(
            "which it is",
            sp.expand(
                general.subs({entries[0]: 0, entries[2]: -entries[1]})
                - (entries[1] * (m - n) + entries[3])
            ),
        ),
        Step(
            "the bare product w m n moves by w (m + n): it never knows the distance alone",
            sp.expand(_along(bare) - weight * (m + n)),
        ),
    )


def _read_from_two_channels() -> Counterexample:
    five, three = sp.Integer(5), sp.Integer(3)
    unit = sp.ImmutableMatrix([[1]])
    return Counterexample(
        "positions 5 and 3: score of [m, 1] and [n, 1] through J = [[0, 1], [-1, 0]], stated to be "
        "no better than that of [m] and [n], which is 15 and not the distance",
        stated=score(raw(five), unit, raw(three)),
        actual=score(with_constant(five), _J, with_constant(three)),
    )


def _unbounded() -> tuple[Step, ...]:
    bound, period = sp.symbols("B T", integer=True, positive=True)
    return (
        Step("the entry at position B + 1 is above B, for every B", (raw(bound + 1)[0] - bound)
             .is_positive),
        Step("no period T: the entries at m + T and m are T apart", (raw(m + period) - raw(m))[0]
             - period),
        Step("neighbors are 1 apart at every position: what jumps is the size, not the step",
             (raw(m + 1) - raw(m))[0] - 1),
    )  # fmt: skip


def one_hot(position: sp.Expr) -> sp.Expr:
    """Channel c of the vector that is 1 at the position and 0 elsewhere."""
    return sp.KroneckerDelta(position, c, (0, _length - 1))


def _summed(terms: sp.Expr) -> sp.Expr:
    """The sum over all channels of what stands beside a position's own delta."""
    parts = (sp.Sum(term, (c, 0, _length - 1)).doit() for term in sp.Add.make_args(terms))
    return sp.Add(*parts)


def _equidistant() -> tuple[Step, ...]:
    other = _at + 1 + _more
    square = sp.expand((one_hot(_at) - one_hot(other)) ** 2)
    named = [
        sum(((place == k) - (two == k)) ** 2 for k in range(1, 5001))
        for place, two in ((2, 3), (2, 5000))
    ]
    return (
        Step(
            "two positions that differ have the inner product 0, for any length",
            _summed(one_hot(_at) * one_hot(other)),
        ),
        Step("and their vectors the squared distance 2", sp.simplify(_summed(square) - 2)),
        Step("each has the norm 1", sp.simplify(_summed(one_hot(_at) ** 2) - 1)),
        Step(
            "2 and 3 as far apart as 2 and 5000, which is sqrt(2)", sp.Integer(named[0] - named[1])
        ),
        Step("with squares of 2", sp.Integer(named[1] - 2)),
    )


def _by_length() -> tuple[Step, ...]:
    length = _length + 1  # at least two tokens
    share = m / (length - 1)
    step = sp.simplify(share.subs(m, m + 1) - share)
    return (
        Step("from one position to the next it grows by 1/(L-1)", step - 1 / (length - 1)),
        Step("which falls as the length grows", sp.limit(step, _length, sp.oo)),
        Step(
            "a text twice as long, with 2L - 1 tokens, has half the step: distances d and 2d look "
            "alike",
            sp.simplify(2 * step.subs(_length, 2 * _length) - step),
        ),
        Step("the last position is 1 in every text", share.subs(m, length - 1) - 1),
    )


def digit(place: sp.Expr, position: sp.Expr) -> sp.Expr:
    """A binary digit of a position, counted from the lowest."""
    return sp.floor(position / 2**place) - 2 * sp.floor(position / 2 ** (place + 1))


def _binary() -> tuple[Step, ...]:
    part = sp.Function("F")
    count = sp.Symbol("B", integer=True, positive=True)
    telescoped = sp.Sum(part(_digit) - part(_digit + 1), (_digit, 0, count - 1)).doit()
    shifted = digit(_digit, sp.expand(_at + 2 ** (_digit + 1)))
    wrong = sum(
        digit(sp.Integer(b), sp.Integer(p)) != (p >> b) & 1 for b in range(6) for p in range(64)
    )
    return (
        Step("they are the digits of a computer's integers below 64", sp.Integer(wrong)),
        Step(
            "2^b times digit b is F(b) - F(b+1) for F(b) = 2^b floor(m / 2^b)",
            sp.expand(
                2**_digit * digit(_digit, _at)
                - (
                    2**_digit * sp.floor(_at / 2**_digit)
                    - 2 ** (_digit + 1) * sp.floor(_at / 2 ** (_digit + 1))
                )
            ),
        ),
        Step(
            "so B digits together tell m - 2^B floor(m / 2^B), which is m below 2^B: no two "
            "positions share them",
            telescoped - (part(0) - part(count)),
        ),
        Step(
            "digit b has the period 2^(b+1)",
            sp.expand(shifted.expand() - digit(_digit, _at)),
        ),
    )


def _flips(first: int, second: int) -> int:
    """Digits in which two positions differ."""
    places = range(max(first, second).bit_length())
    return sum(
        digit(sp.Integer(b), sp.Integer(first)) != digit(sp.Integer(b), sp.Integer(second))
        for b in places
    )


def _jumps() -> tuple[Step, ...]:
    count = sp.Symbol("k", integer=True, positive=True)
    ones = sp.Sum(2**_digit, (_digit, 0, count - 1)).doit()
    return (
        Step("k ones in a row are 2^k - 1", sp.simplify(ones - (2**count - 1))),
        Step(
            "so from 2^k - 1 to 2^k all k + 1 digits change: for k = 1 to 12",
            sp.Matrix([_flips(2**k - 1, 2**k) - (k + 1) for k in range(1, 13)]),
        ),
        Step(
            "while 0 and 2^k, far apart, differ in one",
            sp.Matrix([_flips(0, 2**k) - 1 for k in range(1, 13)]),
        ),
    )


_LIST = "Compares sines with simpler ways to encode a position."

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="integer_positions.difference_is_bilinear",
        number="C077",
        statement="Positions as plain numbers give no clean way to recover relative distance.",
        latex=r"[m,1]\,J\,[n,1]^T=m-n,\quad J=\begin{pmatrix}0&1\\-1&0\end{pmatrix}",
        source=Source(
            "004", "3.3 Simpler Encodings", "Relative distance can't be had from raw numbers."
        ),
        verdict="corrected",
        form="symbolic",
        truth="It is their difference. With a channel that is always 1, a score is m - n exactly. "
        "The bare product w m n alone never knows the distance.",
        counterexample=_read_from_two_channels,
        derivation=_bilinear,
    ),
    Claim(
        id="integer_positions.unbounded",
        number="C078",
        statement="Positions as plain numbers grow large and have no period.",
        latex=r"p_{m+T}-p_m=T\ne0",
        source=Source(
            "004", "3.3 Simpler Encodings", "Raw numbers grow with the text and never repeat."
        ),
        verdict="holds",
        form="symbolic",
        truth="The numbers are large, not their steps: neighbors are always 1 apart.",
        derivation=_unbounded,
    ),
    Claim(
        id="one_hot.all_equally_far",
        number="C079",
        statement="One-hot positions 2 and 3 are as different as 2 and 5000.",
        latex=r"\|e_m-e_n\|=\sqrt2,\quad e_m\cdot e_n=0\quad(m\ne n)",
        source=Source(
            "004", "3.3 Simpler Encodings", "One channel a position has no notion of nearness."
        ),
        verdict="holds",
        form="symbolic",
        derivation=_equidistant,
    ),
    Claim(
        id="normalised_positions.step_depends_on_length",
        number="",
        statement="Positions divided by the length lie between 0 and 1, but one distance has "
        "another value in every length.",
        latex=r"p_{m+1}-p_m=\tfrac1{L-1}",
        source=Source("004", "3.3 Simpler Encodings", _LIST),
        verdict="holds",
        form="symbolic",
        derivation=_by_length,
    ),
    Claim(
        id="binary_positions.unique",
        number="",
        statement="Binary digits tell all positions apart, and digit b has the period 2^(b+1).",
        latex=r"\sum_{b<B}2^b\,\mathrm{bit}_b(m)=m\quad(m<2^B)",
        source=Source("004", "3.3 Simpler Encodings", _LIST),
        verdict="holds",
        form="symbolic",
        truth="As sines do, with periods of their own; sines have no jumps.",
        derivation=_binary,
    ),
    Claim(
        id="binary_positions.neighbors_jump",
        number="",
        statement="Neighbors can differ in every binary digit, and far positions in one.",
        latex=r"|\{b:\mathrm{bit}_b(2^k-1)\ne\mathrm{bit}_b(2^k)\}|=k+1",
        source=Source("004", "3.3 Simpler Encodings", _LIST),
        verdict="holds",
        form="exact",
        derivation=_jumps,
    ),
)
