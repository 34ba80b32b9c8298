"""The scale of attention's scores: what dividing by the square root of the head size does.

Sources: document 000 (1 to 3, 5), document 004 (3.1, why divide). Variances are those of a model:
random vectors with independent entries. What follows for softmax is in `softmax_scaling`.
"""

from __future__ import annotations

from itertools import product

import sympy as sp

from attnspec.spec.attention_sums import head
from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.symbols import i, j, key, q

_mean, _spread, _scale = sp.symbols("m sigma c", positive=True)
_length = sp.Function("V")
_size = sp.Symbol("n", integer=True, positive=True)


def _pair(mean: sp.Expr, spread: sp.Expr) -> sp.Expr:
    """E x_i x_j of a vector with uncorrelated entries of that mean and standard deviation."""
    return spread**2 * sp.KroneckerDelta(i, j, (1, head)) + mean**2


def _mean_square(mean: sp.Expr, spread: sp.Expr) -> sp.Expr:
    """E (q.k)^2, the sum over i and j of E q_i q_j E k_i k_j, for q independent of k."""
    products = q[i] * key[i] * q[j] * key[j]
    moment = _pair(mean, spread)
    expected = products.subs({q[i] * q[j]: moment, key[i] * key[j]: moment})
    return sp.expand(sp.Sum(sp.expand(expected), (j, 1, head), (i, 1, head)).doit())


def _variance(mean: sp.Expr, spread: sp.Expr) -> sp.Expr:
    """Of q.k, whose mean is the sum of E q_i E k_i."""
    expected = sp.Sum(mean * mean, (i, 1, head)).doit()
    return sp.expand(_mean_square(mean, spread) - expected**2)


def _average(entries: tuple[int, ...], size: int, power: int) -> sp.Expr:
    """The average of (q.k)^power over all q and k with entries from the list, equally likely."""
    vectors = list(product(entries, repeat=size))
    values = [
        sum(x * y for x, y in zip(one, other, strict=True)) ** power
        for one in vectors
        for other in vectors
    ]
    return sp.Rational(sum(values), len(values))


def _recursion(mean: sp.Expr, spread: sp.Expr) -> sp.Expr:
    """E (q.k)^2 for n entries, from n - 1: a further product q_n k_n is independent of the sum E
    of the others, so what it adds is 2 E(E) E(q_n) E(k_n) + E(q_n^2) E(k_n^2)."""
    product_mean, product_square = mean**2, (spread**2 + mean**2) ** 2
    added = 2 * (_size * product_mean) * product_mean + product_square
    start = {_length(1): product_square}
    return sp.rsolve(_length(_size + 1) - _length(_size) - added, _length(_size), start)


def _unit_moments() -> tuple[Step, ...]:
    t = sp.Symbol("t", real=True)
    one, density = sp.Symbol("k", real=True), sp.sqrt(2 * sp.pi)
    lost = sp.Symbol("w", positive=True)  # 1 - t^2, for |t| < 1
    generating = sp.integrate(sp.exp(-lost * one**2 / 2) / density, (one, -sp.oo, sp.oo))
    moments = (1 - t**2) ** (-head / 2)
    return (
        Step(
            "mean 0, variance 1, uncorrelated: E (q.k)^2 is the sum of delta_ij^2, which is d",
            _mean_square(sp.S.Zero, sp.S.One) - head,
        ),
        Step(
            "and E q.k is the sum of E q_i E k_i, which is 0",
            _variance(sp.S.Zero, sp.S.One) - _mean_square(sp.S.Zero, sp.S.One),
        ),
        Step(
            "adding entry after entry gives the same",
            _recursion(sp.S.Zero, sp.S.One) - _size,
        ),
        Step(
            "signs at d = 2, no Gaussian: the mean square over all 16 is 2",
            _average((-1, 1), 2, 2) - 2,
        ),
        Step(
            "Gaussian: E exp(t q k) = E exp(t^2 k^2 / 2) = (1 - t^2)^(-1/2)",
            sp.simplify(generating - lost ** sp.Rational(-1, 2)),
        ),
        Step(
            "so E exp(t q.k) is its power d, whose second derivative at 0 is d",
            sp.diff(moments, t, 2).subs(t, 0) - head,
        ),
        Step("its first 0", sp.diff(moments, t).subs(t, 0)),
        Step(
            "and its fourth 3 d (d + 2)",
            sp.expand(sp.diff(moments, t, 4).subs(t, 0) - 3 * head * (head + 2)),
        ),
    )


