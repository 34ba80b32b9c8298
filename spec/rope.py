"""RoPE: each pair of channels of a query or key turns by an angle proportional to its position.

Sources: document 000 (1 and 2), document 003 (2), document 004 (3.5 and 3.10). The claims here
are about the rotation itself and its relative law. What the score depends on, the pairs and
their frequencies, long distances and partial rotation have files of their own.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.rotation import block, displaced, plane_score, score, turned
from attnspec.spec.sums import difference, reduced
from attnspec.spec.symbols import d, i, key, m, n, q, s, x

_alpha, _beta = sp.symbols("alpha beta", real=True)
_angle = sp.Symbol("theta", real=True)
_q0, _q1, _k0, _k1 = sp.symbols("q0 q1 k0 k1", real=True)


@cache
def relative() -> tuple[Step, ...]:
    """The steps of `rope.relative_displacement`, on which most statements rest."""
    return (
        Step(
            "over all d/2 pairs, d symbolic: <R_m q, R_n k> = q^T R_(n-m) k",
            difference(score(q, key, m, n), displaced(q, key, n - m)),
        ),
        Step(
            "moving both positions by the same shift changes nothing",
            difference(score(q, key, m + s, n + s), score(q, key, m, n)),
        ),
    )


def _signed() -> tuple[Step, ...]:
    return (
        *relative(),
        Step(
            "q = (1, 0), k = (0, 1): -sin(theta) at displacement +1",
            plane_score((1, 0), (0, 1), sp.S.One, _angle) + sp.sin(_angle),
        ),
        Step(
            "and +sin(theta) at -1, the same distance",
            plane_score((1, 0), (0, 1), sp.S.NegativeOne, _angle) - sp.sin(_angle),
        ),
    )


def _mirrored_displacement() -> Counterexample:
    return Counterexample(
        "q = (1, 0), k = (0, 1), theta = 1: score at displacement +1, "
        "stated to be that at -1, the same distance",
        stated=plane_score((1, 0), (0, 1), sp.S.NegativeOne),
        actual=plane_score((1, 0), (0, 1), sp.S.One),
    )


def orthogonal() -> tuple[Step, ...]:
    """The steps of `rope.orthogonal`; the first three are of the rotation alone."""
    rotation = block(_alpha)
    first, second = turned(x, m)
    before = sp.Sum(x[2 * i] ** 2 + x[2 * i + 1] ** 2, (i, 0, d / 2 - 1))
    after = sp.Sum(first**2 + second**2, (i, 0, d / 2 - 1))
    return (
        Step("R^T R = I, a pair", sp.simplify(rotation.T * rotation - sp.eye(2))),
        Step("det R = 1, a pair", sp.simplify(rotation.det() - 1)),
        Step("norms are kept, all d/2 pairs", difference(after, before)),
        *relative(),
    )


def _group() -> tuple[Step, ...]:
    unit = sp.ImmutableMatrix([1, 0])
    return (
        Step(
            "R(alpha) turns (cos b, sin b) to (cos(a+b), sin(a+b))",
            (block(_alpha) * block(_beta) * unit - block(_alpha + _beta) * unit).applyfunc(reduced),
        ),
        Step("R(alpha)^T = R(-alpha)", block(_alpha).T - block(-_alpha)),
        Step(
            "turning back by m theta and on by n theta turns by their difference",
            (block(-m * _angle) * block(n * _angle) - block((n - m) * _angle)).applyfunc(reduced),
        ),
        Step("R(0) = I", block(sp.S.Zero) - sp.eye(2)),
    )


def _complex_turn() -> tuple[Step, ...]:
    product = sp.expand((_q0 + sp.I * _q1) * sp.exp(sp.I * m * _angle), complex=True)
    rows = block(m * _angle) * sp.ImmutableMatrix([_q0, _q1])
    return (
        Step("the real part is the first row of R_m q", sp.simplify(sp.re(product) - rows[0])),
        Step("the imaginary part the second", sp.simplify(sp.im(product) - rows[1])),
    )


def _real_part() -> tuple[Step, ...]:
    pair = (q[2 * i] + sp.I * q[2 * i + 1]) * sp.conjugate(key[2 * i] + sp.I * key[2 * i + 1])
    dot = q[2 * i] * key[2 * i] + q[2 * i + 1] * key[2 * i + 1]
    pairs = (i, 0, d / 2 - 1)
    return (
        Step(
            "Re(q conj(k)) = q0 k0 + q1 k1, summed over all pairs",
            difference(sp.Sum(sp.re(sp.expand(pair)), pairs), sp.Sum(dot, pairs)),
        ),
    )


def _complex_displacement() -> tuple[Step, ...]:
    first, second = _q0 + sp.I * _q1, _k0 + sp.I * _k1
    turned_product = (
        first * sp.exp(sp.I * m * _angle) * sp.conjugate(second) * sp.exp(-sp.I * n * _angle)
    )
    joined = first * sp.conjugate(second) * sp.exp(sp.I * (m - n) * _angle)
    matrix = sp.ImmutableMatrix([[_q0, _q1]]) * block((n - m) * _angle)
    in_matrix_form = (matrix * sp.ImmutableMatrix([_k0, _k1]))[0]
    return (
        Step(
            "the exponents add up to m - n",
            sp.simplify(sp.powsimp(sp.expand(turned_product - joined))),
        ),
        Step(
            "and the real part is q^T R_(n-m) k: the sign differs between the two forms, the "
            "number doesn't",
            reduced(sp.re(sp.expand(joined, complex=True)) - in_matrix_form),
        ),
    )


_SIGNED = Condition("D1", "distance means the signed displacement n - m, not its size")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="rope.signed_displacement",
        number="A03",
        statement="RoPE encodes the distance of two tokens by rotating in the plane.",
        latex=r"\langle R_mq,R_nk\rangle=q^TR_{n-m}k\ne q^TR_{m-n}k",
        source=Source(
            "000", "1 Core Intuition", "Rotations in the complex plane encode relative distance."
        ),
        verdict="holds-if",
        form="symbolic",
        conditions=(_SIGNED,),
        truth="The score is unchanged when both positions move together, but the displacements "
        "+t and -t may give different scores.",
        counterexample=_mirrored_displacement,
        derivation=_signed,
    ),
    Claim(
        id="rope.relative_displacement",
        number="A08",
        statement="The product of a query turned to m and a key turned to n is that of the query "
        "with the key turned by n - m.",
        latex=r"\langle R_mq,R_nk\rangle=q^TR_{n-m}k",
        source=Source(
            "000", "2 Formulations", "With the 2 x 2 rotation, the product needs R at n - m only."
        ),
        verdict="holds",
        form="symbolic",
        truth="For column vectors and any real positions and frequencies, over all pairs.",
        derivation=relative,
    ),
    Claim(
        id="rope.orthogonal",
        number="A09",
        statement="The displacement enters through an orthogonal matrix alone.",
        latex=r"R^TR=I,\ \det R=1,\ \|R_mx\|=\|x\|",
        source=Source("000", "2 Formulations", "Multiplying by orthogonal matrices encodes n - m."),
        verdict="holds",
        form="symbolic",
        derivation=orthogonal,
    ),
    Claim(
        id="rope.complex_turn",
        number="A12",
        statement="Rotating a pair at position m is multiplying q0 + i q1 by exp(i m theta).",
        latex=r"(q_0+iq_1)e^{im\theta}\leftrightarrow R_mq",
        source=Source(
            "000", "2 Formulations", "A complex exponential applies the rotation of position m."
        ),
        verdict="holds",
        form="block",
        derivation=_complex_turn,
    ),
    Claim(
        id="rope.dot_is_real_part",
        number="A13",
        statement="The dot product of two pairs is the real part of q times the conjugate of k.",
        latex=r"\langle q,k\rangle=\mathrm{Re}(q\bar k)",
        source=Source("000", "2 Formulations", "The inner product as a real part."),
        verdict="holds",
        form="symbolic",
        derivation=_real_part,
    ),
    Claim(
        id="rope.complex_displacement",
        number="A14",
        statement="In complex form the two rotations join to exp(i (m - n) theta).",
        latex=r"\mathrm{Re}(qe^{im\theta}\bar ke^{-in\theta})=\mathrm{Re}(q\bar ke^{i(m-n)\theta})"
        r"=q^TR_{n-m}k",
        source=Source("000", "2 Formulations", "Substituting both rotations leaves m - n."),
        verdict="holds",
        form="block",
        truth="The exponent is m - n where the matrix has the index n - m; the number is one.",
        derivation=_complex_displacement,
    ),
    Claim(
        id="rope.pairs_encode_displacement",
        number="B06",
        statement="Rotating orthogonal pairs of channels encodes relative distances.",
        latex=r"\langle R_mq,R_nk\rangle=q^TR_{n-m}k\ne q^TR_{m-n}k",
        source=Source(
            "003", "2 Formulations", "Planar rotations of coordinate pairs encode distances."
        ),
        verdict="holds-if",
        form="symbolic",
        conditions=(_SIGNED,),
        same_as="rope.signed_displacement",
    ),
    Claim(
        id="rope.group_law",
        number="C102",
        statement="R(alpha) turns by alpha; its transpose turns back; two rotations add angles.",
        latex=r"R(\alpha)^T=R(-\alpha),\quad R(-m\theta)R(n\theta)=R((n-m)\theta)",
        source=Source(
            "004", "3.5 2D Rotation", "The planar rotation matrix, its transpose and products."
        ),
        verdict="holds",
        form="block",
        derivation=_group,
    ),
    Claim(
        id="rope.plane_displacement",
        number="C103",
        statement="In the plane the product of turned vectors is q^T R((n - m) theta) k.",
        latex=r"\tilde q_m^T\tilde k_n=q_m^TR((n-m)\theta)k_n",
        source=Source("004", "3.5 2D Rotation", "The product of both rotated vectors, derived."),
        verdict="holds",
        form="symbolic",
        same_as="rope.relative_displacement",
    ),
    Claim(
        id="rope.all_pairs",
        number="C108",
        statement="The relative property survives across all pairs.",
        latex=r"\sum_i\langle R(m\theta_i)q_i,R(n\theta_i)k_i\rangle=q^TR_{n-m}k",
        source=Source("004", "3.5 Many Dimensions", "Every pair keeps the relative property."),
        verdict="holds",
        form="symbolic",
        same_as="rope.relative_displacement",
    ),
    Claim(
        id="rope.key_equations",
        number="C184",
        statement="The list of key equations repeats the rotation and its relative law.",
        latex=r"\tilde q_m^T\tilde k_n=q_m^TR_{\theta,(n-m)}k_n",
        source=Source(
            "004", "3.10 Quick Reference", "Block of pair i, its frequency, the relative law."
        ),
        verdict="holds",
        form="symbolic",
        truth="For fixed q and k. The list's other lines belong to other components.",
        same_as="rope.relative_displacement",
    ),
)
