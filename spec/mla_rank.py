"""Multi-head latent attention: what keys and values that come from one latent can be.

Sources: document 004 (3.1 on latents). All heads' keys and values are a product with as many inner
columns as the latent has numbers, which bounds their rank, and loses whatever has a higher one.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.mla_sizes import V2, by_heads, c, d, e, h, numbers
from attnspec.spec.shapes import shapes_fit

_n, _m = sp.symbols("n m", integer=True, positive=True)


def rank_at_most(inner: sp.Symbol, of: str) -> tuple[Step, ...]:
    """That all minors of size inner + 1 vanish in a product with `inner` inner columns, which is
    that its rank is at most `inner`. `of` says in words what is meant."""
    left = sp.MatrixSymbol("L", inner + 1, inner)
    right = sp.MatrixSymbol("U", inner, inner + 1)
    padded = sp.BlockMatrix([[left, sp.ZeroMatrix(inner + 1, 1)]])
    below = sp.BlockMatrix([[right], [sp.ZeroMatrix(1, inner + 1)]])
    last = sp.BlockMatrix([[sp.ZeroMatrix(inner, 1)], [sp.Identity(1)]])
    small = sp.ImmutableMatrix(3, 2, sp.symbols("l:6")) * sp.ImmutableMatrix(
        2, 3, sp.symbols("u:6")
    )
    unit = sp.BlockMatrix([[sp.Identity(inner)], [sp.ZeroMatrix(1, inner)]])
    leading = sp.BlockMatrix([[sp.Identity(inner), sp.ZeroMatrix(inner, 1)]])
    return (
        Step(
            f"{inner} + 1 rows and columns of {of}: a zero column of the left factor and a zero "
            "row of the right one change nothing",
            sp.block_collapse(padded * below) - left * right,
        ),
        Step(
            "so the left factor is square and sends (0, ..., 0, 1) to 0: its determinant is 0, and "
            "that of the product",
            sp.block_collapse(padded * last).doit(),
        ),
        Step(
            "with 2 inner columns and any entries, the determinant of 3 x 3 is 0 when written out",
            sp.expand(small.det()),
        ),
        Step(
            f"rank {inner} is reached, by unit matrices",
            sp.block_collapse(leading * unit) - sp.Identity(inner),
        ),
    )


def _one_space() -> tuple[Step, ...]:
    latent = sp.MatrixSymbol("C", _n, c)
    up_k, up_v = sp.MatrixSymbol("W_UK", c, h * d), sp.MatrixSymbol("W_UV", c, h * e)
    both = sp.BlockMatrix([[up_k, up_v]])
    made = sp.block_collapse(latent * both)
    k, v = sp.MatrixSymbol("K", _n, d), sp.MatrixSymbol("V", _n, e)
    keys = sp.BlockMatrix([[sp.Identity(d)], [sp.ZeroMatrix(e, d)]])
    return (
        Step("the shapes of C [W_UK W_UV] fit", shapes_fit(latent, both)),
        Step(
            "keys and values of all heads are C W_UK beside C W_UV: h (d_k + d_v) columns",
            sp.expand(made.cols - by_heads(h)),
        ),
        Step(
            "as one product with c inner columns",
            made - sp.BlockMatrix([[latent * up_k, latent * up_v]]),
        ),
        *rank_at_most(c, "all heads' keys and values"),
        Step(
            "DeepSeek-V2: 512 dimensions for 32768 columns",
            ((numbers(c) / by_heads(h)) - sp.Rational(512, 32768)).subs(V2),
        ),
        Step(
            "heads that share keys are a case of it: with the shared [K V] for the latent, an "
            "up-projection that picks the first d_k columns gives each head K",
            sp.block_collapse(sp.BlockMatrix([[k, v]]) * keys) - k,
        ),
    )


def _two_heads() -> Counterexample:
    latents, up = sp.ImmutableMatrix([1, 2]), sp.ImmutableMatrix([[1, 3]])
    keys = latents * up
    return Counterexample(
        "two tokens with latents 1 and 2 (c = 1), two heads of one channel with up-projections 1 "
        "and 3: rank of the heads' keys side by side, stated to be full",
        stated=sp.Integer(keys.cols),
        actual=sp.Integer(keys.rank()),
    )


def _distance() -> sp.Expr:
    """Squared distance of the keys and values of the tokens (1, 0) and (0, 1), one key and one
    value channel that read one entry each, to those restored from one number a token."""
    down = sp.ImmutableMatrix(2, 1, sp.symbols("a b", real=True))
    up = sp.ImmutableMatrix(1, 2, sp.symbols("u v", real=True))
    lost = sp.eye(2) - down * up
    return sp.expand((lost.T * lost).trace())


def _lossy() -> tuple[Step, ...]:
    tokens = sp.MatrixSymbol("X", _n, _m)
    left, right = sp.MatrixSymbol("L", _m, c), sp.MatrixSymbol("U", c, h * (d + e))
    a, b, u, v = sp.symbols("a b u v", real=True)
    inside, across = 1 - (a * u + b * v), a * v - b * u
    return (
        Step("the shapes of X L U fit", shapes_fit(tokens, left, right)),
        Step(
            "where the projections of all heads are L U with c inner columns, W_DKV = L and "
            "up-projections U restore X L U from the latent X L",
            ((tokens * left) * right - tokens * (left * right)).doit(),
        ),
        *rank_at_most(c, "what a latent restores"),
        Step(
            "the unit matrix of size 2, from one number a token: the squared distance is "
            "1 + (1 - au - bv)^2 + (av - bu)^2",
            sp.expand(_distance() - (1 + inside**2 + across**2)),
        ),
        Step("so never below 1", (1 + inside**2 + across**2 - 1).is_nonnegative),
        Step("and 1 at a = u = 1, b = v = 0", _distance().subs({a: 1, u: 1, b: 0, v: 0}) - 1),
    )


def _lost_channel() -> Counterexample:
    best = sp.ImmutableMatrix([[1, 0], [0, 0]])
    lost = sp.eye(2) - best
    return Counterexample(
        "tokens (1, 0) and (0, 1), whose key is the first entry and whose value the second, and "
        "a latent of one number: least squared distance of what is restored, stated to be 0",
        stated=sp.S.Zero,
        actual=(lost.T * lost).trace(),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="mla.heads_share_latent_space",
        number="C050",
        statement="No head shares its view: each has a full, unique key and value.",
        latex=r"\mathrm{rank}\,[K^{(1)}\dots K^{(h)}\,V^{(1)}\dots V^{(h)}]\le d_c",
        source=Source(
            "004", "3.1 MLA", "Heads aren't made to share; each gets its whole own key and value."
        ),
        verdict="corrected",
        form="symbolic",
        truth="Each head has an up-projection of its own, but all keys and values lie in one space "
        "of d_c dimensions: no h d_k independent channels are left.",
        counterexample=_two_heads,
        derivation=_one_space,
    ),
    Claim(
        id="mla.compression_is_lossy",
        number="C057",
        statement="Quality is that of all heads, since nothing of a head is ever thrown away.",
        latex=r"X[W_K\,W_V]=(XW_{DKV})W_U\ \forall X\iff\mathrm{rank}\,[W_K\,W_V]\le d_c",
        source=Source("004", "3.1 MLA", "Compressing and rebuilding loses no head's information."),
        verdict="corrected",
        form="symbolic",
        truth="Nothing is lost exactly where the projections of all heads together have rank d_c "
        "or less; otherwise something is. What that does to quality is empirical.",
        counterexample=_lost_channel,
        derivation=_lossy,
    ),
)
