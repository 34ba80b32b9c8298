"""Groups of query heads: their sizes, who has them, and what they leave out.

Source: document 004 (3.1, MQA and GQA).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.gqa import copies, key_head, reading
from attnspec.spec.gqa_definition import GROUPS
from attnspec.spec.symbols import j, l, z

_group, _place, _left = sp.symbols("g a e", integer=True, nonnegative=True)


def _ranks() -> tuple[Step, ...]:
    """Scores of all heads, one below the other: what sharing keys makes of their rank."""
    query, key = sp.MatrixSymbol("Q", 3, 2), sp.MatrixSymbol("K", 2, 3)
    single = sp.MatrixSymbol("Q", 2, 1), sp.MatrixSymbol("K", 1, 2)
    tokens, heads = 5, 4
    keys = sp.Matrix(heads, tokens, lambda g, n: tokens * int(g == n) - 1)

    def rank(groups: int) -> int:
        read = (key_head("grouped", sp.Integer(i), sp.Integer(heads), groups) for i in range(heads))
        shared = [keys[head, :] for head in read]
        return int(sp.Matrix.vstack(*(sp.ones(tokens, 1) * row for row in shared)).rank())

    return (
        *copies(),
        Step(
            "weights tell scores up to a constant a row: log(p_j / p_l) = z_j - z_l",
            sp.expand_log(sp.log(sp.exp(z[j]) / sp.exp(z[l])), force=True) - z[j] + z[l],
        ),
        Step(
            "over one key column all scores together have rank 1: minors of two rows vanish",
            sp.expand((single[0] * single[1]).as_explicit().det()),
        ),
        Step(
            "over two columns rank 2: minors of three rows vanish",
            sp.expand((query * key).as_explicit().det()),
        ),
        Step(
            "four heads of one channel, five tokens, keys 5 e_g - 1, which sum to 0 so that no "
            "constant matters",
            keys * sp.ones(tokens, 1),
        ),
        Step("unit queries: rank 4 where each head has its keys", sp.Integer(rank(4) - 4)),
        Step("2 with two groups", sp.Integer(rank(2) - 2)),
        Step("1 with one", sp.Integer(rank(1) - 1)),
    )


def _group_sizes(order: str, heads: int, groups: int) -> list[sp.Integer]:
    """How many query heads read each key head, counted by the definition."""
    read = [key_head(order, sp.Integer(h), sp.Integer(heads), groups) for h in range(heads)]
    return [sp.Integer(read.count(group)) for group in range(groups)]


def _divides() -> tuple[Step, ...]:
    share = sp.Symbol("r", integer=True, positive=True)
    rest, groups = _place + 1, _place + 2 + _left  # 0 < rest < groups
    dividing = [g for g in range(1, 9) if len(set(_group_sizes("grouped", 8, g))) == 1]
    return (
        *reading(),
        Step(
            "a < r: every key head is read by r query heads",
            sp.Sum(sp.S.One, (_place, 0, share - 1)).doit() - share,
        ),
        Step(
            "and G of them are h: r = h/G",
            sp.Sum(share, (_group, 0, GROUPS - 1)).doit() / GROUPS - share,
        ),
        Step(
            "h = G r + x with 0 < x < G: h/G is r + x/G",
            sp.cancel((groups * share + rest) / groups - share - rest / groups),
        ),
        Step("which is above r", (rest / groups).is_positive),
        Step("and below r + 1, so no number of heads", sp.factor(1 - rest / groups).is_positive),
        Step(
            "of 8 heads, groups of equal size are 1, 2, 4 or 8",
            sp.Matrix(dividing) - sp.Matrix([1, 2, 4, 8]),
        ),
    )  # fmt: skip


def _three_groups() -> Counterexample:
    return Counterexample(
        "h = 8, G = 3: query heads that read key head 0, floor(3 h / 8), stated to be h/G",
        stated=sp.Rational(8, 3),
        actual=_group_sizes("grouped", 8, 3)[0],
    )


_LLAMA_2 = {"7B": (32, 32), "13B": (40, 40), "70B": (64, 8)}
"""Query heads and key heads of three sizes of LLaMA 2, as published."""


def _models() -> tuple[Step, ...]:
    def shares(size: str) -> bool:
        heads, groups = _LLAMA_2[size]
        return bool(max(_group_sizes("grouped", heads, groups)) > 1)

    return (
        Step("LLaMA 2 7B: 32 heads of 32 keys, of which no two query heads read one",
             not shares("7B")),
        Step("13B: 40 of 40, neither", not shares("13B")),
        Step(
            "70B: 64 of 8, of which each is read by 8",
            sp.Matrix(_group_sizes("grouped", *_LLAMA_2["70B"])) - 8 * sp.ones(8, 1),
        ),
    )  # fmt: skip


def _own_keys() -> Counterexample:
    heads, groups = _LLAMA_2["7B"]
    return Counterexample(
        "LLaMA 2 7B, 32 query heads and 32 key heads: most query heads that read one key head, "
        "stated to be at least 2, as in GQA",
        stated=sp.Integer(2),
        actual=sp.Max(*_group_sizes("grouped", heads, groups)),
    )


_GQA = "3.1 GQA"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gqa.contains_mqa",
        number="C039",
        statement="MQA loses a little quality and saves much memory.",
        latex=r"\mathrm{rank}\,[S_1;\dots;S_h]\le Gd_k",
        source=Source("004", "3.1 MQA", "A slight dip in quality buys a large saving."),
        verdict="empirical",
        form="exact",
        truth="Quality is a matter of measurement. Derived: every MQA is a GQA and every GQA an "
        "MHA, with copied keys, but not the other way round: scores of all heads together have at "
        "most rank G d_k.",
        derivation=_ranks,
    ),
    Claim(
        id="gqa.heads_per_group",
        number="C040",
        statement="With 1 < G < h groups each has h/G query heads.",
        latex=r"\#\{i:\lfloor iG/h\rfloor=g\}=h/G",
        source=Source("004", _GQA, "G between 1 and h; a group has h/G query heads."),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "G divides h"),),
        truth="Else groups differ in size: with h = 8 G is 2 or 4.",
        counterexample=_three_groups,
        derivation=_divides,
    ),
    Claim(
        id="gqa.used_by_models",
        number="C043",
        statement="LLaMA 2, Mistral and most open models of today use GQA.",
        latex=r"\text{LLaMA 2 7B: }h=G=32",
        source=Source("004", _GQA, "Names LLaMA 2, Mistral and most other open models."),
        verdict="refuted",
        form="exact",
        truth="In LLaMA 2 only 34B and 70B do; 7B and 13B have MHA. The derivation decides it from "
        "published head counts; what most models do is none of mathematics.",
        counterexample=_own_keys,
        derivation=_models,
    ),
    Claim(
        id="gqa.quality_of_mha",
        number="C044",
        statement="GQA keeps almost all of the quality of MHA.",
        latex=r"1<G<h",
        source=Source("004", _GQA, "Quality nearly as with full MHA, at a smaller cache."),
        verdict="empirical",
        form="none",
        truth="A matter of measurement; how the cache shrinks is in gqa.cache_ratios.",
    ),
)
