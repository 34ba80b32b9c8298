"""RoPE: what a score depends on, and where the position of a query or key comes in.

Sources: document 000 (2), document 004 (3.5, 3.6 on the conflict with latents, 3.9). A score is
a function of the displacement for *fixed* vectors; rows and columns, masks and deeper layers
each add a condition.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.rope import relative
from attnspec.spec.rotation import block, displaced, plane_score, score, turned
from attnspec.spec.shapes import shapes_fit
from attnspec.spec.sums import difference, reduced
from attnspec.spec.symbols import i, j, key, m, n, q, t, theta

_angle = sp.Symbol("theta", real=True)
_q0, _q1, _k0, _k1 = sp.symbols("q0 q1 k0 k1", real=True)


def _content() -> tuple[Step, ...]:
    one_pair = sp.ImmutableMatrix([[_q0, _q1]]) * block(t * _angle)
    value = (one_pair * sp.ImmutableMatrix([_k0, _k1]))[0]
    return (
        *relative(),
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


def _positions_cancel() -> tuple[Step, ...]:
    first, second = block(m * _angle), block(n * _angle)
    shown = _positional_content()
    return (
        *relative(),
        Step(
            "R_m^T R_n doesn't change when m and n move together: its slope along (1, 1) is 0",
            ((first.T * second).diff(m) + (first.T * second).diff(n)).applyfunc(reduced),
        ),
        Step("vectors that carry their position do: 1 at position 0", shown.stated - 1),
        Step("and 4 at position 1, with the same displacement", shown.actual - 4),
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
        *relative(),
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
_ROWS = Condition("D1", "row vectors are multiplied from the right by the transposed rotation R^T")


CLAIMS: tuple[Claim, ...] = (
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
        derivation=_positions_cancel,
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
        same_as="rope.row_convention",
    ),
    Claim(
        id="rope.only_displacement",
        number="C182",
        statement="The product of the turned vectors is f(m - n): only relative distance.",
        latex=r"q_m'\cdot k_n'=f_{q,k}(n-m)",
        source=Source("004", "3.9 Synthesis", "A diagram: the rotated product is relative."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            _FIXED,
            Condition("D2", "the distance has a sign: n - m is meant, not its size"),
        ),
        same_as="rope.function_of_displacement",
    ),
)
