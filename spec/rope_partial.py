"""Partial RoPE: the first d_r channels turn, the rest stay as they are.

Source: document 004 (3.6, partial RoPE).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.exact_values import rounded
from attnspec.spec.rotation import block, displaced, exponent, frequency, plane_score, score
from attnspec.spec.sums import difference, reduced
from attnspec.spec.symbols import c, d, i, key, m, n, q, s, t

_head = sp.Symbol("d_k", integer=True, positive=True)
_turned = sp.Symbol("d_r", integer=True, positive=True, even=True)
_tail = sp.Sum(q[c] * key[c], (c, _turned, _head - 1))


def _rotated_part(at_query: sp.Expr, at_key: sp.Expr) -> sp.Sum:
    """The score's share of the first d_r channels."""
    turned_pairs: sp.Sum = score(q, key, at_query, at_key).subs(d, _turned)
    return turned_pairs


def _angles(channels: sp.Expr) -> sp.Expr:
    """How many angles a vector with that many turned channels needs."""
    return sp.Sum(sp.S.One, (i, 0, channels / 2 - 1)).doit()


def _split() -> tuple[Step, ...]:
    first = sp.Sum(q[c] * key[c], (c, 0, _turned - 1))
    in_pairs = sp.Sum(
        q[2 * i] * key[2 * i] + q[2 * i + 1] * key[2 * i + 1], (i, 0, _turned / 2 - 1)
    )
    pair = sp.Symbol("i", integer=True, positive=True)
    return (
        Step(
            "the turned part is q^T R_(n-m) k on d_r channels, for symbolic d_r",
            difference(_rotated_part(m, n), displaced(q, key, n - m).subs(d, _turned)),
        ),
        Step(
            "it doesn't change when both positions move together",
            difference(_rotated_part(m + s, n + s), _rotated_part(m, n)),
        ),
        Step("the tail from d_r to d_k doesn't move with m", sp.diff(_tail, m)),
        Step("nor with n", sp.diff(_tail, n)),
        Step(
            "at m = n the turned part is the plain product of those channels",
            difference(_rotated_part(m, m), in_pairs),
        ),
        Step(
            "channels 0 to d_r - 1 are d_r/2 whole pairs, as d_r is even",
            2 * _angles(_turned) - sp.Sum(sp.S.One, (c, 0, first.limits[0][2])).doit(),
        ),
        Step(
            "exponents -2i/d_r and -2i/d_k differ by 2i (d_r - d_k)/(d_r d_k): for i >= 1 and "
            "d_r < d_k they are different frequencies",
            sp.simplify(
                exponent(frequency(pair, _turned))
                - exponent(frequency(pair, _head))
                - 2 * pair * (_turned - _head) / (_turned * _head)
            ),
        ),
        Step(
            "d_r = 32: theta_1 rounds to 0.562341",
            rounded(frequency(sp.S.One, sp.Integer(32)), 6) - 562341,
        ),
        Step(
            "d_k = 128 in its place: 0.865964",
            rounded(frequency(sp.S.One, sp.Integer(128)), 6) - 865964,
        ),
    )


def _two_denominators() -> Counterexample:
    return Counterexample(
        "d_k = 8 with d_r = 4 channels turned: theta_1 with the denominator d_k of 3.5, against "
        "the denominator d_r in use",
        stated=frequency(sp.S.One, sp.Integer(8)),
        actual=frequency(sp.S.One, sp.Integer(4)),
    )


_STREAM = sp.Integer(64)
"""Channels of the position stream in DeepSeek-V2 and V3, all of which turn."""


def _whole_stream() -> tuple[Step, ...]:
    left = sp.Sum(sp.S.One, (c, _turned, _head - 1)).doit()
    return (
        Step("d_k - d_r channels are left untouched", sp.expand(left - (_head - _turned))),
        Step("none with d_r = d_k", left.subs(_head, _turned)),
        Step(
            "64 of 64 channels of the stream make 32 pairs",
            _angles(_STREAM) - 32,
        ),
    )


def _untouched_stream() -> Counterexample:
    return Counterexample(
        "DeepSeek-V2, a position stream of 64 channels: share that turns, stated by the example "
        "of 32 in 128",
        stated=sp.Rational(32, 128),
        actual=_STREAM / 64,
    )


def _example() -> tuple[Step, ...]:
    rotated, untouched = (sp.Sum(sp.S.One, (c, *ends)).doit() for ends in ((1, 32), (33, 128)))
    return (
        Step("channels 1 to 32 are 16 pairs", _angles(rotated) - 16),
        Step("33 to 128 are 96 channels", untouched - 96),
        Step("together 128", rotated + untouched - 128),
        Step("a quarter turns", rotated / (rotated + untouched) - sp.Rational(1, 4)),
    )


