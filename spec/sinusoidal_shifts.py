"""Sinusoidal positions: what the encoding of one position says of another.

Source: document 004 (3.2, the properties; 3.3, the relative position property). Moving on by k is
one rotation, whatever the position, so products of encodings know the distance alone.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.rotation import block
from attnspec.spec.sinusoidal import chord, encoded, every_position
from attnspec.spec.sums import difference, reduced
from attnspec.spec.symbols import c, d, i, m, n, s, t, theta, x
from attnspec.spec.turns import UNIT, kernel

_pairs = (i, 0, d / 2 - 1)
_a, _b = sp.symbols("a b", real=True)


def shift(angle: sp.Expr) -> sp.ImmutableMatrix:
    """What moves a pair (sin, cos) on by an angle."""
    return sp.ImmutableMatrix([[sp.cos(angle), sp.sin(angle)], [-sp.sin(angle), sp.cos(angle)]])


def product(first: sp.Expr, second: sp.Expr) -> sp.Sum:
    """The dot product of the encodings of two positions, over all d/2 pairs."""
    terms = zip(encoded(first), encoded(second), strict=True)
    return sp.Sum(sum(a * b for a, b in terms), _pairs)


def _shifted(row: int, offset: sp.Expr) -> sp.Expr:
    """Row 2i or 2i+1 of the d x d shift times a vector x: a sum over all columns."""
    entries = shift(offset * theta[i])[row, :]
    picked = (sp.KroneckerDelta(c, 2 * i + k, (0, d - 1)) for k in range(2))
    terms = (entry * delta * x[c] for entry, delta in zip(entries, picked, strict=True))
    return sp.Add(*(sp.Sum(term, (c, 0, d - 1)).doit() for term in terms))


def shifts() -> tuple[Step, ...]:
    """The steps of `sinusoidal.shift_is_a_rotation`."""
    sine, cosine = encoded(m)
    here = {x[2 * i]: sine, x[2 * i + 1]: cosine}
    first, second = shift(_a), shift(_b)
    return (
        *(
            Step(
                f"row {name} of the d x d matrix M_k takes PE(m) to PE(m + k)",
                reduced(_shifted(row, t).subs(here) - encoded(m + t)[row]),
            )
            for row, name in enumerate(("2i", "2i + 1"))
        ),
        Step(
            "no entry of M_k moves with m",
            sp.Matrix([_shifted(row, t).diff(m) for row in range(2)]),
        ),
        Step("M^T M = I", (first.T * first - sp.eye(2)).applyfunc(reduced)),
        Step("det M = 1: a rotation", reduced(first.det()) - 1),
        Step("by the angle -k omega, in this order of sine and cosine", first - block(-_a)),
        Step("M_k M_l = M_(k+l)", (first * second - shift(_a + _b)).applyfunc(reduced)),
    )


def _addition() -> tuple[Step, ...]:
    sine = sp.sin(_a) * sp.cos(_b) + sp.cos(_a) * sp.sin(_b)
    cosine = sp.cos(_a) * sp.cos(_b) - sp.sin(_a) * sp.sin(_b)
    pair = sp.ImmutableMatrix(encoded(_a, sp.S.One))
    return (
        Step(
            "sin(a + b), through complex exponentials",
            sp.expand((sp.sin(_a + _b) - sine).rewrite(sp.exp)),
        ),
        Step("cos(a + b)", sp.expand((sp.cos(_a + _b) - cosine).rewrite(sp.exp))),
        Step(
            "the two right sides are the two rows of M_k p_m, with a = omega m and b = omega k",
            shift(_b) * pair - sp.ImmutableMatrix([sine, cosine]),
        ),
    )


def products() -> tuple[Step, ...]:
    """The steps of `sinusoidal.product_is_sum_of_cosines`."""
    cosines = sp.Sum(sp.cos(m * theta[i] - n * theta[i]), _pairs)
    return (
        Step(
            "sin sin + cos cos = cos of the difference, over all pairs of symbolic d",
            difference(product(m, n), cosines),
        ),
        Step("at m = n it is |PE(m)|^2 = d/2", difference(product(m, m), sp.Sum(1, _pairs))),
        Step("d/2 pairs", sp.Sum(1, _pairs).doit() - d / 2),
        Step(
            "no other displacement has more: 1 - cos(t) = 2 sin(t/2)^2",
            sp.simplify(1 - sp.cos(t) - 2 * sp.sin(t / 2) ** 2),
        ),
    )


def _distance_alone() -> tuple[Step, ...]:
    return (
        Step(
            "moving both positions by the same shift changes nothing",
            difference(product(m + s, n + s), product(m, n)),
        ),
        Step(
            "nor does the sign of the displacement",
            difference(product(m, m + t), product(m, m - t)),
        ),
    )


def _read_off() -> tuple[Step, ...]:
    (sine_m, cosine_m), (sine_n, cosine_n) = encoded(m), encoded(n)
    turns = sp.Symbol("j", integer=True, nonzero=True)
    return (
        Step(
            "PE(m) and PE(n) give the cosine of omega_i (m - n)",
            reduced(sine_m * sine_n + cosine_m * cosine_n - sp.cos(m * theta[i] - n * theta[i])),
        ),
        Step(
            "and its sine, with the sign of the displacement",
            reduced(sine_m * cosine_n - cosine_m * sine_n - sp.sin(m * theta[i] - n * theta[i])),
        ),
        Step(
            "which for omega_0 = 1 two integer displacements share only if they are 2 pi j apart, "
            "an irrational number for j != 0",
            (2 * sp.pi * turns).is_irrational,
        ),
    )


def neighbors() -> tuple[Step, ...]:
    """The steps of `sinusoidal.step_is_constant`."""
    step = chord(theta[i])
    narrow, wide = kernel(2, 4995), kernel(8, 4995)
    return (
        Step(
            "|PE(m+1) - PE(m)|^2 is the sum of 2 - 2 cos(omega_i), d symbolic",
            difference(sp.Sum(step, _pairs), sp.Sum(2 - 2 * sp.cos(theta[i]), _pairs)),
        ),
        Step("which no m is in: every step is as long as the next", step.diff(m)),
        Step(
            "2 - 2 cos(w) = 4 sin(w/2)^2, so no pair moves by more than omega_i",
            sp.simplify(2 - 2 * sp.cos(_a) - 4 * sp.sin(_a / 2) ** 2),
        ),
        Step(
            "d = 16: position 5 has a larger product with 6 than with 5000",
            wide[1][0] > wide[4995][1],
        ),
        Step(
            "d = 4: a smaller one, 1.5403",
            all(sp.floor(sp.Rational(10**4 * end, UNIT)) == 15402 for end in narrow[1]),
        ),
        Step(
            "against 1.9419: 5000 is 795 turns of pair 0 away",
            all(sp.floor(sp.Rational(10**4 * end, UNIT)) == 19419 for end in narrow[4995]),
        ),
    )


def _requirements() -> tuple[Step, ...]:
    return (*_read_off(), *neighbors(), *shifts()[:3], *every_position())


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="sinusoidal.requirements",
        number="C059",
        statement="Encodings should be unique, similar for near positions, tell the distance of "
        "two positions, and go on beyond the training length.",
        latex=r"PE_m\ne PE_n,\quad\|PE_{m+1}-PE_m\|=\mathrm{const},\quad PE_{m+k}=M_kPE_m",
        source=Source("004", "3.2 Properties", "Four properties of a good encoding."),
        verdict="holds",
        form="symbolic",
        truth="They are definitions. Sinusoidal positions meet them in this sense: integer "
        "positions have different encodings, two encodings give the displacement, each step is as "
        "long as the next, every position has an encoding. Nearer is not always more similar: at "
        "d = 4, position 5 has a larger product with 5000 than with 6.",
        derivation=_requirements,
    ),
    Claim(
        id="sinusoidal.shift_is_a_rotation",
        number="C072",
        statement="For each offset k one rotation, which doesn't depend on m, takes the encoding "
        "of m to that of m + k.",
        latex=r"PE(m+k)=M_kPE(m),\quad M_kM_l=M_{k+l}",
        source=Source("004", "3.3 Relative Position", "A matrix of k alone moves every encoding."),
        verdict="holds",
        form="symbolic",
        truth="M_k turns each pair (sin, cos) by -k omega_i.",
        derivation=shifts,
    ),
    Claim(
        id="sinusoidal.angle_addition",
        number="C073",
        statement="The addition identities of sine and cosine are that matrix equation.",
        latex=r"\sin(a+b)=\sin a\cos b+\cos a\sin b,\quad\cos(a+b)=\cos a\cos b-\sin a\sin b",
        source=Source("004", "3.3 Relative Position", "Two identities, written out for a pair."),
        verdict="holds",
        form="block",
        derivation=_addition,
    ),
    Claim(
        id="sinusoidal.product_is_sum_of_cosines",
        number="C074",
        statement="The product of two encodings is the sum of cos(omega_i (m - n)).",
        latex=r"\langle PE_m,PE_n\rangle=\sum_i\cos(\omega_i(m-n)),\quad\|PE_m\|^2=d/2",
        source=Source("004", "3.3 Relative Position", "The dot product, summed over the pairs."),
        verdict="holds",
        form="symbolic",
        derivation=products,
    ),
    Claim(
        id="sinusoidal.product_of_distance",
        number="C075",
        statement="The product of two encodings is a function of m - n alone.",
        latex=r"\langle PE_{m+s},PE_{n+s}\rangle=\langle PE_m,PE_n\rangle=\langle PE_n,PE_m\rangle",
        source=Source("004", "3.3 Relative Position", "Nothing but the difference counts."),
        verdict="holds",
        form="symbolic",
        truth="Of |m - n|: the product doesn't tell which of the two comes first.",
        derivation=_distance_alone,
    ),
    Claim(
        id="sinusoidal.displacement_from_two_encodings",
        number="",
        statement="Two encodings give the cosine and the sine of omega_i (m - n), and so the "
        "integer displacement with its sign.",
        latex=r"s_mc_n-c_ms_n=\sin\omega_i(m-n)",
        source=Source("004", "3.2 Properties", "The distance can be had from two encodings."),
        verdict="holds",
        form="symbolic",
        derivation=_read_off,
    ),
    Claim(
        id="sinusoidal.step_is_constant",
        number="",
        statement="The encodings of neighbors are equally far apart at every position.",
        latex=r"\|PE_{m+1}-PE_m\|^2=\sum_i(2-2\cos\omega_i)",
        source=Source("004", "3.2 Properties", "Near positions have similar encodings."),
        verdict="holds",
        form="symbolic",
        truth="A near position need not be the most similar one: at d = 4 the product of 5 with "
        "5000 is larger than with 6.",
        derivation=neighbors,
    ),
)
