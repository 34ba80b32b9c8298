"""What shared keys, and latents, save of the cache.

Sources: document 004 (3.1, MQA and GQA; 3.9, the hierarchy). The elements are those of
`gqa_definition`; h = 64 with G = 8 hides which of h/G and G is which, as there h = G^2.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.gqa_definition import (
    BATCH,
    GROUPS,
    HEADS,
    KEY_SIZE,
    LATENT,
    LENGTH,
    ROTARY,
    VALUE_SIZE,
    variant_elements,
)
from attnspec.spec.mla_sizes import V2, c, d, h, p

_more, _above = sp.symbols("e f", integer=True, nonnegative=True)


def _ratio(one: str, other: str) -> sp.Expr:
    """How often the cache of one variant holds that of another."""
    return sp.cancel(variant_elements(one) / variant_elements(other))


def _at(expression: sp.Expr, heads: int, groups: int) -> sp.Expr:
    return expression.subs({HEADS: heads, GROUPS: groups}, simultaneous=True)


def _one_group() -> tuple[Step, ...]:
    return (
        Step(
            "the cache has d_k + d_v elements a token and key head",
            sp.expand(variant_elements("gqa") - BATCH * LENGTH * GROUPS * (KEY_SIZE + VALUE_SIZE)),
        ),
        Step("h key heads against one: MHA/MQA = h", _ratio("mha", "mqa") - HEADS),
    )


def _ratios() -> tuple[Step, ...]:
    smaller, larger = _ratio("mha", "gqa"), _ratio("gqa", "mqa")
    return (
        Step("MHA/GQA = h/G", smaller - HEADS / GROUPS),
        Step("GQA/MQA = G", larger - GROUPS),
        Step("together h: MHA/MQA", sp.cancel(smaller * larger - _ratio("mha", "mqa"))),
        Step(
            "h/G - G is (h - G^2)/G: 0 only where h = G^2",
            sp.cancel(smaller - GROUPS - (HEADS - GROUPS**2) / GROUPS),
        ),
        Step(
            "h = 64, G = 8 is such a case: 8 and 8",
            sp.Matrix([_at(smaller, 64, 8), _at(larger, 64, 8)]) - sp.Matrix([8, 8]),
        ),
        Step(
            "h = 32, G = 8 is none: 4 times smaller, 8 times larger",
            sp.Matrix([_at(smaller, 32, 8), _at(larger, 32, 8)]) - sp.Matrix([4, 8]),
        ),
    )


def _swapped() -> Counterexample:
    return Counterexample(
        "h = 32, G = 8: how many times smaller than that of MHA the cache is, stated to be G",
        stated=sp.Integer(8),
        actual=_at(_ratio("mha", "gqa"), 32, 8),
    )


def _per_token(variant: str) -> sp.Expr:
    """Elements a token of one sequence, with values as wide as keys."""
    return variant_elements(variant).subs({BATCH: 1, LENGTH: 1, VALUE_SIZE: KEY_SIZE})


_DEEPSEEK_V2 = {HEADS: V2[h], KEY_SIZE: V2[d], LATENT: V2[c], ROTARY: V2[p]}


def _hierarchy() -> tuple[Step, ...]:
    mha, gqa, mqa, mla = (_per_token(name) for name in ("mha", "gqa", "mqa", "mla"))
    shared = {HEADS: GROUPS + 1 + _more}
    slim = {LATENT: 2 * KEY_SIZE - ROTARY - 1 - _above}
    wide = {LATENT: 2 * KEY_SIZE - ROTARY + _above}
    numbers = [x.subs(_DEEPSEEK_V2).subs(GROUPS, 8) for x in (mha, gqa, mqa, mla)]
    return (
        Step("MHA: 2 h d_k a token", mha - 2 * HEADS * KEY_SIZE),
        Step("GQA: 2 G d_k", gqa - 2 * GROUPS * KEY_SIZE),
        Step("MQA: 2 d_k", mqa - 2 * KEY_SIZE),
        Step("MLA: d_c + d_r", mla - (LATENT + ROTARY)),
        Step("G < h: MHA's is above GQA's", sp.factor((mha - gqa).subs(shared)).is_positive),
        Step(
            "1 < G: GQA's is above MQA's",
            sp.factor((gqa - mqa).subs(GROUPS, 2 + _more)).is_positive,
        ),
        Step(
            "d_c + d_r < 2 d_k: MLA's is below MQA's", sp.expand(mqa - mla.subs(slim)).is_positive
        ),
        Step("d_c + d_r >= 2 d_k: it is not", sp.expand(mla.subs(wide) - mqa).is_nonnegative),
        Step(
            "DeepSeek-V2's sizes, and 8 groups: 32768, 2048, 256 and 576",
            sp.Matrix(numbers) - sp.Matrix([32768, 2048, 256, 576]),
        ),
        Step(
            "so there MLA stores as much as 9/4 groups",
            sp.Rational(numbers[3], numbers[2]) - sp.Rational(9, 4),
        ),
    )


def _wider_latent() -> Counterexample:
    mqa, mla = (_per_token(name).subs(_DEEPSEEK_V2) for name in ("mqa", "mla"))
    return Counterexample(
        "DeepSeek-V2, d_k = 128, d_c = 512, d_r = 64: elements of MLA a token, stated to be fewer "
        "than MQA's 256, so at most 255",
        stated=mqa - 1,
        actual=mla,
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gqa.cache_of_one_group",
        number="C038",
        statement="MQA's cache is h times smaller than MHA's.",
        latex=r"\frac{nh(d_k+d_v)}{n(d_k+d_v)}=h",
        source=Source("004", "3.1 MQA", "One key and value instead of h of each."),
        verdict="holds",
        form="symbolic",
        derivation=_one_group,
    ),
    Claim(
        id="gqa.cache_ratios",
        number="C042",
        statement="GQA's cache is G times smaller than MHA's and h/G times larger than MQA's.",
        latex=r"\mathrm{MHA}/\mathrm{GQA}=h/G,\quad\mathrm{GQA}/\mathrm{MQA}=G",
        source=Source("004", "3.1 GQA", "G is the saving over MHA, h/G the price over MQA."),
        verdict="corrected",
        form="symbolic",
        truth="The two are swapped: it is h/G times smaller than MHA's and G times larger than "
        "MQA's. As stated only where h = G^2, such as h = 64 and G = 8.",
        counterexample=_swapped,
        derivation=_ratios,
    ),
    Claim(
        id="gqa.cache_hierarchy",
        number="C183",
        statement="A layer's cache falls from MHA by GQA and MQA to MLA.",
        latex=r"2nhd_k>2nGd_k>2nd_k>n(d_c+d_r)",
        source=Source(
            "004", "3.9 Synthesis", "Ranks caches in n, h, d_k, G and d_c; its table is missing."
        ),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition("D1", "1 < G < h, with the same n and d_k, and values as wide as keys"),
            Condition("D2", "d_c + d_r < 2 d_k, where d_r is the width of MLA's rotary key"),
        ),
        truth="MLA's n (d_c + d_r) is below MQA's only by D2: in DeepSeek-V2 it is 576 elements a "
        "token against 256, as much as 9/4 groups.",
        counterexample=_wider_latent,
        derivation=_hierarchy,
    ),
)