def _recoverable() -> tuple[Step, ...]:
    whole = sp.Symbol("j", integer=True, nonzero=True)
    k0, k1 = sp.symbols("k0 k1", real=True)
    vector = sp.ImmutableMatrix([k0, k1])
    apart = block(s) * vector - block(t) * vector
    return (
        Step(
            "two displacements s, t of one pair give keys that are 4 sin((s-t)/2)^2 |k|^2 apart",
            sp.simplify(
                reduced(apart.dot(apart))
                - reduced(sp.expand((2 - 2 * sp.cos(s - t)) * (k0**2 + k1**2)))
            ),
        ),
        Step(
            "with 2 - 2 cos = 4 sin^2 of half the angle",
            sp.simplify(2 - 2 * sp.cos(t) - 4 * sp.sin(t / 2) ** 2),
        ),
        Step(
            "which is 0 for k != 0 only where s - t = 2 pi j: irrational for j != 0, so integers s "
            "and t are equal",
            (2 * sp.pi * whole).is_irrational,
        ),
        Step("theta_0 is 1, whatever d_r", frequency(sp.S.Zero, _turned) - 1),
        Step(
            "the probes (1, 0) and (0, 1) read the turned key off: k = (1, 0) scores cos t",
            plane_score((1, 0), (1, 0), t) - sp.cos(t),
        ),
        Step("and sin t", plane_score((0, 1), (1, 0), t) - sp.sin(t)),
        Step(
            "one probe isn't enough: cos t is also the score at -t",
            plane_score((1, 0), (1, 0), t) - plane_score((1, 0), (1, 0), -t),
        ),
    )


def _one_probe() -> Counterexample:
    near = {plane_score((1, 0), (1, 0), sp.Integer(a)) for a in (-1, 1)}
    return Counterexample(
        "one turned pair with theta_0 = 1, q = k = (1, 0): different scores at the displacements "
        "-1 and +1",
        stated=sp.Integer(2),
        actual=sp.Integer(len(near)),
    )


def _fewer_angles() -> tuple[Step, ...]:
    rest = sp.Symbol("r", integer=True, nonnegative=True)
    return (
        Step("d_r/2 angles a position", _angles(_turned) - _turned / 2),
        Step(
            "instead of d_k/2, which is as many or more for d_r <= d_k",
            ((_turned + rest) / 2 - _angles(_turned)).is_nonnegative,
        ),
        Step("the tail's score doesn't move with m", sp.diff(_tail, m)),
        Step("nor with n", sp.diff(_tail, n)),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="rope.partial_splits",
        number="C128",
        statement="Turning the first d_r channels and leaving the rest splits the score in a "
        "relative part and one of content.",
        latex=r"q_{:d_r}^TR_{n-m}k_{:d_r}+q_{d_r:}^Tk_{d_r:}",
        source=Source("004", "3.6 Partial RoPE", "Leading channels rotate, the others do not."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "d_r is even and at most d_k"),
            Condition("D2", "the exponent's denominator, d_r or d_k, is settled: they differ"),
        ),
        truth="With d_r = 32 of d_k = 128, theta_1 is 0.562341 by d_r and 0.865964 by d_k.",
        counterexample=_two_denominators,
        derivation=_split,
    ),
    Claim(
        id="rope.whole_stream_turns",
        number="C129",
        statement="Within DeepSeek's small position stream only some channels are rotated.",
        latex=r"d_r=d_h^R=64",
        source=Source(
            "004", "3.6 Partial RoPE", "Even the small position stream is rotated in part only."
        ),
        verdict="refuted",
        form="exact",
        truth="In DeepSeek-V2 and V3 all 64 channels of the stream turn. Partial RoPE is a design "
        "of its own (GPT-J, GPT-NeoX). The derivation checks the counts; the 64 is from the "
        "DeepSeek-V2 paper.",
        counterexample=_untouched_stream,
        derivation=_whole_stream,
    ),
    Claim(
        id="rope.partial_example",
        number="C130",
        statement="With 128 channels, 1 to 32 are rotated and 33 to 128 are not.",
        latex=r"16\text{ pairs},\ 96\text{ untouched}",
        source=Source("004", "3.6 Partial RoPE", "An example with the first 32 of 128 channels."),
        verdict="holds",
        form="exact",
        derivation=_example,
    ),
    Claim(
        id="rope.displacement_recoverable",
        number="C131",
        statement="A subset of the channels suffices to recover position.",
        latex=r"R_sk=R_tk\Rightarrow s=t\quad(s,t\in\mathbb Z,\ k\ne0,\ \theta_0=1)",
        source=Source(
            "004", "3.6 Partial RoPE", "Some channels carry all the position that scores need."
        ),
        verdict="holds-if",
        form="block",
        conditions=(
            Condition(
                "D1",
                "a rotated pair has a frequency such as theta_0 = 1, of which no "
                "integer multiple is a whole turn",
            ),
            Condition("D2", "the key isn't zero on that pair"),
            Condition("D3", "queries can probe both of its directions"),
        ),
        truth="The turned key of one pair determines the integer displacement. A single score "
        "does not: q = k = (1, 0) scores the same at +t and -t. That it is all attention needs "
        "is empirical.",
        counterexample=_one_probe,
        derivation=_recoverable,
    ),
    Claim(
        id="rope.partial_costs_less",
        number="C132",
        statement="Fewer sines and cosines; positions never touch the other channels.",
        latex=r"d_r/2\le d_k/2",
        source=Source(
            "004", "3.6 Partial RoPE", "Less trigonometry, and content channels left alone."
        ),
        verdict="holds",
        form="symbolic",
        derivation=_fewer_angles,
    ),
)
