"""RMSNorm: scaled to mean square 1, without centering.

Sources: document 004 (3.8, RMSNorm, and 3.10). The documents write it without eps.
"""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.definition import Definition
from attnspec.spec.layer_norm_definition import layer_norm
from attnspec.spec.moments import eps
from attnspec.spec.norm_forms import (
    SQUARE_SUM,
    at,
    channels,
    d,
    in_moments,
    layer_norm_form,
    mu,
    q,
    rms_norm_form,
    row_of,
    v,
    weight,
)
from attnspec.spec.rms_norm_definition import GAINS, rms_norm
from attnspec.spec.symbols import c, x

_BARE = rms_norm(weight=False, eps_placement="none")
_GUARDED = rms_norm(weight=False)


def _hat(placement: str) -> sp.Expr:
    return rms_norm_form(placement=placement, gain=None).value


def mean_square() -> Step:
    """That q in the forms is the row's mean square."""
    (squares,) = rms_norm_form().sums
    return Step("q is the mean square: it stands for the sum of x^2 over d", squares - SQUARE_SUM)


def _formula() -> tuple[Step, ...]:
    t = sp.Symbol("t", positive=True)
    small, square = sp.symbols("e s", positive=True)
    return (
        mean_square(),
        Step(
            "without eps the value is gamma x / RMS(x)",
            rms_norm_form(placement="none").value - weight[c] * x[c] / sp.sqrt(q),
        ),
        Step(
            "whose root mean square is 1, but for gamma: the squares sum to d",
            (_hat("none") ** 2 / x[c] ** 2 * d * q) - d,
        ),
        Step(
            "at t e_1 it is +sqrt(d) for every t > 0: 2 for d = 4", at(_BARE, (t, 0, 0, 0))[0] - 2
        ),
        Step("and -2 for every t < 0", at(_BARE, (-t, 0, 0, 0))[0] + 2),
        Step(
            "so no value at 0 continues it; with eps > 0 it is 0 there",
            sum(entry**2 for entry in at(_GUARDED, (0, 0, 0, 0), small)),
        ),
        Step(
            "and the mean square of the result is q / (q + eps)",
            sp.simplify(
                (_hat("inside") ** 2 / x[c] ** 2 * q - q / (q + eps)).subs({eps: small, q: square})
            ),
        ),
    )


def _across_zero() -> Counterexample:
    return Counterexample(
        "d = 1: value at x = -1/1000, stated to be that at x = 1/1000, as of one number at x = 0",
        stated=at(_BARE, (sp.Rational(1, 1000),))[0],
        actual=at(_BARE, (-sp.Rational(1, 1000),))[0],
    )


def _conventions() -> tuple[Step, ...]:
    below = {
        "inside": sp.sqrt(q + eps),
        "outside": sp.sqrt(q) + eps,
        "clamped": sp.sqrt(sp.Max(q, eps)),
        "none": sp.sqrt(q),
    }
    gains = {"plain": weight[c], "one-plus": 1 + weight[c]}
    small, square, rest = sp.symbols("e s r", positive=True)
    differing = (sp.sqrt(square) + small) ** 2 - (square + small)
    return (
        mean_square(),
        *(
            Step(
                f"eps {placement}, gain {gain}",
                rms_norm_form(placement=placement, gain=gain).value
                - gains[gain] * x[c] / below[placement],
            )
            for placement in below
            for gain in GAINS
        ),
        Step(
            "outside and inside differ: the squares of what is divided by, by "
            "eps (2 sqrt(q) + eps - 1)",
            sp.expand(differing - small * (2 * sp.sqrt(square) + small - 1)),
        ),
        Step(
            "clamped is without eps where q > eps",
            below["clamped"].subs({eps: small, q: small + rest}) - sp.sqrt(small + rest),
        ),
    )


def _no_mean() -> tuple[Step, ...]:
    (squares,) = rms_norm_form().sums
    return (
        mean_square(),
        Step("the mean square is v + mu^2", in_moments(squares) / d - (v + mu**2)),
        Step(
            "and takes no mean: the definition has one sum, of squares",
            sp.Integer(len(row_of(rms_norm()).atoms(sp.Sum))) - 1,
        ),
        Step(
            "entries of equal size have it as their size, whatever their mean: (3, -3) and (3, 3) "
            "become (1, -1) and (1, 1)",
            sp.Matrix([at(_BARE, (3, -3)), at(_BARE, (3, 3))]) - sp.Matrix([[1, -1], [1, 1]]),
        ),
    )


def _centred() -> tuple[Step, ...]:
    centred = _hat("inside").subs({x[c]: x[c] - mu, q: v})
    layer = layer_norm_form(affine=False).value
    (squares,) = rms_norm_form().sums
    of_centred = sp.Sum(squares.function.subs(x[c], x[c] - mu), *squares.limits)
    small = sp.Symbol("e", positive=True)
    return (
        mean_square(),
        Step("the mean square of x - mu is v", in_moments(of_centred) / d - v),
        Step(
            "it is the sum of squares of LayerNorm's definition",
            of_centred - layer_norm_form().sums[1],
        ),
        Step("so RMSNorm of x - mu is LayerNorm of x, with the same eps", centred - layer),
        Step(
            "the two agree on x iff mu = 0: RMSNorm's values sum to d mu / sqrt(v + mu^2 + eps), "
            "LayerNorm's to 0",
            sp.simplify(
                in_moments(sp.Sum(_hat("inside").subs({q: v + mu**2, eps: small}), channels))
                - d * mu / sp.sqrt(v + mu**2 + small)
            ),
        ),
        Step("LayerNorm's do", in_moments(sp.Sum(layer, channels))),
        Step(
            "on (1, -1), of mean 0, they agree",
            sp.Matrix(at(layer_norm(weight=False, bias=False), (1, -1), sp.S.One))
            - sp.Matrix(at(_GUARDED, (1, -1), sp.S.One)),
        ),
    )


