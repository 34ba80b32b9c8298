"""RoPE: each pair of channels of a query or key turns by an angle proportional to its position.

Sources: document 000 (1 and 2), document 003 (2), document 004 (3.5, 3.6, 3.9 and 3.10). The
score of a turned query and key depends on their displacement n - m, which has a sign, and on the
vectors themselves. The claims here are about that identity; those on pairs and frequencies,
decay and partial rotation have files of their own.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.rotation import block, displaced, plane_score, score, turned
from attnspec.spec.shapes import shapes_fit
from attnspec.spec.sums import difference, reduced
from attnspec.spec.symbols import d, i, j, key, m, n, q, s, t, theta, x

# The claims, by way of their derivations. ------------------------------------------------------

_alpha, _beta = sp.symbols("alpha beta", real=True)
_angle = sp.Symbol("theta", real=True)
_q0, _q1, _k0, _k1 = sp.symbols("q0 q1 k0 k1", real=True)


@cache
def _relative() -> tuple[Step, ...]:
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
        *_relative(),
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


def _orthogonal() -> tuple[Step, ...]:
    rotation = block(_alpha)
    first, second = turned(x, m)
    before = sp.Sum(x[2 * i] ** 2 + x[2 * i + 1] ** 2, (i, 0, d / 2 - 1))
    after = sp.Sum(first**2 + second**2, (i, 0, d / 2 - 1))
    return (
        Step("R^T R = I, a pair", sp.simplify(rotation.T * rotation - sp.eye(2))),
        Step("det R = 1, a pair", sp.simplify(rotation.det() - 1)),
        Step("norms are kept, all d/2 pairs", difference(after, before)),
        *_relative(),
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
            "R(-m theta) R(n theta) = R((n - m) theta)",
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


def _content() -> tuple[Step, ...]:
    one_pair = sp.ImmutableMatrix([[_q0, _q1]]) * block(t * _angle)
    value = (one_pair * sp.ImmutableMatrix([_k0, _k1]))[0]
    return (
        *_relative(),
        Step(
            "the score's slope in q_0 is k_0 cos(t theta) - k_1 sin(t theta), which isn't zero",
            sp.diff(value, _q0) - _k0 * sp.cos(t * _angle) + _k1 * sp.sin(t * _angle),
        ),
        Step("q = k = (1, 0) at t = 0: 1", plane_score((1, 0), (1, 0), sp.S.Zero) - 1),
        Step("q = (1, 0), k = (2, 0): 2", plane_score((1, 0), (2, 0), sp.S.Zero) - 2),
        Step(
            "the score's slope in theta_j is that pair's alone: all d/2 frequencies enter",
            sp.expand(
                displaced(q, key, t).function.diff(theta[i])
                + t * q[2 * i] * turned(key, t)[1]
                - t * q[2 * i + 1] * turned(key, t)[0]
            ),
        ),
    )


def _other_content() -> Counterexample:
    return Counterexample(
        "m = n = 0, q = (1, 0): score with k = (2, 0), stated to be that with k = (1, 0), of the "
        "same displacement and frequency",
        stated=plane_score((1, 0), (1, 0), sp.S.Zero),
        actual=plane_score((1, 0), (2, 0), sp.S.Zero),
    )


def _positional_content() -> Counterexample:
    return Counterexample(
        "displacement 0 with q = k = (1, 0) at position 0 and q = k = (2, 0) at position 1, as "
        "where the vectors carry their position: score at 1, stated to be that at 0",
        stated=plane_score((1, 0), (1, 0), sp.S.Zero),
        actual=plane_score((2, 0), (2, 0), sp.S.Zero),
    )


def _row_convention() -> tuple[Step, ...]:
    width, head = sp.symbols("d_m d_k", integer=True, positive=True)
    x_m, x_n = (sp.MatrixSymbol(name, 1, width) for name in ("x_m", "x_n"))
    w_q, w_k = (sp.MatrixSymbol(name, width, head) for name in ("W_q", "W_k"))
    r_m, r_n = (sp.MatrixSymbol(name, head, head) for name in ("R_m", "R_n"))
    by_transpose = ((x_m * w_q * r_m.T) * (x_n * w_k * r_n.T).T).doit()
    by_itself = ((x_m * w_q * r_m) * (x_n * w_k * r_n).T).doit()
    forward, backward = block((n - m) * _angle), block((m - n) * _angle)
    at_m, at_n = block(m * _angle), block(n * _angle)
    return (
        Step("the shapes fit", shapes_fit(x_m, w_q, r_m.T, r_n, w_k.T, x_n.T)),
        Step(
            "rows turned by R^T on the right: x_m W_q R_m^T R_n W_k^T x_n^T",
            (by_transpose - x_m * w_q * r_m.T * r_n * w_k.T * x_n.T).doit(),
        ),
        Step(
            "where R_m^T R_n = R_(n-m), block by block",
            (at_m.T * at_n - forward).applyfunc(reduced),
        ),
        Step(
            "rows turned by R itself: x_m W_q R_m R_n^T W_k^T x_n^T",
            (by_itself - x_m * w_q * r_m * r_n.T * w_k.T * x_n.T).doit(),
        ),
        Step(
            "where R_m R_n^T = R_(m-n), of the opposite sign",
            (at_m * at_n.T - backward).applyfunc(reduced),
        ),
        Step(
            "the two differ by 2 sin((n-m) theta) off the diagonal",
            reduced((forward - backward)[1, 0] - 2 * sp.sin((n - m) * _angle)),
        ),
    )


def _row_by_itself() -> Counterexample:
    query, row_key = sp.ImmutableMatrix([[1, 0]]), sp.ImmutableMatrix([[0, 1]])
    by_itself = (query * block(sp.S.Zero)) * (row_key * block(sp.S.One)).T
    return Counterexample(
        "rows q = (1, 0) at 0 and k = (0, 1) at 1, theta = 1, each multiplied by R itself: "
        "score, stated to be q R_(n-m) k^T",
        stated=(query * block(sp.S.One) * row_key.T)[0],
        actual=by_itself[0],
    )


def _row_key_by_itself() -> Counterexample:
    return Counterexample(
        "c W = (0, 1), theta = 1: first channel of the key at position 1, stated as c W R_1; "
        "the rotation of 3.5 gives c W R_1^T",
        stated=(sp.ImmutableMatrix([[0, 1]]) * block(sp.S.One))[0],
        actual=(block(sp.S.One) * sp.ImmutableMatrix([0, 1]))[0],
    )


def _causal_leak() -> tuple[Step, ...]:
    position = sp.Symbol("m", integer=True, nonnegative=True)
    seen = sp.Sum(sp.exp(sp.S.Zero), (j, 0, position)).doit()
    return (
        *_relative(),
        Step("zero queries: m + 1 visible keys weigh 1/(m+1) each", 1 / seen - 1 / (position + 1)),
        Step(
            "so v = (1, 0, ..., 0) gives 1/(m+1), which two positions don't share",
            sp.simplify(1 / seen - 1 / seen.subs(position, position + 1)).is_positive,
        ),
    )


def _two_causal_outputs() -> Counterexample:
    return Counterexample(
        "causal attention with zero queries and v = (1, 0): output at position 1, stated to be "
        "that at position 0",
        stated=sp.S.One,
        actual=1 / sp.Sum(sp.exp(sp.S.Zero), (j, 0, 1)).doit(),
    )


def _own_position() -> tuple[Step, ...]:
    first, second = turned(key, n)
    return (
        Step("a turned key's first channel doesn't move with m", sp.diff(first, m)),
        Step("nor does its second", sp.diff(second, m)),
        Step(
            "turning query and key first and taking the product then is q^T R_(n-m) k",
            difference(score(q, key, m, n), displaced(q, key, n - m)),
        ),
    )


_FIXED = Condition("D1", "the vectors q and k before the rotation are fixed")
_SIGNED = Condition("D1", "distance means the signed displacement n - m, not its size")
_ROWS = Condition("D1", "row vectors are multiplied from the right by the transposed rotation R^T")

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
        derivation=_relative,
    ),
    Claim(
        id="rope.orthogonal",
        number="A09",
        statement="The displacement enters through an orthogonal matrix alone.",
        latex=r"R^TR=I,\ \det R=1,\ \|R_mx\|=\|x\|",
        source=Source("000", "2 Formulations", "Multiplying by orthogonal matrices encodes n - m."),
        verdict="holds",
        form="symbolic",
        derivation=_orthogonal,
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
        id="rope.depends_on_content",
        number="A15",
        statement="The rotated dot product depends on the displacement and the frequency alone.",
        latex=r"q^TR_tk,\ t=n-m:\quad\partial/\partial q_0\ne0",
        source=Source(
            "000",
            "2 Formulations",
            "Nothing but the displacement and the base frequency decides the product.",
        ),
        verdict="corrected",
        form="symbolic",
        truth="It depends on q and k as well; for fixed q and k it is a function of the "
        "displacement and of all d/2 frequencies.",
        counterexample=_other_content,
        derivation=_content,
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
        id="rope.function_of_displacement",
        number="C101",
        statement="The product of a turned query and key is a function of the displacement.",
        latex=r"\langle R_mq,R_nk\rangle=f_{q,k}(n-m)",
        source=Source("004", "3.5 Core Idea", "The rotated product is some f(m - n)."),
        verdict="holds-if",
        form="symbolic",
        conditions=(_FIXED,),
        counterexample=_other_content,
        derivation=_content,
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
        id="rope.positions_cancel",
        number="C104",
        statement="Only n - m is left in the product; m and n themselves are gone.",
        latex=r"\mathrm{score}(m+s,n+s)=\mathrm{score}(m,n)",
        source=Source(
            "004", "3.5 2D Rotation", "Both positions vanish and the relative one stays."
        ),
        verdict="holds-if",
        form="symbolic",
        conditions=(_FIXED,),
        truth="The vectors carry their own content, and above the first layer positions too.",
        counterexample=_positional_content,
        derivation=_causal_leak,
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
        id="rope.row_convention",
        number="C109",
        statement="With row vectors the score is x_m W_q R_(n-m) W_k^T x_n^T.",
        latex=r"q_mk_n^T=x_mW_qR_{\theta,n-m}W_k^Tx_n^T",
        source=Source("004", "3.5 Many Dimensions", "The score of two embeddings as row vectors."),
        verdict="holds-if",
        form="symbolic",
        conditions=(_ROWS,),
        truth="Section 3.6 multiplies rows by R itself, which gives R_(m-n) instead.",
        counterexample=_row_by_itself,
        derivation=_row_convention,
    ),
    Claim(
        id="rope.absolute_position_hidden",
        number="C110",
        statement="Nothing of the absolute position leaks through.",
        latex=r"o_m=\tfrac1{m+1}\text{ for equal logits and }v=(1,0,\dots)",
        source=Source(
            "004", "3.5 Many Dimensions", "The score is relative, and absolute position is lost."
        ),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "one score is meant, not the output of masked attention"),
            Condition("D2", "the vectors q and k before the rotation are fixed"),
        ),
        truth="Under a causal mask the denominator counts m + 1 keys, so outputs know m.",
        counterexample=_two_causal_outputs,
        derivation=_causal_leak,
    ),
    Claim(
        id="rope.key_turns_by_own_position",
        number="C119",
        statement="A key is rotated by its own position, before the dot product.",
        latex=r"\tilde k_n=R_nk_n,\quad\partial\tilde k_n/\partial m=0",
        source=Source("004", "3.6 MLA Conflict", "Keys turn by their position before the product."),
        verdict="holds",
        form="symbolic",
        derivation=_own_position,
    ),
    Claim(
        id="rope.row_key",
        number="C120",
        statement="The rotated key of head i is c W R_n, for a latent row c.",
        latex=r"\tilde K_n^{(i)}=c_{KV,n}W_\uparrow^{K,(i)}R_{\theta,n}^T",
        source=Source("004", "3.6 MLA Conflict", "The key row is multiplied by R at n itself."),
        verdict="holds-if",
        form="symbolic",
        conditions=(_ROWS,),
        truth="With R itself every displacement changes sign against 3.5.",
        counterexample=_row_key_by_itself,
        derivation=_row_convention,
    ),
    Claim(
        id="rope.only_displacement",
        number="C182",
        statement="The product of the turned vectors is f(m - n): only relative distance.",
        latex=r"q_m'\cdot k_n'=f_{q,k}(n-m)",
        source=Source("004", "3.9 Synthesis", "A diagram: the rotated product is relative."),
        verdict="holds-if",
        form="symbolic",
        conditions=(_FIXED, Condition("D2", _SIGNED.text)),
        same_as="rope.function_of_displacement",
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