def _unit_scaled() -> tuple[Step, ...]:
    scaled = _scale**2 * _mean_square(sp.S.Zero, sp.S.One)
    solutions = sp.solve(sp.Eq(scaled, 1), _scale)
    return (
        Step(
            "the variance of c q.k is c^2 d, which is 1 for c = 1/sqrt(d)",
            scaled.subs(_scale, 1 / sp.sqrt(head)) - 1,
        ),
        Step(
            "and for no other positive c",
            sp.Matrix(solutions) - sp.Matrix([1 / sp.sqrt(head)]),
        ),
    )


def _general_moments() -> tuple[Step, ...]:
    t = sp.Symbol("t", real=True)
    scaled = sp.expand(_variance(_mean, _spread) / head)
    squares = (1 - 2 * t) ** (-head / 2)  # E exp(t sum of q_i^2), Gaussian
    first, second = (sp.diff(squares, t, order).subs(t, 0) for order in (1, 2))
    return (
        *_unit_scaled(),
        Step(
            "entries of mean m and standard deviation sigma: the scaled product has variance "
            "sigma^4 + 2 sigma^2 m^2",
            scaled - _spread**4 - 2 * _spread**2 * _mean**2,
        ),
        Step(
            "adding entry after entry gives the same mean square",
            sp.expand(_recursion(_mean, _spread) - _mean_square(_mean, _spread).subs(head, _size)),
        ),
        Step("d = 1, entries +-2: 16", _average((-2, 2), 1, 2) - 16),
        Step(
            "d = 1, entries 0 and 2, of mean 1 and variance 1: 3",
            _average((0, 2), 1, 2) - _average((0, 2), 1, 1) ** 2 - 3,
        ),
        Step(
            "q = k, Gaussian: the scaled product has mean sqrt(d)",
            first / sp.sqrt(head) - sp.sqrt(head),
        ),
        Step("and variance 2", sp.simplify((second - first**2) / head - 2)),
    )


def _wide_entries() -> Counterexample:
    return Counterexample(
        "d = 1, independent entries +-2, of variance 4: variance of the scaled product, stated to "
        "be preserved",
        stated=sp.Integer(4),
        actual=_average((-2, 2), 1, 2),
    )


def _growth() -> tuple[Step, ...]:
    root = sp.sqrt(_mean_square(sp.S.Zero, sp.S.One))
    x = sp.Symbol("x", positive=True)
    first = sp.Symbol("a", positive=True)
    lead = sp.loggamma(x + sp.Rational(1, 2)) - sp.loggamma(x) - sp.log(x) / 2
    return (
        *_unit_moments()[:3],
        Step("so the root mean square of q.k is sqrt(d)", root - sp.sqrt(head)),
        Step(
            "four times as many terms double it: signs cancel, or it would be four times as large",
            root.subs(head, 4 * head) / root - 2,
        ),
        Step("it grows beyond bounds", sp.Eq(sp.limit(sp.sqrt(x), x, sp.oo), sp.oo)),
        Step(
            "Gaussian: given k, q.k is |k| times a standard one, whose mean size is sqrt(2/pi)",
            sp.integrate(
                2 * first * sp.exp(-(first**2) / 2) / sp.sqrt(2 * sp.pi), (first, 0, sp.oo)
            )
            - sp.sqrt(2 / sp.pi),
        ),
        Step(
            "and E |k| = sqrt(2) Gamma((d+1)/2) / Gamma(d/2), the mean of the chi density; "
            "here times Gamma(d/2)",
            sp.powsimp(
                sp.integrate(
                    first**head * sp.exp(-(first**2) / 2) * 2 ** (1 - head / 2), (first, 0, sp.oo)
                )
            )
            - sp.sqrt(2) * sp.gamma((head + 1) / 2),
        ),
        Step(
            "so with x = d/2 E |q.k| = 2/sqrt(pi) Gamma(x + 1/2) / Gamma(x), which goes like "
            "sqrt(2d/pi) = 2 sqrt(x/pi): the logarithm of their ratio vanishes",
            sp.limit(lead, x, sp.oo),
        ),
        Step("e_1.e_1 = 1 at every d", _unit_vector(head) - 1),
    )