def _operations(definition: Definition) -> Iterator[sp.Expr]:
    """How often each arithmetic operation of a row is done; what occurs twice is done once."""
    for node in set(sp.preorder_traversal(row_of(definition))):
        times = d if node.free_symbols & {c} else sp.S.One
        if node.free_symbols <= {d}:
            continue  # of the size alone, as the end of a sum
        if isinstance(node, sp.Sum):
            yield d - 1
        elif isinstance(node, sp.Add):
            yield (len(node.args) - 1) * times
        elif isinstance(node, sp.Mul):
            # a sign is none, and an inverse size is the division that it stands for
            yield (len([factor for factor in node.args if factor != -1]) - 1) * times
        elif isinstance(node, sp.Pow) and node.exp != -1:
            # a square, or a root and its inverse
            yield (1 if node.exp == 2 else 2) * times


def _parameters(definition: Definition) -> sp.Expr:
    """How many numbers a norm learns."""
    return sp.Add(*(sp.prod(array.shape) for array in definition.arrays[1:]))


def _counts() -> tuple[Step, ...]:
    layer, rms = sp.Add(*_operations(layer_norm())), sp.Add(*_operations(rms_norm()))
    per_channel = [sp.Poly(sp.expand(count), d).coeff_monomial(d) for count in (layer, rms)]
    return (
        Step("LayerNorm learns 2 d numbers, gain and bias", _parameters(layer_norm()) - 2 * d),
        Step("RMSNorm learns d", _parameters(rms_norm()) - d),
        Step("LayerNorm's definition does 7 operations a channel", per_channel[0] - 7),
        Step("RMSNorm's does 4", per_channel[1] - 4),
        Step("besides, each does a number that no size enters", sp.diff(layer - 7 * d, d)),
        Step("which is the same for both: RMSNorm does 3 d fewer", sp.expand(layer - rms - 3 * d)),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="rms_norm.formula",
        number="C172",
        statement="RMSNorm is gain times x over the root mean square of x.",
        latex=r"\mathrm{RMS}(x)=\sqrt{\tfrac1d\sum_ix_i^2},\quad"
        r"\mathrm{RMSNorm}(x)=\gamma\,\frac{x}{\mathrm{RMS}(x)}",
        source=Source("004", "3.8 RMSNorm", "The formula, without an epsilon."),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "x is not zero"),),
        truth="At 0 it is 0/0, and its limits from two sides differ. Implementations divide by "
        "sqrt(q + eps), which gives 0 there and mean square q / (q + eps) elsewhere.",
        counterexample=_across_zero,
        derivation=_formula,
    ),
    Claim(
        id="rms_norm.definition",
        number="",
        statement="The expression that the suite evaluates is RMSNorm, with eps and gain where the "
        "convention puts them.",
        latex=r"\gamma x\big/\sqrt{q+\epsilon},\ \gamma x/(\sqrt q+\epsilon),\ "
        r"\gamma x\big/\sqrt{\max(q,\epsilon)},\ \gamma x/\sqrt q",
        source=Source("004", "3.8 RMSNorm", "The formula, without an epsilon."),
        verdict="holds",
        form="symbolic",
        derivation=_conventions,
    ),
    Claim(
        id="rms_norm.takes_no_mean",
        number="C173",
        statement="The root mean square measures size without subtracting a mean.",
        latex=r"\mathrm{RMS}^2=\sigma^2+\mu^2",
        source=Source("004", "3.8 RMSNorm", "It measures magnitude, and no mean is taken off."),
        verdict="holds",
        form="symbolic",
        derivation=_no_mean,
    ),
    Claim(
        id="rms_norm.of_centred_eq_layer_norm",
        number="C174",
        statement="RMSNorm is LayerNorm without its centering: of centered values both are the "
        "same.",
        latex=r"\mathrm{LN}(x)=\mathrm{RMSNorm}(x-\mu),\quad"
        r"\mathrm{LN}(x)=\mathrm{RMSNorm}(x)\iff\mu=0",
        source=Source("004", "3.8 RMSNorm", "LayerNorm is simplified by leaving the mean in."),
        verdict="holds",
        form="symbolic",
        derivation=_centred,
    ),
    Claim(
        id="rms_norm.fewer_operations",
        number="C175",
        statement="RMSNorm has fewer operations and parameters than LayerNorm, and no bias.",
        latex=r"d\ \text{for}\ 2d\ \text{parameters},\quad 4d\ \text{for}\ 7d\ \text{operations}",
        source=Source("004", "3.8 RMSNorm", "No centering and no shift: less work, less to learn."),
        verdict="holds",
        form="symbolic",
        derivation=_counts,
    ),
    Claim(
        id="rms_norm.faster_in_practice",
        number="C176",
        statement="RMSNorm is faster in practice, and almost always used before the sublayer.",
        latex=r"\text{speed and usage}",
        source=Source("004", "3.8 RMSNorm", "Faster in practice, and paired with pre-norm."),
        verdict="empirical",
        form="none",
        truth="Speed depends on kernels, which are bound by memory: both norms read and write a "
        "row once. Usage is a matter of models.",
    ),
    Claim(
        id="rms_norm.formula_restated",
        number="C186",
        statement="RMSNorm once more, without eps.",
        latex=r"\mathrm{RMSNorm}(x)=\gamma\,x/\mathrm{RMS}(x)",
        source=Source("004", "3.10 Quick Reference", "The formula again, without an epsilon."),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "x is not zero"),),
        same_as="rms_norm.formula",
    ),
)
