"""RoPE: the frequency of each pair, and that nothing in it is learned.

Sources: document 000 (3 and 4), document 003 (3), document 004 (3.5, many dimensions).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.rotation import BASE, exponent, frequency, turned
from attnspec.spec.symbols import d, i, m, theta, x


def no_parameters() -> tuple[Step, ...]:
    """The steps of `rope.no_parameters`."""
    angle = m * frequency(i, d)
    return (
        Step(
            "an angle has no free symbol but position, pair and size",
            sp.Integer(len(angle.free_symbols - {m, i, d})),
        ),
        Step(
            "and a turned pair none but those and the vector's entries",
            sp.Integer(
                len(
                    sp.Matrix(turned(x, m)).subs(theta[i], frequency(i, d)).free_symbols
                    - {m, i, d, x, x[2 * i], x[2 * i + 1], x.label}
                )
            ),
        ),
    )


def _listed_frequencies() -> tuple[Step, ...]:
    listed = 1 / BASE ** (i * 2 / d)
    return (
        Step("1 / base^(2 j / dim) = base^(-2 j / dim)", listed - frequency(i, d)),
        Step(
            "j runs over dim/2 values, one a pair",
            sp.Sum(sp.S.One, (i, 0, d / 2 - 1)).doit() - d / 2,
        ),
        *_range_of_frequencies(),
    )


def _range_of_frequencies() -> tuple[Step, ...]:
    ratio = frequency(i + 1, d) / frequency(i, d)
    return (
        Step("the first is 1", frequency(sp.S.Zero, d) - 1),
        Step("each is base^(-2/d) times the one before", sp.simplify(ratio - BASE ** (-2 / d))),
        Step(
            "the last has the exponent -1 + 2/d",
            sp.expand(exponent(frequency(d / 2 - 1, d)) - (-1 + 2 / d)),
        ),
    )


def _one_based() -> tuple[Step, ...]:
    counted_from_one = BASE ** (-2 * (i - 1) / d)
    return (
        Step(
            "i -> i + 1 takes it to the formula that counts from 0",
            counted_from_one.subs(i, i + 1) - frequency(i, d),
        ),
        Step("i = 1 is the first, 1", counted_from_one.subs(i, 1) - 1),
        Step(
            "i = d/2 the last",
            counted_from_one.subs(i, d / 2) - frequency(d / 2 - 1, d),
        ),
    )


def _sinusoidal_frequencies() -> tuple[Step, ...]:
    head, width = sp.symbols("d_k d", integer=True, positive=True)
    pair = sp.Symbol("i", integer=True, positive=True)
    return (
        *_range_of_frequencies(),
        Step("equal sizes give equal frequencies", frequency(pair, d) - BASE ** (-2 * pair / d)),
        Step(
            "the exponents -2i/d_k and -2i/d differ by 2i (d_k - d) / (d d_k): for i >= 1 they "
            "agree for d_k = d only",
            sp.simplify(
                exponent(frequency(pair, head))
                - exponent(frequency(pair, width))
                - 2 * pair * (head - width) / (width * head)
            ),
        ),
        Step("d = 8: omega_1 = 1/10", frequency(sp.S.One, sp.Integer(8)) - sp.Rational(1, 10)),
        Step(
            "two heads, d_k = 4: theta_1 = 1/100",
            frequency(sp.S.One, sp.Integer(4)) - sp.Rational(1, 100),
        ),
    )


def _two_heads() -> Counterexample:
    return Counterexample(
        "d = 8 in two heads of d_k = 4: theta_1, stated to be the sinusoidal omega_1",
        stated=frequency(sp.S.One, sp.Integer(8)),
        actual=frequency(sp.S.One, sp.Integer(4)),
    )


def _first_block() -> tuple[Step, ...]:
    return (
        Step(
            "block 1 by its own index would turn by theta_1 = base^(-2/d_k)",
            frequency(sp.S.One, d) - BASE ** (-2 / d),
        ),
        Step(
            "by theta_0 = 1 it turns, as the same section's components do",
            frequency(sp.S.Zero, d) - 1,
        ),
        Step(
            "block d_k/2 by its own index would turn by 1/10000, which isn't among the frequencies",
            frequency(d / 2, d) - sp.Rational(1, 10000),
        ),
        Step(
            "the smallest of them, base^(-1 + 2/d), is larger by base^(2/d)",
            sp.expand(exponent(frequency(d / 2 - 1, d) / frequency(d / 2, d)) - 2 / d),
        ),
        Step(
            "block i with theta_(i-1), for i = 1 to d/2, is the formula that counts from 0",
            BASE ** (-2 * (i - 1) / d) - frequency(i - 1, d),
        ),
    )


def _shifted_blocks() -> Counterexample:
    return Counterexample(
        "d_k = 2, whose only block is block 1: its angle per position",
        stated=frequency(sp.S.One, sp.Integer(2)),
        actual=frequency(sp.S.Zero, sp.Integer(2)),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="rope.no_parameters",
        number="A18",
        statement="RoPE has no learned parameters.",
        latex=r"\theta_i=10000^{-2i/d}",
        source=Source("000", "3 Mechanism", "Zero learned parameters."),
        verdict="holds",
        form="symbolic",
        derivation=no_parameters,
    ),
    Claim(
        id="rope.listed_frequencies",
        number="A22",
        statement="The listing's frequencies are base^(-2 j / dim) for j = 0 to dim/2 - 1.",
        latex=r"\theta_j=\mathrm{base}^{-2j/\mathrm{dim}}",
        source=Source("000", "4 Code", "An array of inverse frequencies, one a pair."),
        verdict="holds",
        form="symbolic",
        derivation=_listed_frequencies,
    ),
    Claim(
        id="rope.one_based_frequencies",
        number="B08",
        statement="Frequencies counted from 1 are 10000^(-2(i-1)/d).",
        latex=r"\theta_i=10000^{-2(i-1)/d},\ i=1..d/2",
        source=Source("003", "3 Mechanism", "Frequency angles of the rotation, counted from one."),
        verdict="holds",
        form="symbolic",
        truth="d is the dimension of a head.",
        derivation=_one_based,
    ),
    Claim(
        id="rope.frequencies",
        number="C105",
        statement="Frequencies counted from 0 are 10000^(-2i/d_k).",
        latex=r"\theta_i=10000^{-2i/d_k},\ i=0..d_k/2-1",
        source=Source("004", "3.5 Many Dimensions", "A frequency for each of d_k/2 pairs."),
        verdict="holds",
        form="symbolic",
        truth="For even d_k: they fall from 1 to 10000^(-1 + 2/d_k) by a constant ratio.",
        same_as="rope.listed_frequencies",
    ),
    Claim(
        id="rope.sinusoidal_frequencies",
        number="C106",
        statement="The frequencies are those of sinusoidal positions.",
        latex=r"10000^{-2i/d_k}=10000^{-2i/d}\iff d_k=d\ (i\ge1)",
        source=Source("004", "3.5 Many Dimensions", "The same idea of many frequencies as in 3.3."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "one head, d_k = d, if the frequencies and not the idea are meant"),
        ),
        counterexample=_two_heads,
        derivation=_sinusoidal_frequencies,
    ),
    Claim(
        id="rope.first_block_has_first_frequency",
        number="C107",
        statement="Block i, counted from 1 to d_k/2, uses theta_i, which is counted from 0.",
        latex=r"\mathrm{block}_i=R(m\theta_{i-1}),\ i=1..d_k/2",
        source=Source(
            "004", "3.5 Many Dimensions", "Blocks 1 to d_k/2 with the frequency of their index."
        ),
        verdict="corrected",
        form="symbolic",
        truth="Block i uses theta_(i-1). Otherwise theta_0 = 1 is lost and 1/10000 comes in.",
        counterexample=_shifted_blocks,
        derivation=_first_block,
    ),
)
