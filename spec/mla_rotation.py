"""Multi-head latent attention and RoPE: what a rotation does between two up-projections.

Sources: document 004 (3.6 on MLA, 3.9). That a key turns by its own position alone is in
`rope_scores` too; the stream that carries positions instead is in `mla_streams`.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec import mla_definition
from attnspec.spec.attention_definition import key_head
from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.definition import unmarked
from attnspec.spec.mla_formula import PLAIN, content
from attnspec.spec.mla_sizes import c, d, r
from attnspec.spec.reading import named
from attnspec.spec.rope import relative
from attnspec.spec.rotation import block, turned
from attnspec.spec.shapes import shapes_fit
from attnspec.spec.sums import reduced
from attnspec.spec.symbols import key, m, n, s, t

_angle = sp.Symbol("theta", real=True)
_up_q, _up_k = sp.MatrixSymbol("W_UQ", r, d), sp.MatrixSymbol("W_UK", c, d)
_turn, _other = (sp.MatrixSymbol(name, d, d) for name in ("R_s", "R_t"))
"""Rotations by two displacements."""


def _between() -> tuple[Step, ...]:
    """What stands between query latent and latent: the up-projections, and the rotation."""
    queries, latents = sp.MatrixSymbol("q", 1, r), sp.MatrixSymbol("c", 1, c)
    at_query, at_key = (sp.MatrixSymbol(name, d, d) for name in ("R_m", "R_n"))
    rotated = ((queries * _up_q * at_query.T) * (latents * _up_k * at_key.T).T).doit()
    merged = queries * _up_q * at_query.T * at_key * _up_k.T * latents.T
    return (
        Step(
            "the shapes of q W_UQ R_m^T R_n W_UK^T c^T fit",
            shapes_fit(queries, _up_q, at_query.T, at_key, _up_k.T, latents.T),
        ),
        Step("that is the score of the rotated rows", (rotated - merged).doit()),
        Step(
            "with R_m^T R_n = R_(n-m) in the middle, block by block",
            (block(m * _angle).T * block(n * _angle) - block((n - m) * _angle)).applyfunc(reduced),
        ),
    )


def _own_position() -> tuple[Step, ...]:
    channels = sp.ImmutableMatrix(turned(key, n))
    return (
        Step("a rotated key doesn't move with the query's position m", channels.diff(m)),
        Step(
            "nor does the one that the suite evaluates: it has no query i",
            "i" not in named(mla_definition.rotary_key(PLAIN)),
        ),
        *_between(),
    )


def _two_queries() -> Counterexample:
    rotated = block(sp.Integer(2)) * sp.ImmutableMatrix([1, 0])
    return Counterexample(
        "key (1, 0) at position 2, theta = 1, and a query at 3: first channel of the rotated key, "
        "stated as rotated by the distance 1",
        stated=(block(sp.S.One) * sp.ImmutableMatrix([1, 0]))[0],
        actual=rotated[0],
    )


def _no_fixed_matrix() -> tuple[Step, ...]:
    left, right = sp.MatrixSymbol("M", d, r), sp.MatrixSymbol("N", d, c)

    def freed(turn: sp.MatrixSymbol) -> sp.MatrixExpr:
        """M W_UQ R W_UK^T N^T, where M W_UQ = N W_UK = I."""
        whole = (left * (_up_q * turn * _up_k.T) * right.T).doit()
        one = sp.Identity(d)
        return whole.subs(left * _up_q, one).subs(_up_k.T * right.T, one).doit()

    generator = block(t * _angle).diff(t).subs(t, 0)
    return (
        *_between(),
        Step("the shapes of M A N^T fit", shapes_fit(left, _up_q, _turn, _up_k.T, right.T)),
        Step(
            "where both up-projections have full rank d, and so left inverses M and N, A = W_UQ R "
            "W_UK^T gives R back",
            freed(_turn) - _turn,
        ),
        Step(
            "so two displacements with one A have one rotation",
            (freed(_turn) - freed(_other) - (_turn - _other)).doit(),
        ),
        Step(
            "but the blocks of theta_0 = 1 differ between 0 and 1: cos 1 is below 1",
            block(sp.S.One)[0, 0] < block(sp.S.Zero)[0, 0],
        ),
        Step(
            "and A moves at once: the slope of a block at 0 is theta times a quarter turn, of "
            "determinant theta^2",
            generator.det() - _angle**2,
        ),
    )


def _all_different() -> tuple[Step, ...]:
    whole = sp.Symbol("j", integer=True, nonzero=True)
    apart = block(s) - block(t)
    return (
        Step(
            "the squared distance of the blocks at s and t, theta_0 = 1, is 4 - 4 cos(s - t)",
            reduced((apart.T * apart).trace() - sp.expand_trig(4 - 4 * sp.cos(s - t))),
        ),
        Step("which is 8 sin^2 of half the angle", sp.simplify(4 - 4 * sp.cos(t)
                                                               - 8 * sp.sin(t / 2) ** 2)),
        Step(
            "and 0 only where s - t = 2 pi j: irrational for j != 0, so integers s and t are equal",
            (2 * sp.pi * whole).is_irrational,
        ),
    )  # fmt: skip


def _conflict() -> tuple[Step, ...]:
    at = named(content())
    group = sp.Symbol("g", integer=True, nonnegative=True)
    keys = sp.IndexedBase("k", real=True)

    def rotated(head: sp.Expr) -> sp.Expr:
        """A channel of a key head, rotated."""
        return unmarked(mla_definition.rotated(lambda u: keys[head, u], at["j"], PLAIN))

    read = key_head("grouped")
    return (
        *_no_fixed_matrix(),
        Step(
            "with shared key heads nothing is in the way: rotating each head's copy is reading the "
            "rotated head, which is cached",
            sp.expand(rotated(read) - rotated(group).subs(group, read)),
        ),
        *relative(),
    )


def _one_matrix() -> Counterexample:
    unit = sp.ImmutableMatrix([[1, 0]])
    return Counterexample(
        "W_UQ = W_UK = I of size 2, latents (1, 0), theta = 1: rotated score at displacement 1, "
        "stated to be that of the matrix A merged at displacement 0",
        stated=(unit * block(sp.S.Zero) * unit.T)[0],
        actual=(unit * block(sp.S.One) * unit.T)[0],
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="mla.key_turns_once",
        number="C121",
        statement="Keys must be rotated anew, depending on how far away the query is.",
        latex=r"\tilde k_n=R_nk_n,\ \partial\tilde k_n/\partial m=0;\quad "
        r"z=c^Q\,W_{UQ}R_{n-m}W_{UK}^T\,c^T",
        source=Source(
            "004", "3.6 MLA Conflict", "Rotation is applied anew by the distance to the query."
        ),
        verdict="corrected",
        form="symbolic",
        truth="A key turns by its own position, once, and rotated keys can be cached. What is in "
        "the way is the rotation by n - m between both up-projections.",
        counterexample=_two_queries,
        derivation=_own_position,
    ),
    Claim(
        id="mla.no_one_matrix",
        number="C122",
        statement="With rotated keys the up-projections no longer merge into one fixed matrix.",
        latex=r"W_{UQ}R_sW_{UK}^T=W_{UQ}R_tW_{UK}^T\Rightarrow R_s=R_t",
        source=Source(
            "004", "3.6 MLA Conflict", "No A can be merged ahead with rotations in between."
        ),
        verdict="holds",
        form="symbolic",
        truth="For up-projections of full rank; where one vanishes there is nothing to merge.",
        derivation=_no_fixed_matrix,
    ),
    Claim(
        id="mla.rotations_differ",
        number="C123",
        statement="The rotation is another one for every cached token.",
        latex=r"R_s=R_t\iff s=t\quad(s,t\in\mathbb Z,\ \theta_0=1)",
        source=Source("004", "3.6 MLA Conflict", "Every cached token has its own rotation."),
        verdict="holds",
        form="block",
        derivation=_all_different,
    ),
    Claim(
        id="mla.rope_in_the_way",
        number="C180",
        statement="Positional encoding and cache saving are independent choices that stack.",
        latex=r"A(t)=W_{UQ}R_tW_{UK}^T\ne A(0)",
        source=Source(
            "004", "3.9 Synthesis", "Encodings and cache savings are independent of each other."
        ),
        verdict="corrected",
        form="symbolic",
        truth="RoPE goes with shared key heads (MQA, GQA) as it is. With latents no one matrix "
        "serves all displacements, so it needs a stream of its own.",
        counterexample=_one_matrix,
        derivation=_conflict,
    ),
)