def _unit_vector(size: sp.Expr) -> sp.Expr:
    """e_1.e_1, as the sum of its d products."""
    return 1 + sp.Sum(sp.S.Zero, (i, 2, size)).doit()


def _constant_pair() -> Counterexample:
    return Counterexample(
        "q = k = e_1 at d = 4: size of q.k, stated to have grown to sqrt(d)",
        stated=sp.sqrt(sp.Integer(4)),
        actual=_unit_vector(sp.Integer(4)),
    )


_MODEL = Condition(
    "D1",
    "q and k are independent of each other, with uncorrelated entries of mean 0 and variance 1",
)
_TYPICAL = Condition("D2", "the root mean square is meant, not every pair of vectors")


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="attention.unit_variance_of_model",
        number="A01",
        statement="Dividing by the square root of the head size preserves the variance.",
        latex=r"\mathrm{Var}\,\frac{q\cdot k}{\sqrt d}=\sigma^4+2\sigma^2m^2",
        source=Source("000", "1 Core Intuition", "The factor keeps the variance as it was."),
        verdict="holds-if",
        form="symbolic",
        conditions=(_MODEL,),
        truth="Entries of standard deviation sigma and mean m give sigma^4 + 2 sigma^2 m^2; q = k "
        "gives mean sqrt(d) and variance 2. The distribution is free.",
        counterexample=_wide_entries,
        derivation=_general_moments,
    ),
    Claim(
        id="attention.variance_of_product_eq_size",
        number="A05",
        statement="Independent standard entries give the product of query and key variance d_k.",
        latex=r"\mathrm{Var}(q\cdot k)=\sum_{i,j}\delta_{ij}^2=d",
        source=Source("000", "2 Formulations", "Standard normal entries: Var(q.k) = d_k."),
        verdict="holds",
        form="symbolic",
        truth="For every distribution with mean 0 and variance 1, not only the normal one.",
        derivation=_unit_moments,
    ),
    Claim(
        id="attention.variance_of_score_eq_one",
        number="A06",
        statement="The scaled product has variance 1.",
        latex=r"c^2d=1\iff c=1/\sqrt d\quad(c>0)",
        source=Source("000", "2 Formulations", "Var(q.k / sqrt(d_k)) = 1."),
        verdict="holds",
        form="symbolic",
        derivation=_unit_scaled,
    ),
    Claim(
        id="attention.scale_is_unique",
        number="A25",
        statement="The scale is 1/sqrt(d_k) and nothing else.",
        latex=r"c^2d=1\iff c=1/\sqrt d\quad(c>0)",
        source=Source("000", "5 Checkpoint", "Asks why it is this very factor."),
        verdict="holds",
        form="symbolic",
        truth="The only positive factor of unit variance at every d.",
        same_as="attention.variance_of_score_eq_one",
    ),
    Claim(
        id="attention.products_grow_of_model",
        number="A16",
        statement="Unscaled products grow with the head size.",
        latex=r"\sqrt{E(q\cdot k)^2}=\sqrt d,\quad E|q\cdot k|\sim\sqrt{2d/\pi}",
        source=Source("000", "3 Mechanism", "Products without the factor get larger with d_k."),
        verdict="holds-if",
        form="symbolic",
        conditions=(_MODEL, _TYPICAL),
        truth="Like sqrt(d).",
        counterexample=_constant_pair,
        derivation=_growth,
    ),
    Claim(
        id="attention.products_grow_of_terms",
        number="C011",
        statement="As d_k grows, more terms make the sum larger.",
        latex=r"\sqrt{E(q\cdot k)^2}=\sqrt d",
        source=Source("004", "3.1 Why Divide", "More terms are added, so the sum grows."),
        verdict="holds-if",
        form="symbolic",
        conditions=(_MODEL, _TYPICAL),
        truth="Like sqrt(d), as terms have both signs.",
        same_as="attention.products_grow_of_model",
    ),
    Claim(
        id="attention.variance_of_any_size",
        number="C014",
        statement="Dividing by sqrt(d_k) keeps the variance close to 1 however large d_k is.",
        latex=r"\mathrm{Var}\,\frac{q\cdot k}{\sqrt d}=1",
        source=Source("004", "3.1 Why Divide", "The variance stays near 1 at any d_k."),
        verdict="holds-if",
        form="symbolic",
        conditions=(_MODEL,),
        truth="Exactly 1 in the model; trained vectors need not follow it.",
        same_as="attention.unit_variance_of_model",
    ),
)
