"""Softmax near saturation: how much weight the largest logit leaves, and what gradient.

Sources: document 000 (1 to 3), document 003 (1), document 004 (3.1, why divide). What the
documents say of large logits is true of a large *gap* between them: softmax does not change when
all its logits move together.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.softmax import exponentials, positive_sum, shift_invariance, two_way
from attnspec.spec.symbols import N, j, k, l, others, slack, z

_positive = sp.Symbol("Z", positive=True)
_gap = sp.Symbol("g", real=True)
_pair = sp.symbols("z_0 z_1", real=True)


def _trailing(gap: sp.Expr) -> sp.Sum:
    """Sum of exp(z_k - z_0) over the s others, where logit 0 leads each by at least `gap`:
    z_0 - z_k = gap + h_k with h_k >= 0, and exp(h_k) = 1 + e_k."""
    return sp.Sum(sp.exp(-gap) / (1 + slack[k]), (k, 1, others))


def _jacobian() -> tuple[Step, ...]:
    derivative = sp.diff(sp.exp(z[j]) / exponentials(), z[l]).doit()
    in_range = derivative.replace(lambda e: isinstance(e, sp.Piecewise), lambda e: e.args[0].expr)
    p_j, p_l = (sp.exp(z[a]) / exponentials() for a in (j, l))
    weight = sp.exp(z[l]) / _positive
    row = sp.Sum(sp.KroneckerDelta(j, l, (0, N - 1)), (l, 0, N - 1)).doit() - (
        sp.factor_terms(sp.Sum(weight, (l, 0, N - 1)))
    )
    one = row.subs(sp.Sum(sp.exp(z[l]), (l, 0, N - 1)), _positive)
    slope = sp.diff(two_way(_gap), _gap)
    return (
        Step(
            "d p_j / d z_l = p_j (delta_jl - p_l), for l among the N logits",
            sp.expand(in_range - p_j * (sp.KroneckerDelta(j, l) - p_l)),
        ),
        Step("so a row of the Jacobian sums to p_j (1 - sum of p_l) = 0", one),
        Step(
            "two logits with gap g: J_00 = 1 / (4 cosh(g/2)^2)",
            sp.simplify((slope - 1 / (4 * sp.cosh(_gap / 2) ** 2)).rewrite(sp.exp)),
        ),
    )


def _pair_slope(other: int) -> sp.Expr:
    """The slope of the first of two weights in a logit."""
    first, second = (sp.exp(logit) for logit in _pair)
    return sp.diff(first / (first + second), _pair[other])


def _leader() -> tuple[Step, ...]:
    rest = _trailing(_gap)
    margin = sp.Sum(sp.exp(-_gap) * slack[k] / (1 + slack[k]), (k, 1, others))
    held = sp.Symbol("S", nonnegative=True)
    leader = 1 / (1 + held)
    return (
        Step(
            "s exp(-g) exceeds the others' exponentials by a sum",
            sp.Sum(
                sp.simplify(sp.exp(-_gap) - rest.function - margin.function), *rest.limits
            ).doit(),
        ),
        Step("whose terms are non-negative", margin.function.is_nonnegative),
        Step(
            "s exp(-g) is the bound's own sum",
            sp.Sum(sp.exp(-_gap), (k, 1, others)).doit() - others * sp.exp(-_gap),
        ),
        Step(
            "with S the others' exponentials the leader keeps 1/(1+S), and the rest of the weight, "
            "S/(1+S), is at most S, hence at most s exp(-g)",
            sp.factor(held - (1 - leader)).is_nonnegative,
        ),
        Step("which goes to zero with the gap", sp.limit(others * sp.exp(-_gap), _gap, sp.oo)),
    )


def _vanishing_gradient() -> tuple[Step, ...]:
    weight, rest, more = sp.symbols("w r y", nonnegative=True)
    missing = weight + rest  # 1 - p_0: one other's weight and that of all the rest
    size = sp.Symbol("C", real=True)
    return (
        *_jacobian(),
        *_leader(),
        Step(
            "J_00 = p_0 (1 - p_0) is at most 1 - p_0",
            sp.expand(missing - (1 - missing) * missing - missing**2),
        ),
        Step(
            "J_ll = p_l (1 - p_l) is at most 1 - p_0 for every other l",
            sp.expand(missing - weight * (1 - weight)).is_nonnegative,
        ),
        Step(
            "and so is |J_jl| = p_j p_l, where p_j = 1/(1 + y) <= 1: every entry vanishes with gap",
            sp.factor(missing - weight / (1 + more)).is_nonnegative,
        ),
        Step(
            "the size alone does nothing: logits (C, C) keep J_00 = 1/4 for every C",
            _pair_slope(0).subs(dict.fromkeys(_pair, size)) - sp.Rational(1, 4),
        ),
        Step(
            "J_01 is then -1/4",
            _pair_slope(1).subs(dict.fromkeys(_pair, size)) + sp.Rational(1, 4),
        ),
    )


def _large_ties() -> Counterexample:
    equal = sp.exp(1000) / (2 * sp.exp(1000))
    return Counterexample(
        "logits (1000, 1000), which are extreme: J_00, stated to be nearly zero",
        stated=sp.S.Zero,
        actual=equal * (1 - equal),
    )


def _never_zero() -> tuple[Step, ...]:
    mine, rest = sp.symbols("a r", positive=True)
    held = sp.Symbol("S", nonnegative=True)
    logit = _pair[0]
    slope = sp.diff(sp.exp(logit) / (sp.exp(logit) + rest), logit).subs(sp.exp(logit), mine)
    slope = sp.factor(slope)
    return (
        Step("the others' exponentials, at least one, have a positive sum", positive_sum()),
        Step(
            "beside a sum r the weight of a = exp(z) has the slope a r / (a + r)^2 in z",
            slope - mine * rest / (mine + rest) ** 2,
        ),
        Step("which is positive for finite logits", slope.is_positive),
        Step(
            "logits (log 999, 0): p = 999/1000 and slope 999/10^6, not 0",
            sp.simplify(two_way(sp.log(999)) * (1 - two_way(sp.log(999))))
            - sp.Rational(999, 10**6),
        ),
        *_leader(),
        Step(
            "the slope p_0 (1 - p_0) = S/(1+S)^2 is at most S, so at most s exp(-g)",
            sp.factor(held - held / (1 + held) ** 2).is_nonnegative,
        ),
    )


def _saturated_pair() -> Counterexample:
    p = sp.simplify(two_way(sp.log(999)))
    return Counterexample(
        "logits (log 999, 0), weights (0.999, 0.001): slope of the first weight",
        stated=sp.S.Zero,
        actual=p * (1 - p),
    )


def _gap_needed() -> tuple[Step, ...]:
    size = sp.Symbol("C", real=True)
    tied = sp.Symbol("r", integer=True, positive=True)
    equal = sp.exp(size) / sp.Sum(sp.exp(size), (k, 0, N - 1)).doit()
    share = 1 / (tied + others * sp.exp(-_gap))
    return (
        *shift_invariance(),
        Step("N equal logits C weigh 1/N each, for every C", sp.simplify(equal - 1 / N)),
        Step("two of them: 1/2, not 1", equal.subs(N, 2) - sp.Rational(1, 2)),
        Step(
            "r tied maxima that lead s others by g: each weighs 1 / (r + s exp(-g)), in the limit "
            "1/r",
            sp.limit(share, _gap, sp.oo) - 1 / tied,
        ),
        Step(
            "and each other exp(-g) / (r + s exp(-g)), in the limit 0",
            sp.limit(sp.exp(-_gap) * share, _gap, sp.oo),
        ),
        Step(
            "two maxima keep a slope of 1/4, however large",
            _pair_slope(0).subs(dict.fromkeys(_pair, size)) - sp.Rational(1, 4),
        ),
        *_leader(),
    )


def _tied_pair() -> Counterexample:
    large = sp.exp(1000)
    return Counterexample(
        "logits (1000, 1000): weight of the largest, stated to dominate",
        stated=sp.S.One,
        actual=large / (large + large),
    )


_GAP = Condition("D1", "one logit leads all others by a large gap, whatever the logits' size")


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="softmax.jacobian",
        number="",
        statement="A weight's derivative is its own weight times what is left of the other's "
        "share; rows of the Jacobian sum to zero.",
        latex=r"\partial p_j/\partial z_l=p_j(\delta_{jl}-p_l)",
        source=Source(
            "000", "2 Formulations", "Calls the derivative of softmax nearly zero, unwritten."
        ),
        verdict="holds",
        form="symbolic",
        derivation=_jacobian,
    ),
    Claim(
        id="softmax.saturated_of_gap",
        number="",
        statement="A logit that leads s others by g leaves them at most s exp(-g) of the weight.",
        latex=r"1-p_0\le s\,e^{-g}",
        source=Source("004", "3.1 Why Divide", "Names a saturated regime without a bound on it."),
        verdict="holds",
        form="symbolic",
        derivation=_leader,
    ),
    Claim(
        id="softmax.gradient_vanishes_of_gap",
        number="A07",
        statement="Extreme logits make the derivative of softmax vanish.",
        latex=r"|J_{jl}|\le 1-p_0\le s\,e^{-g},\quad J_{00}=\tfrac1{4\cosh^2(g/2)}\ (s=1)",
        source=Source(
            "000",
            "2 Formulations",
            "Without the scaling the logits get extreme, where the gradient of softmax is about 0.",
        ),
        verdict="holds-if",
        form="symbolic",
        conditions=(_GAP,),
        truth="Every entry of the Jacobian is at most the weight that the leader leaves. Logits "
        "that are equal keep entries of +-1/4, however large they are.",
        counterexample=_large_ties,
        derivation=_vanishing_gradient,
    ),
    Claim(
        id="softmax.gradient_never_zero",
        number="A17",
        statement="In the saturated region the gradient is zero.",
        latex=r"0<p_0(1-p_0)\le s\,e^{-g}",
        source=Source("000", "3 Mechanism", "Saturated regions of softmax have zero gradient."),
        verdict="corrected",
        form="symbolic",
        truth="It is positive for finite logits and at least two of them, and exponentially small "
        "in the gap. It is zero only where floating point underflows.",
        counterexample=_saturated_pair,
        derivation=_never_zero,
    ),
    Claim(
        id="softmax.saturation_needs_gap",
        number="C012",
        statement="Very large scores saturate softmax: one weight dominates, the rest collapse.",
        latex=r"p\to\tfrac1r\ \text{on the }r\text{ maxima},\ 0\text{ elsewhere, as }g\to\infty",
        source=Source(
            "004", "3.1 Why Divide", "Large scores leave one weight and wipe out the others."
        ),
        verdict="corrected",
        form="symbolic",
        truth="Only a large gap to a unique maximum does: equal scores weigh 1/N at any size, r "
        "tied maxima share the weight.",
        counterexample=_tied_pair,
        derivation=_gap_needed,
    ),
)
