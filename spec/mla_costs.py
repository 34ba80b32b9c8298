"""Multi-head latent attention: what its orders of products multiply, and against one shared head.

Sources: document 004 (3.1 on latents). Counts are of multiplications for one head in one layer,
without what both sides of a comparison share.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.mla_sizes import V2, by_heads, by_latent, c, d, e, numbers, p, r, scored

_n = sp.Symbol("n", integer=True, positive=True)
"""Tokens that are seen."""
_u, _w = sp.symbols("u w", integer=True, nonnegative=True)


def multiplied(rows: sp.Expr, inner: sp.Expr, columns: sp.Expr) -> sp.Expr:
    """Multiplications of a matrix product."""
    return numbers(rows, inner, columns)


def _absorbed_query(*, merged: bool) -> sp.Expr:
    """From a query latent to a query in the latent's space: through A, or through its factors."""
    if merged:
        return multiplied(sp.S.One, r, c)
    return multiplied(sp.S.One, r, d) + multiplied(sp.S.One, d, c)


def _score_of_latents(queries: sp.Expr) -> sp.Expr:
    """Scores of some queries with n latents."""
    return queries * _absorbed_query(merged=False) + multiplied(queries, c, _n)


def _score_of_keys(queries: sp.Expr, *, built: bool) -> sp.Expr:
    """Scores of some queries with n keys, which are built from latents or were kept."""
    building = multiplied(_n, c, d) if built else sp.S.Zero
    return multiplied(queries, r, d) + building + multiplied(queries, d, _n)


def _decoding() -> tuple[Step, ...]:
    absorbed, rebuilt = _score_of_latents(sp.S.One), _score_of_keys(sp.S.One, built=True)
    kept = _score_of_keys(sp.S.One, built=False)
    merged = _absorbed_query(merged=True)
    factors = _absorbed_query(merged=False)
    prefill = _score_of_latents(_n) - _score_of_keys(_n, built=True)
    saved = sp.expand((rebuilt - absorbed).subs(_n, 2 + _u).subs(d, 2 + _w))
    return (
        Step(
            "decoding over n latents: the absorbed order saves n (c d + d - c) - c d "
            "multiplications over keys that are rebuilt",
            sp.expand(rebuilt - absorbed - (_n * (c * d + d - c) - c * d)),
        ),
        Step("which is positive for n >= 2 and d >= 2", saved.is_positive),
        Step(
            "for many tokens it is d (1 + 1/c) times cheaper",
            sp.expand(sp.limit(rebuilt / absorbed, _n, sp.oo) - d * (1 + 1 / c)),
        ),
        Step(
            "over keys that were kept it costs c/d times as much a token",
            sp.limit(absorbed / kept, _n, sp.oo) - c / d,
        ),
        Step("4 times in DeepSeek-V2", (c / d).subs(V2) - 4),
        Step(
            "with one query a token, absorbed minus built is n^2 (c - d): for d_c > d_k the "
            "absorbed order is dearer",
            sp.expand(prefill - _n**2 * (c - d)),
        ),
        Step("A has r c numbers, and multiplies as often", merged - r * c),
        Step("in DeepSeek-V2 786432", merged.subs(V2) - 786432),
        Step("its two factors 262144", factors.subs(V2) - 262144),
        Step(
            "which is fewer where 1/d > 1/r + 1/c: r c - d (r + c) is r c d times their difference",
            sp.expand(merged - factors - r * c * d * (1 / d - 1 / r - 1 / c)),
        ),
    )


def _stored_product() -> Counterexample:
    return Counterexample(
        "DeepSeek-V2, one head and query: multiplications with A = W_UQ W_UK^T made offline, "
        "stated to be no more than with W_UQ and then W_UK^T",
        stated=_absorbed_query(merged=False).subs(V2),
        actual=_absorbed_query(merged=True).subs(V2),
    )


def _shared_head() -> tuple[Step, ...]:
    shared = by_heads(sp.S.One)
    latent = scored(c + p, c)
    return (
        Step("one shared head of keys and values caches d_k + d_v", sp.expand(shared - d - e)),
        Step(
            "DeepSeek-V2 caches 2.25 times as much",
            (by_latent() / shared).subs(V2) - sp.Rational(9, 4),
        ),
        Step(
            "with c + p = 2 d - 1 - u it caches less than one shared head, by 1 + u",
            sp.expand((shared - by_latent()).subs(e, d).subs(c, 2 * d - p - 1 - _u)) - (1 + _u),
        ),
        Step(
            "with c + p = 2 d + u not",
            sp.expand((shared - by_latent()).subs(e, d).subs(c, 2 * d - p + _u)).is_nonpositive,
        ),
        Step(
            "a head and a token: c + p multiplications for the score, c for the latents' sum",
            sp.expand(latent - 2 * c - p),
        ),
        Step(
            "against d_k + d_v of a key and a value: 4.25 times as many in DeepSeek-V2",
            (latent / scored(d, e)).subs(V2) - sp.Rational(17, 4),
        ),
    )


def _against_one() -> Counterexample:
    return Counterexample(
        "DeepSeek-V2, a token and layer: its cache over that of one shared head of 128 channels, "
        "stated to be on par",
        stated=sp.S.One,
        actual=(by_latent() / by_heads(sp.S.One)).subs(V2),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="mla.absorption_saves_of_rebuilt_keys",
        number="C055",
        statement="Multiplying the up-projections beforehand speeds inference up.",
        latex=r"n(cd+d-c)-cd>0\ (n,d\ge2),\quad rc>d(r+c)\iff\tfrac1d>\tfrac1r+\tfrac1c",
        source=Source("004", "3.1 MLA", "A is made once, offline, and used at every step."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "one token is decoded against cached latents, not many in prefill"),
            Condition(
                "D2",
                "otherwise keys are rebuilt at each step; kept keys cost only d_k a score",
            ),
            Condition("D3", "where 1/d_k > 1/r + 1/c, A is applied as W_UQ and then W_UK^T"),
        ),
        truth="It is the order of products that saves. A itself has r c numbers, in DeepSeek-V2 "
        "three times its factors. A token then costs d_c a score instead of d_k, 4 times as much "
        "as over kept keys; in prefill building keys is cheaper for d_c > d_k.",
        counterexample=_stored_product,
        derivation=_decoding,
    ),
    Claim(
        id="mla.costs_more_than_shared_head",
        number="C056",
        statement="Memory and speed are about those of one shared key and value head.",
        latex=r"\frac{d_c+d_r}{2d_k}=\tfrac94,\quad\frac{2d_c+d_r}{2d_k}=\tfrac{17}4",
        source=Source("004", "3.1 MLA", "Footprint and speed roughly on par with MQA."),
        verdict="corrected",
        form="symbolic",
        truth="DeepSeek-V2 caches 2.25 times as much as MQA with its heads and multiplies 4.25 "
        "times as often a head and token. Less is cached only where d_c + d_r < 2 d_k.",
        counterexample=_against_one,
        derivation=_shared_head,
    ),
)
