"""ALiBi's slopes: one number for each head, from the number of heads alone.

Source: document 004 (3.4, ALiBi). Slopes are magnitudes here: the sign is the bias's.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.alibi_definition import SLOPES, alibi_slopes, power_of_two_up_to, slope
from attnspec.spec.claim import Claim, Counterexample, Source, Step
from attnspec.spec.definition import choice, either, unmarked
from attnspec.spec.exact_values import entry_value

_k, _l, _p, _rest, _u = sp.symbols("k l p r u", integer=True, nonnegative=True)
_heads, _power = sp.symbols("h P", integer=True, positive=True)


def published(k: sp.Expr, heads: sp.Expr) -> sp.Expr:
    """The slope of head k, counted from 1, of a power of two: 2^(-8k/h)."""
    return sp.Integer(2) ** (-8 * k / heads)


def slopes(heads: int, rule: str = "paper") -> tuple[sp.Expr, ...]:
    """All slopes of the definition for so many heads."""
    made = alibi_slopes(rule)
    return tuple(entry_value(made, {"heads": heads}, {}, (k,)) for k in range(heads))


def _branches() -> tuple[sp.Expr, sp.Expr]:
    """The two cases of the paper's rule, with P for the power of two."""
    total = next(iter(power_of_two_up_to(_heads).atoms(sp.Sum)))
    named = slope(_k, _heads, "paper").subs(total, _power - 1)
    if not isinstance(named, choice):
        raise TypeError(f"the paper's rule has one case only: {named}")
    first, _, second = named.args
    return unmarked(first), unmarked(second)


def _forms() -> tuple[sp.Expr, sp.Expr]:
    """A power of two at once, and as a power of the first slope."""
    (both,) = slope(_k, _heads, "geometric").atoms(either)
    at_once, repeated = (unmarked(form) for form in both.args)
    return at_once, repeated


def _definition() -> tuple[Step, ...]:
    first, second = _branches()
    at_once, repeated = _forms()
    heads = 2**_p + _rest  # r < 2^p, so that 2^p is the greatest power of two up to the heads
    room = sp.Symbol("e", integer=True, positive=True)
    above = published(_l + 1, _power)
    below = published(_l, _power)
    return (
        Step("head k < P has 2^(-8 (k+1) / P)", sp.simplify(first - published(_k + 1, _power))),
        Step("head P + l has 2^(-4 (2l+1) / P)", sp.simplify(
            second.subs(_k, _power + _l) - sp.Integer(2) ** (-4 * (2 * _l + 1) / _power))),
        Step("which is slope 2l + 1 of 2P heads, every other of them", sp.simplify(
            second.subs(_k, _power + _l) - published(2 * _l + 1, 2 * _power))),
        Step("between slopes l and l + 1 of P heads: the root of their product", sp.simplify(
            sp.log(second.subs(_k, _power + _l)) - sp.log(above * below) / 2)),
        Step("a power of the first slope is the same", sp.simplify(
            sp.expand_log(sp.log(at_once) - sp.log(repeated), force=True))),
        Step("1 + 1 + 2 + ... + 2^(p-1) = 2^p", 1 + sp.Sum(2**_u, (_u, 0, _p - 1)).doit() - 2**_p),
        Step("of h = 2^p + r heads 2^p fits", (heads - 2**_p).is_nonnegative),
        Step("and 2^(p+1) doesn't, for r = 2^p - e with e > 0", sp.expand(
            2 ** (_p + 1) - heads.subs(_rest, 2**_p - room)).is_positive),
        Step(
            "for 1 to 24 heads P is as Python's integers have it",
            sp.Matrix(
                [
                    power_of_two_up_to(sp.Integer(n)).doit() - 2 ** (n.bit_length() - 1)
                    for n in range(1, 25)
                ]
            ),
        ),
    )  # fmt: skip


def _published() -> tuple[Step, ...]:
    first, _ = _branches()
    eight, twelve = slopes(8), slopes(12)
    ratio = published(_k + 1, _heads) / published(_k, _heads)
    every = unmarked(slope(_k, _heads, "geometric"))
    four_more = tuple(sp.Integer(2) ** (sp.Rational(1, 2) - k) for k in range(1, 5))
    return (
        Step("h = P, a power of two: slope k is 2^(-8k/h), for k = 1 to h", sp.simplify(
            first.subs(_power, _heads) - published(_k + 1, _heads))),
        Step("where slopes are geometric for every h, so they are there", sp.simplify(
            every - published(_k + 1, _heads))),
        Step("each is 2^(-8/h) times the one before", sp.simplify(
            ratio - sp.Integer(2) ** (-8 / _heads))),
        Step("which is 1/2 for h = 8 alone: log2 of twice it is (h - 8)/h", sp.simplify(
            sp.expand_log(sp.log(2 * ratio), force=True) / sp.log(2) - (_heads - 8) / _heads)),
        Step("the first is below 1 at every h: its logarithm is negative", sp.expand_log(
            sp.log(published(sp.S.One, _heads)), force=True).is_negative),
        Step("the last 1/256", published(_heads, _heads) - sp.Rational(1, 256)),
        Step("h = 8: 1/2, 1/4, ..., 1/256", sp.Matrix(
            [x - sp.Rational(1, 2**k) for k, x in enumerate(eight, start=1)])),
        Step("h = 12: those, then sqrt(2) times 1/2, 1/4, 1/8, 1/16", sp.Matrix(
            [x - y for x, y in zip(twelve, (*eight, *four_more), strict=True)])),
    )  # fmt: skip


def _first_of_eight() -> Counterexample:
    return Counterexample(
        "8 heads: size of the first slope",
        stated=sp.S.One,
        actual=slopes(8)[0],
    )


def _no_parameters() -> tuple[Step, ...]:
    steps = []
    for rule in SLOPES:
        made = alibi_slopes(rule)
        head, heads = made.axes[0]
        steps += [
            Step(f"{rule}: no array enters", sp.Integer(len(made.arrays))),
            Step(
                f"{rule}: nothing but the head and the number of heads does",
                sp.Integer(len(unmarked(made.expression).free_symbols ^ {head, heads})),
            ),
        ]
    return tuple(steps)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="alibi_slopes.definition",
        number="",
        statement="The expression that the suite evaluates has the slopes of the paper: those of "
        "the greatest power of two P up to h, then every other one of 2P heads.",
        latex=r"2^{-8(k+1)/P}\ (k<P),\quad2^{-4(2l+1)/P}\ (k=P+l)",
        source=Source("004", "3.4 ALiBi", "Each head has a slope of its own."),
        verdict="holds",
        form="symbolic",
        derivation=_definition,
    ),
    Claim(
        id="alibi_slopes.geometric_of_power_of_two",
        number="C096",
        statement="Slopes are typically -1, -1/2, -1/4 and so on.",
        latex=r"2^{-8k/h},\ k=1..h",
        source=Source("004", "3.4 ALiBi", "A geometric sequence of slopes, as an example."),
        verdict="corrected",
        form="symbolic",
        truth="In size they are 2^(-8k/h), k = 1 to h, for a power of two h: geometric, never from "
        "1, and with the ratio 1/2 for 8 heads alone, 1/2 to 1/256.",
        counterexample=_first_of_eight,
        derivation=_published,
    ),
    Claim(
        id="alibi_slopes.no_parameters",
        number="C097",
        statement="ALiBi has no learned parameters for positions.",
        latex=r"\mathrm{slope}=f(k,h)",
        source=Source("004", "3.4 ALiBi", "Nothing is learned for position."),
        verdict="holds",
        form="symbolic",
        derivation=_no_parameters,
    ),
)
