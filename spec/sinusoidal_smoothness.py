"""Sinusoidal positions: what the summary says of them, and how similarity falls with distance.

Source: document 004 (3.2, smoothness; 3.3, simpler encodings).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.rotation import frequency, plane_kernel
from attnspec.spec.sinusoidal import chord, every_position
from attnspec.spec.sinusoidal_shifts import products
from attnspec.spec.sums import difference, distributed
from attnspec.spec.symbols import d, i, m, t, theta
from attnspec.spec.turns import kernel

_pairs = (i, 0, d / 2 - 1)
_w = sp.Symbol("omega", positive=True)
_x = sp.Symbol("x", real=True)


def _no_period() -> tuple[Step, ...]:
    turns = sp.Symbol("j", integer=True, nonzero=True)
    period = 200 * sp.pi
    return (
        Step(
            "|PE(m+T) - PE(m)|^2 is the sum of 2 - 2 cos(T omega_i), d symbolic",
            difference(
                sp.Sum(chord(theta[i], t), _pairs), sp.Sum(2 - 2 * sp.cos(t * theta[i]), _pairs)
            ),
        ),
        Step(
            "no term is negative, 2 - 2 cos(x) = 4 sin(x/2)^2, so a period makes each of them 0",
            sp.simplify(2 - 2 * sp.cos(_x) - 4 * sp.sin(_x / 2) ** 2),
        ),
        Step("omega_0 = 1 at every d", frequency(sp.S.Zero, d) - 1),
        Step(
            "and cos T = 1 needs T = 2 pi j, which is irrational: no whole number T > 0",
            (2 * sp.pi * turns).is_irrational,
        ),
        Step(
            "over the reals pair i has the period 2 pi / omega_i",
            sp.Matrix(
                [
                    sp.expand_trig(f(sp.expand(_w * (m + 2 * sp.pi / _w)))) - f(_w * m)
                    for f in (sp.sin, sp.cos)
                ]
            ),
        ),
        Step(
            "and d = 4 as a whole 200 pi, which is no whole number",
            sp.Matrix(
                [
                    f(sp.expand(w * (m + period))) - f(w * m)
                    for f in (sp.sin, sp.cos)
                    for w in (frequency(sp.Integer(pair), sp.Integer(4)) for pair in (0, 1))
                ]
            ),
        ),
    )


def _six_on() -> Counterexample:
    return Counterexample(
        "d = 2, whose one pair turns once in 2 pi = 6.28 positions: sine at position 6, stated to "
        "have come back to that at 0",
        stated=sp.sin(0),
        actual=sp.sin(6),
    )


def _first_rise(pairs: int, until: int) -> bool:
    """Whether the product falls up to a distance, and rises from there to the next."""
    ends = kernel(pairs, until + 1)
    falls = all(ends[a + 1][1] < ends[a][0] for a in range(until))
    return falls and ends[until + 1][0] > ends[until][1]


def _not_monotone() -> tuple[Step, ...]:
    slope = sp.diff(sp.cos(_w * t), t)
    inside = sp.Interval.open(0, sp.pi)
    return (
        *products(),
        Step(
            "|PE_m - PE_n|^2 = d - 2 K(m - n): a larger product is a smaller distance",
            sp.expand(
                distributed(sp.Sum(chord(theta[i], t), _pairs)).doit()
                - (d - 2 * sp.Sum(sp.cos(t * theta[i]), _pairs))
            ),
        ),
        Step(
            "the slope of cos(omega t) is -omega sin(omega t)",
            slope + _w * sp.sin(_w * t),
        ),
        Step("a sine between 0 and pi is not negative", sp.minimum(sp.sin(_x), _x, inside.closure)),
        Step(
            "nor 0: as 0 < omega_i <= 1, K falls while t < pi, at every d",
            sp.solveset(sp.sin(_x), _x, inside) == sp.S.EmptySet,
        ),
        Step(
            "so K(0) > K(1) > K(2) > K(3), as 3 is below pi",
            sp.FiniteSet(1, 2, 3).is_subset(inside),
        ),
        *(
            Step(f"d = {2 * pairs}: it rises first from {at} to {at + 1}", _first_rise(pairs, at))
            for pairs, at in ((2, 3), (64, 11))
        ),
        Step("d = 4: K(6) > K(1), so 6 apart is more similar than 1 apart",
             plane_kernel(2, 6) > plane_kernel(2, 1)),
        Step("d = 16: so is 596274 apart", plane_kernel(8, 596274) > plane_kernel(8, 1)),
    )  # fmt: skip


def _six_apart() -> Counterexample:
    return Counterexample(
        "d = 4: product of two encodings 6 apart, stated to be at most that of two 1 apart",
        stated=plane_kernel(2, 1),
        actual=plane_kernel(2, 6),
    )


_SUMMARY = Source(
    "004", "3.3 Simpler Encodings", "A list of what sinusoidal positions are said to have."
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="sinusoidal.no_integer_period",
        number="C080",
        statement="Sinusoidal encodings are periodic.",
        latex=r"\|PE(m+T)-PE(m)\|^2=\sum_i(2-2\cos T\omega_i)>0\quad(T\in\mathbb Z\setminus\{0\})",
        source=_SUMMARY,
        verdict="corrected",
        form="symbolic",
        truth="Each pair is, over the reals. The encoding of whole positions has no period, which "
        "is why it tells them all apart.",
        counterexample=_six_on,
        derivation=_no_period,
    ),
    Claim(
        id="sinusoidal.smooth",
        number="C081",
        statement="Sinusoidal encodings change smoothly from neighbor to neighbor.",
        latex=r"\|PE_{m+1}-PE_m\|^2=2\sum_i(1-\cos\omega_i)",
        source=_SUMMARY,
        verdict="holds",
        form="symbolic",
        truth="Every step is equally long.",
        same_as="sinusoidal.step_is_constant",
    ),
    Claim(
        id="sinusoidal.similarity_is_not_monotone",
        number="C082",
        statement="The nearer two positions, the more similar their sinusoidal encodings.",
        latex=r"K(t)=\sum_i\cos\omega_it:\ K(0)>K(1)>K(2)>K(3)\ \forall d,\quad "
        r"K(6)>K(1)\ (d=4)",
        source=Source(
            "004",
            "3.3 Simpler Encodings",
            "Sinusoidal positions are smooth, which 3.2 explains as nearer being more similar.",
        ),
        verdict="corrected",
        form="symbolic",
        truth="So it is up to distance 3 at every d, and up to 11 at d = 128. Beyond, the product "
        "of two encodings rises and falls.",
        counterexample=_six_apart,
        derivation=_not_monotone,
    ),
    Claim(
        id="sinusoidal.nothing_learned",
        number="C083",
        statement="Sinusoidal positions have no learned parameters.",
        latex=r"PE(m,c)=f(m,c,d)",
        source=_SUMMARY,
        verdict="holds",
        form="symbolic",
        same_as="sinusoidal.defined_at_every_position",
    ),
    Claim(
        id="sinusoidal.any_length",
        number="C084",
        statement="Sinusoidal positions generalize to any sequence length.",
        latex=r"\|PE(m)\|^2=d/2\quad\forall m",
        source=_SUMMARY,
        verdict="empirical",
        form="symbolic",
        truth="They are defined at every position, and equally long there. What a model makes of "
        "positions beyond its training is an experiment.",
        derivation=every_position,
    ),
)
