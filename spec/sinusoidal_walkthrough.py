"""Sinusoidal positions in numbers: the slowest pair, and the example with four channels.

Source: document 004 (3.3, the formula's clocks and the walkthrough). Encodings are unique at
integer positions; what rounding does to that is in `sinusoidal_precision`.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.exact_values import rounded
from attnspec.spec.rotation import frequency
from attnspec.spec.sinusoidal import channel, chord
from attnspec.spec.sinusoidal_precision import collisions
from attnspec.spec.sums import reduced
from attnspec.spec.symbols import d, m, n

_FOUR = sp.Integer(4)


def _row(position: sp.Expr) -> tuple[sp.Expr, ...]:
    """The definition's four channels at a position, d = 4."""
    return tuple(
        channel("interleaved", sp.Integer(place), _FOUR).subs(m, position) for place in range(4)
    )


def _four_channels() -> tuple[Step, ...]:
    hundredth = m / 100
    wanted = (sp.sin(m), sp.cos(m), sp.sin(hundredth), sp.cos(hundredth))
    return (
        Step("omega_0 = 1", frequency(sp.S.Zero, _FOUR) - 1),
        Step("omega_1 = 10000^(-1/2) = 1/100", frequency(sp.S.One, _FOUR) - sp.Rational(1, 100)),
        *(
            Step(f"channel {place} is {value}", found - value)
            for place, (found, value) in enumerate(zip(_row(m), wanted, strict=True))
        ),
    )


def _ranges() -> list[sp.Expr]:
    """Largest less smallest value of each channel over positions 0 to 3, d = 4."""
    columns = zip(*(_row(sp.Integer(position)) for position in range(4)), strict=True)
    return [sp.Max(*column) - sp.Min(*column) for column in columns]


def _swing() -> tuple[Step, ...]:
    ranges = _ranges()
    hundred_thousandths = [rounded(size, 5) for size in ranges]
    return (
        *_four_channels(),
        Step(
            "over positions 0 to 3 the channels range over 0.90930, 1.98999, 0.03000 and 0.00045",
            sp.Matrix(hundred_thousandths) - sp.Matrix([90930, 198999, 3000, 45]),
        ),
        Step("channel 0 swings 30 times as far as channel 2", ranges[0] > 30 * ranges[2]),
        Step("and channel 1 4000 times as far as channel 3", ranges[1] > 4000 * ranges[3]),
    )


def _slowest() -> tuple[Step, ...]:
    length = sp.Symbol("T", positive=True)
    turned = length * frequency(d / 2 - 1, d)
    wide = 5000 * frequency(sp.Integer(255), sp.Integer(512))
    narrow = 1000 * frequency(sp.S.One, _FOUR)
    return (
        Step(
            "T positions turn the last pair by T 10000^(-1 + 2/d)",
            sp.simplify(
                sp.expand_log(sp.log(turned / length), force=True)
                - (-1 + 2 / d) * sp.expand_log(sp.log(10000))
            ),
        ),
        Step(
            "d = 512: 0.518 of a radian in 5000 positions",
            rounded(wide, 3) - 518,
        ),
        Step(
            "over which its cosine falls from 1 to 0.869",
            rounded(sp.cos(wide), 3) - 869,
        ),
        Step("d = 4: 10 radians in 1000 positions", narrow - 10),
        Step("1.59 turns", rounded(narrow / (2 * sp.pi), 2) - 159),
    )


def _turns_at_four() -> Counterexample:
    return Counterexample(
        "d = 4: angle by which the last pair turns in 1000 positions, stated by the frequency "
        "1/10000",
        stated=1000 * frequency(_FOUR / 2, _FOUR),
        actual=1000 * frequency(_FOUR / 2 - 1, _FOUR),
    )


def _unique() -> tuple[Step, ...]:
    turns = sp.Symbol("j", integer=True, nonzero=True)
    zero, turned = _row(sp.S.Zero), _row(200 * sp.pi)
    return (
        Step("pair 0 has omega_0 = 1 at every d", frequency(sp.S.Zero, d) - 1),
        Step(
            "on it two positions are 2 - 2 cos(m - n) apart, squared",
            reduced(chord(sp.S.One, n - m) - (2 - 2 * sp.cos(m - n))),
        ),
        Step(
            "which is 4 sin^2 of half the difference: 0 where m - n = 2 pi j",
            sp.simplify(2 - 2 * sp.cos(m) - 4 * sp.sin(m / 2) ** 2),
        ),
        Step(
            "an irrational number for j != 0: integers with equal encodings are equal",
            (2 * sp.pi * turns).is_irrational,
        ),
        Step(
            "d = 4: the real positions 0 and 200 pi have equal encodings",
            sp.Matrix(turned) - sp.Matrix(zero),
        ),
        *collisions(),
    )


def _encodings(positions: tuple[sp.Expr, ...]) -> sp.Integer:
    return sp.Integer(len({_row(position) for position in positions}))


def _whole_turns() -> Counterexample:
    return Counterexample(
        "d = 4: how many encodings the real positions 0 and 200 pi have",
        stated=sp.Integer(2),
        actual=_encodings((sp.S.Zero, 200 * sp.pi)),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="sinusoidal.slowest_pair",
        number="C068",
        statement="The slowest pair barely moves over thousands of positions.",
        latex=r"T\,\omega_{d/2-1}=T\cdot10000^{-1+2/d}",
        source=Source("004", "3.3 Formula", "The last pair is all but still."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition(
                "D1",
                "d is large: over T positions the pair turns by T 10000^(-1 + 2/d) radians, which "
                "is to be far below a turn",
            ),
        ),
        truth="At d = 512 it turns by 0.52 in 5000 positions, at d = 4 by 10 in 1000: more than a "
        "turn and a half.",
        counterexample=_turns_at_four,
        derivation=_slowest,
    ),
    Claim(
        id="sinusoidal.four_channels",
        number="C069",
        statement="With d = 4 the frequencies are 1 and 1/100, the channels sin m, cos m, "
        "sin(m/100) and cos(m/100).",
        latex=r"PE(m)=(\sin m,\cos m,\sin\tfrac m{100},\cos\tfrac m{100})",
        source=Source("004", "3.3 Walkthrough", "The four channels of the smallest example."),
        verdict="holds",
        form="fixed",
        derivation=_four_channels,
    ),
    Claim(
        id="sinusoidal.four_channels_swing",
        number="C070",
        statement="Over four positions channels 0 and 1 swing widely, 2 and 3 hardly move.",
        latex=r"0.909,\ 1.990\quad\text{against}\quad0.0300,\ 0.00045",
        source=Source(
            "004", "3.3 Walkthrough", "The first two channels are fast, the others slow."
        ),
        verdict="holds",
        form="exact",
        derivation=_swing,
    ),
    Claim(
        id="sinusoidal.unique_of_integers",
        number="C071",
        statement="The four numbers are a unique fingerprint of each position.",
        latex=r"PE(m)=PE(n)\Rightarrow m=n\quad(m,n\in\mathbb Z)",
        source=Source("004", "3.3 Walkthrough", "No two positions share their four numbers."),
        verdict="holds-if",
        form="block",
        conditions=(
            Condition("D1", "positions are integers; the real numbers 0 and 200 pi share theirs"),
            Condition(
                "D2",
                "the numbers aren't rounded to bfloat16, in which 7 and 84830 share theirs",
            ),
        ),
        truth="Pair 0 alone is unique at every d, since pi is irrational.",
        counterexample=_whole_turns,
        derivation=_unique,
    ),
)
