"""Positions that are added to the embeddings: what attention's scores make of them.

Sources: document 004 (3.2, the properties; 3.3, the relative position property; 3.4, absolute
encoding). The sum enters both sides of a product, so a score has four terms. Of the term that is
about positions alone, the projections decide whether it knows the displacement only.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.attention_symmetry import first_outputs
from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.learned_positions_definition import DEFINITION as LEARNED
from attnspec.spec.rope import relative
from attnspec.spec.shapes import shapes_fit
from attnspec.spec.sinusoidal import encoded
from attnspec.spec.sinusoidal_definition import definitions
from attnspec.spec.sinusoidal_shifts import shift
from attnspec.spec.sums import reduced
from attnspec.spec.symbols import m, n

_angle, _other = sp.symbols("alpha beta", real=True)
_entries = sp.symbols("a b c f", real=True)
_TURN = sp.ImmutableMatrix([[0, 1], [-1, 0]])
"""J: the shift of a pair is cos I + sin J."""


def _reversed_causal() -> Counterexample:
    outputs = [first_outputs(order, causal=True) for order in ((0, 1), (1, 0))]
    return Counterexample(
        "q = k = v = (0, 1) and (1, 0) under a causal mask: sum of the outputs of the second, "
        "stated to be that of the first",
        stated=sum(outputs[0], sp.S.Zero),
        actual=sum(outputs[1], sp.S.Zero),
    )


def cross_terms() -> tuple[Step, ...]:
    """The steps of `sinusoidal.added_to_embedding`."""
    width, head = sp.symbols("d d_k", integer=True, positive=True)
    x_m, x_n, p_m, p_n = (sp.MatrixSymbol(name, 1, width) for name in ("x_m", "x_n", "p_m", "p_n"))
    w_q, w_k = (sp.MatrixSymbol(name, width, head) for name in ("W_q", "W_k"))
    score = (((x_m + p_m) * w_q) * ((x_n + p_n) * w_k).T).doit().expand().doit()
    joined = w_q * w_k.T
    terms = [(u * joined * v.T).doit() for u in (x_m, p_m) for v in (x_n, p_n)]
    gap = score - sp.MatAdd(*terms)
    return (
        Step("the shapes fit", shapes_fit(x_m, w_q, w_k.T, p_n.T)),
        Step(
            "(x_m + p_m) W_q W_k^T (x_n + p_n)^T is a term of contents, two of content and "
            "position, and one of positions",
            gap.doit(),
        ),
        Step(
            "the two in the middle stay where W_q W_k^T is the identity: x_m p_n^T + p_m x_n^T",
            ((x_m + p_m) * (x_n + p_n).T - x_m * x_n.T - p_m * p_n.T).expand().doit()
            - x_m * p_n.T
            - p_m * x_n.T,
        ),
    )


def _pair(position: sp.Expr) -> sp.ImmutableMatrix:
    return sp.ImmutableMatrix(encoded(position, sp.S.One))


def _condition() -> tuple[Step, ...]:
    """When p_m^T M p_n is a function of m - n: for one pair, and for two different ones."""
    matrix = sp.ImmutableMatrix(2, 2, _entries)
    a, b, c, f = _entries
    one_on = shift(_angle)
    change = one_on.T * matrix * one_on - matrix
    commutator = matrix * _TURN - _TURN * matrix
    basis = sp.ImmutableMatrix.hstack(_pair(sp.S.Zero), _pair(_angle))
    kept = sp.ImmutableMatrix([[a, b], [-b, a]])
    score = (_pair(m * _angle).T * kept * _pair(n * _angle))[0]
    rows = [[*_pair(k * _angle), *_pair(k * _other)] for k in range(4)]
    apart = (sp.cos(_angle) - sp.cos(_other)) ** 2
    between = sp.eye(4) - sp.kronecker_product(shift(_angle).T, shift(_other).T)
    return (
        Step(
            "moving both positions on by 1 changes p_m^T M p_n by p_m^T (M_1^T M M_1 - M) p_n",
            (
                _pair(m * _angle + _angle).T * matrix * _pair(n * _angle + _angle)
                - _pair(m * _angle).T * (change + matrix) * _pair(n * _angle)
            ).applyfunc(reduced),
        ),
        Step(
            "p_0 and p_1 are a basis, as sin(omega) > 0 for 0 < omega <= 1: if that is 0 at the "
            "integers, M_1^T M M_1 = M",
            basis.det() + sp.sin(_angle),
        ),
        Step(
            "sin rises from 0 to 1, by a slope of cos(1) > 0 at least",
            sp.minimum(sp.diff(sp.sin(_angle), _angle), _angle, sp.Interval(0, 1)) > 0,
        ),
        Step(
            "M_1 (M_1^T M M_1 - M) = M M_1 - M_1 M = sin(omega) (M J - J M), which is then 0",
            (one_on * change - sp.sin(_angle) * commutator).applyfunc(reduced),
        ),
        Step(
            "M J = J M says M_11 = M_22 and M_12 = -M_21",
            commutator - sp.ImmutableMatrix([[-b - c, a - f], [a - f, b + c]]),
        ),
        Step(
            "then the term is a cos + b sin of omega (m - n)",
            reduced(
                score - a * sp.cos(m * _angle - n * _angle) - b * sp.sin(m * _angle - n * _angle)
            ),
        ),
        Step(
            "a block B between two pairs needs M_1^T B M'_1 = B: four equations of determinant "
            "4 (cos(omega) - cos(omega'))^2, so B = 0 for different frequencies",
            sp.simplify(reduced(between.det()) - 4 * reduced(apart)),
        ),
        Step(
            "and the blocks count one by one: p_0 to p_3 of two pairs are a basis, of determinant "
            "4 sin(omega) sin(omega') (cos(omega) - cos(omega'))^2; of more pairs alike, as e^(i "
            "omega) and their conjugates are different numbers (Vandermonde)",
            reduced(sp.Matrix(rows).det() - 4 * sp.sin(_angle) * sp.sin(_other) * apart),
        ),
        Step(
            "M = diag(1, 0) gives (cos omega(m-n) - cos omega(m+n))/2, in which m + n stays",
            reduced(
                (_pair(m * _angle).T * sp.diag(1, 0) * _pair(n * _angle))[0]
                - (sp.cos(m * _angle - n * _angle) - sp.cos(m * _angle + n * _angle)) / 2
            ),
        ),
    )


def _extracted() -> tuple[Step, ...]:
    return (*_condition(), *cross_terms())


def _one_channel_read() -> Counterexample:
    scores = [
        (_pair(sp.Integer(place)).T * sp.diag(1, 0) * _pair(sp.Integer(place)))[0]
        for place in (0, 1)
    ]
    return Counterexample(
        "omega = 1, W_q W_k^T = diag(1, 0) on its pair: term of positions at m = n = 1, stated to "
        "be that at m = n = 0",
        stated=scores[0],
        actual=scores[1],
    )


def _own_index() -> tuple[Step, ...]:
    steps = []
    for definition in (*definitions(), LEARNED):
        positions, place = definition.arrays[0], definition.axes[0][0]
        read = {
            node
            for node in definition.expression.atoms(sp.Indexed)
            if node.base == positions and node != positions[place]
        }
        own = sp.Symbol("p", integer=True, nonnegative=True)
        stamp = definition.expression.subs(positions[place], own)
        steps += [
            Step(
                f"{definition.name}: row i reads the position of token i and no other's",
                sp.Integer(len(read)),
            ),
            Step(
                f"{definition.name}: given that position, i itself is gone, and with it the order",
                sp.Integer(len(stamp.free_symbols & {place, positions, positions.label})),
            ),
        ]
    return tuple(steps)


def _gap_only() -> tuple[Step, ...]:
    content = [sp.ImmutableMatrix([1, 0]).dot(_pair(sp.Integer(place))) for place in (0, 1)]
    return (
        Step("with added encodings a content (1, 0) and position 0 score 0", content[0]),
        Step("and with position 1 sin(1), at the same gap", content[1] - sp.sin(1)),
        *_condition()[-1:],
        *relative(),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="attention.order_blind_of_no_mask",
        number="C058",
        statement="Self-attention is blind to the order of its tokens.",
        latex=r"\mathrm{Attn}(PX)=P\,\mathrm{Attn}(X)",
        source=Source("004", "3.2 Properties", "Attention doesn't see order, so it is put in."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "no mask tells places apart: a causal mask does"),
            Condition("D2", "outputs are compared token by token: they move along with the tokens"),
        ),
        counterexample=_reversed_causal,
        same_as="attention.equivariant_in_tokens",
    ),
    Claim(
        id="sinusoidal.added_to_embedding",
        number="C060",
        statement="The sum of a token's embedding and its position's encoding enters attention.",
        latex=r"(x_m+p_m)A(x_n+p_n)^T=x_mAx_n^T+x_mAp_n^T+p_mAx_n^T+p_mAp_n^T,\ A=W_qW_k^T",
        source=Source("004", "3.2 Properties", "Embedding and encoding are added at the input."),
        verdict="holds",
        form="symbolic",
        truth="Every score then has four terms; only the last is about positions alone.",
        derivation=cross_terms,
    ),
    Claim(
        id="sinusoidal.relative_of_commuting_projections",
        number="C076",
        statement="So attention, which works by dot products, can extract relative positions.",
        latex=r"p_{m+1}^TMp_{n+1}=p_m^TMp_n\ \forall m,n\iff M=aI+bJ\text{ per pair}",
        source=Source(
            "004", "3.3 Relative Position", "Added encodings let products know the distance."
        ),
        verdict="holds-if",
        form="block",
        conditions=(
            Condition(
                "D1",
                "W_q W_k^T commutes with the shift of every pair: a I + b J on each, and nothing "
                "between different pairs",
            ),
            Condition("D2", "the term of positions is meant, not the three with contents"),
        ),
        truth="Otherwise m + n stays in the score.",
        counterexample=_one_channel_read,
        derivation=_extracted,
    ),
    Claim(
        id="sinusoidal.depends_on_own_index",
        number="C085",
        statement="In absolute encoding each token's stamp depends on its own index alone.",
        latex=r"PE(m)\text{ or }P[m]",
        source=Source("004", "3.4 Absolute", "Encodings are added token by token."),
        verdict="holds",
        form="symbolic",
        truth="So it is for sinusoidal and for learned positions.",
        derivation=_own_index,
    ),
    Claim(
        id="sinusoidal.gap_is_what_attention_needs",
        number="C086",
        statement="Attention needs the gap of two tokens, not their absolute positions.",
        latex=r"\mathrm{score}(m+s,n+s)=\mathrm{score}(m,n)",
        source=Source(
            "004", "3.4 Absolute", "Tokens three apart should relate alike at any place."
        ),
        verdict="empirical",
        form="symbolic",
        truth="A wish about models. The law in it is invariance under a common shift: scores of "
        "added encodings don't have it in general, rotated queries and keys do.",
        derivation=_gap_only,
    ),
)
