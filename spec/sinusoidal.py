"""Sinusoidal positions: the formula, its frequencies, and where it is defined.

Sources: document 004 (3.2, two families; 3.3, the formula). What one encoding says of another is
in `sinusoidal_shifts`, the example with its numbers in `sinusoidal_walkthrough`, the encoding as
a part of attention's input in `sinusoidal_addition`.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.definition import unmarked
from attnspec.spec.exact_values import rounded
from attnspec.spec.rope_layouts import places
from attnspec.spec.rotation import BASE, frequency
from attnspec.spec.sinusoidal_definition import PAIRING, sinusoidal
from attnspec.spec.sums import reduced
from attnspec.spec.symbols import d, i, m, theta

_pairs = (i, 0, d / 2 - 1)


def encoded(position: sp.Expr, rate: sp.Expr = theta[i]) -> tuple[sp.Expr, sp.Expr]:
    """Sine and cosine of a pair at a position: pair i, for any frequency theta_i, or one of the
    frequency that is given."""
    return sp.sin(position * rate), sp.cos(position * rate)


def channel(layout: str, place: sp.Expr, size: sp.Expr) -> sp.Expr:
    """A channel of the definition at position m, with `size` channels and base 10000."""
    definition = sinusoidal(layout)
    (positions,), (_, dim, base) = definition.arrays, definition.parameters
    row, channels = (axis for axis, _ in definition.axes)
    value = unmarked(definition.expression).subs(dim, size).subs(channels, place)
    return value.subs(positions[row], m).subs(base, BASE)


def formula() -> tuple[Step, ...]:
    """The steps of `sinusoidal.definition`."""
    steps: list[Step] = []
    for layout, pairing in PAIRING.items():
        at_sine, at_cosine, size = places(pairing, i, d)
        angle = m / BASE ** (2 * i / size)
        steps += [
            Step(
                f"{layout}: the sine of pair i is sin(m / 10000^(2i/d))",
                sp.simplify(channel(layout, at_sine, size) - sp.sin(angle)),
            ),
            Step(
                f"{layout}: its cosine is cos(m / 10000^(2i/d))",
                sp.simplify(channel(layout, at_cosine, size) - sp.cos(angle)),
            ),
        ]
    return tuple(steps)


def _even_size() -> tuple[Step, ...]:
    whole = sp.Symbol("p", integer=True, nonnegative=True)
    odd = 2 * whole + 1
    return (
        *formula(),
        Step(
            "i = 0 to d/2 - 1 gives a sine and a cosine each: d channels",
            sp.Sum(sp.Integer(2), _pairs).doit() - d,
        ),
        Step("an odd d has a channel more than its whole pairs", odd - 2 * sp.floor(odd / 2) - 1),
    )


def _odd_size() -> Counterexample:
    size = sp.Integer(5)
    return Counterexample(
        "d = 5: channels that whole pairs of a sine and a cosine fill, stated to be d",
        stated=size,
        actual=2 * sp.floor(size / 2),
    )


def _unit_pairs() -> tuple[Step, ...]:
    sine, cosine = encoded(m)
    norm = sp.Sum(reduced(sine**2 + cosine**2), _pairs)
    return (
        Step("sin^2 + cos^2 = 1 in every pair", reduced(sine**2 + cosine**2) - 1),
        Step("so |PE(m)|^2 = d/2 at every position, d symbolic", norm.doit() - d / 2),
        Step("at position 0 every sine is 0", sine.subs(m, 0)),
        Step("and every cosine 1", cosine.subs(m, 0) - 1),
        Step("no channel is above 1 in size: 1 - sin^2 is a square", reduced(1 - sine**2)
             - cosine**2),
    )  # fmt: skip


def every_position() -> tuple[Step, ...]:
    """The steps of `sinusoidal.defined_at_every_position`."""
    angle = m * frequency(i, d)
    value = channel("interleaved", 2 * i, d)
    return (
        Step(
            "a channel depends on the position, the pair and the size, and on nothing learned",
            sp.Integer(len(value.free_symbols ^ {m, i, d})),
        ),
        Step("the sine of a real angle is finite", sp.sin(angle).is_finite),
        Step("and so is the cosine", sp.cos(angle).is_finite),
        *_unit_pairs()[:2],
    )


def _frequencies() -> tuple[Step, ...]:
    listed = 1 / BASE ** (2 * i / d)
    ratio = frequency(i + 1, d) / frequency(i, d)
    return (
        Step("one over a power is the power of the opposite exponent", listed - frequency(i, d)),
        Step("each is 10000^(-2/d) times the one before", sp.simplify(ratio - BASE ** (-2 / d))),
        *formula(),
    )


def chord(rate: sp.Expr, distance: sp.Expr = sp.S.One) -> sp.Expr:
    """|p(m + t) - p(m)|^2 for a pair of some frequency and a distance t."""
    here, there = (encoded(position, rate) for position in (m, m + distance))
    return reduced(sum((x - y) ** 2 for x, y in zip(there, here, strict=True)))


def _first_frequency() -> tuple[Step, ...]:
    step = chord(sp.S.One)
    return (
        Step("10000^0 = 1 at every d", frequency(sp.S.Zero, d) - 1),
        Step(
            "one position on, pair 0 has moved by 2 sin(1/2), wherever it is: its square is "
            "2 - 2 cos 1",
            step - (2 - 2 * sp.cos(1)),
        ),
        Step("which is more than 9/10, of at most 4", step > sp.Rational(9, 10)),
        Step(
            "and more than any other pair moves: cos falls from 0 to 1, where all angles lie",
            sp.maximum(sp.diff(sp.cos(m), m), m, sp.Interval(0, 1)),
        ),
    )


def _falling() -> tuple[Step, ...]:
    ratio = frequency(i + 1, d) / frequency(i, d)
    return (
        Step("omega_1 = 10000^(-2/d)", frequency(sp.S.One, d) - BASE ** (-2 / d)),
        Step(
            "omega_(i+1) / omega_i has the logarithm -2 log(10000)/d",
            sp.simplify(sp.expand_log(sp.log(ratio), force=True) + 2 * sp.log(BASE) / d),
        ),
        Step("which is negative, so the frequencies fall at every i", (-2 * sp.log(BASE) / d)
             .is_negative),
        Step("starting from 1", frequency(sp.S.Zero, d) - 1),
    )  # fmt: skip


def _last_frequency() -> tuple[Step, ...]:
    size = sp.Symbol("d", positive=True)
    exponent = sp.expand(-2 * (d / 2 - 1) / d)
    wide = rounded(frequency(sp.Integer(255), sp.Integer(512)), 8)
    return (
        Step("the exponent of pair d/2 - 1 is -1 + 2/d", exponent - (-1 + 2 / d)),
        Step("which is above -1 at every d", sp.expand(exponent + 1).is_positive),
        Step(
            "and comes to it as d grows: 1/10000 is the limit",
            sp.limit(BASE ** (-1 + 2 / size), size, sp.oo) - sp.Rational(1, 10000),
        ),
        Step("d = 2: 1", frequency(sp.S.Zero, sp.Integer(2)) - 1),
        Step("d = 4: 1/100", frequency(sp.S.One, sp.Integer(4)) - sp.Rational(1, 100)),
        Step("d = 512: 1.0366 / 10000", wide - 10366),
    )


def _last_at_four() -> Counterexample:
    size = sp.Integer(4)
    return Counterexample(
        "d = 4: frequency of the last pair, i = 1",
        stated=frequency(size / 2, size),
        actual=frequency(size / 2 - 1, size),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="sinusoidal.definition",
        number="",
        statement="The expression that the suite evaluates has the sine and the cosine of "
        "m / 10000^(2i/d) in the two channels of pair i, in either layout.",
        latex=r"(\sin\omega_im,\cos\omega_im)\text{ at }(2i,2i+1)\text{ or }(i,i+d/2)",
        source=Source("004", "3.3 Formula", "Sines in even channels, cosines in odd ones."),
        verdict="holds",
        form="symbolic",
        truth="The document interleaves. Concatenated tables, with all sines first, are a fixed "
        "permutation of it.",
        derivation=formula,
    ),
    Claim(
        id="sinusoidal.unit_pairs",
        number="",
        statement="Each pair has length 1, so every encoding has the squared norm d/2.",
        latex=r"\sin^2+\cos^2=1,\quad\|PE(m)\|^2=d/2",
        source=Source("004", "3.3 Relative Position", "The product of an encoding with itself."),
        verdict="holds",
        form="symbolic",
        derivation=_unit_pairs,
    ),
    Claim(
        id="sinusoidal.defined_at_every_position",
        number="C062",
        statement="An encoding by a rule, without learned parameters, has a value at any position.",
        latex=r"|\sin\omega_im|\le1,\ |\cos\omega_im|\le1\quad\forall m\in\mathbb R",
        source=Source(
            "004", "3.2 Two Families", "A formula can be evaluated where training never was."
        ),
        verdict="holds",
        form="symbolic",
        truth="That it has a value says nothing of what a model makes of it.",
        derivation=every_position,
    ),
    Claim(
        id="sinusoidal.channels",
        number="C063",
        statement="Channel 2i is sin(m / 10000^(2i/d)) and channel 2i + 1 the cosine, for "
        "i = 0 to d/2 - 1.",
        latex=r"PE(m,2i)=\sin(m/10000^{2i/d}),\quad PE(m,2i+1)=\cos(m/10000^{2i/d})",
        source=Source("004", "3.3 Formula", "Pairs of a sine and a cosine across the channels."),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "d is even: an odd d leaves a channel without a formula"),),
        counterexample=_odd_size,
        derivation=_even_size,
    ),
    Claim(
        id="sinusoidal.frequencies",
        number="C064",
        statement="The frequency of pair i is 10000^(-2i/d).",
        latex=r"\omega_i=10000^{-2i/d}",
        source=Source("004", "3.3 Formula", "A frequency for each pair, to shorten the formula."),
        verdict="holds",
        form="symbolic",
        truth="A geometric sequence of ratio 10000^(-2/d).",
        derivation=_frequencies,
    ),
    Claim(
        id="sinusoidal.first_frequency",
        number="C065",
        statement="Pair 0 has the frequency 1 and moves noticeably at every position.",
        latex=r"\omega_0=1,\quad\|p_{m+1}-p_m\|^2=2-2\cos1",
        source=Source("004", "3.3 Formula", "The first pair is the fast one."),
        verdict="holds",
        form="symbolic",
        derivation=_first_frequency,
    ),
    Claim(
        id="sinusoidal.frequencies_fall",
        number="C066",
        statement="Pair 1 has the frequency 10000^(-2/d), which is slower.",
        latex=r"\omega_{i+1}/\omega_i=10000^{-2/d}<1",
        source=Source("004", "3.3 Formula", "The second pair is slower than the first."),
        verdict="holds",
        form="symbolic",
        derivation=_falling,
    ),
    Claim(
        id="sinusoidal.last_frequency",
        number="C067",
        statement="The last pair has the frequency 1/10000.",
        latex=r"\omega_{d/2-1}=10000^{-1+2/d}>10000^{-1}",
        source=Source("004", "3.3 Formula", "The last frequency is 10000 to the power -1."),
        verdict="corrected",
        form="symbolic",
        truth="It is 10000^(-1 + 2/d): 1/100 at d = 4, 1.0366/10000 at d = 512. 1/10000 is its "
        "limit as d grows.",
        counterexample=_last_at_four,
        derivation=_last_frequency,
    ),
)
