"""LayerNorm of tokens: what gain and bias bring back, what eps does, which tokens enter.

Source: document 004 (3.8, LayerNorm).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.definition import unmarked
from attnspec.spec.layer_norm import statistics
from attnspec.spec.layer_norm_definition import layer_norm
from attnspec.spec.moments import eps
from attnspec.spec.norm_forms import (
    ROW_SUM,
    at,
    bias,
    channels,
    d,
    in_moments,
    layer_norm_form,
    mu,
    v,
    weight,
)
from attnspec.spec.sums import distributed
from attnspec.spec.symbols import c, x

_BARE = layer_norm(weight=False, bias=False)
_MICRO = sp.Rational(1, 10**6)
_SMALL = (sp.Rational(1, 1000), -sp.Rational(1, 1000))


def _hat() -> sp.Expr:
    """The normalised value, before gain and bias."""
    return layer_norm_form(affine=False).value


def _affine() -> tuple[Step, ...]:
    spread, factor = sp.symbols("s a", positive=True)
    restored = layer_norm_form().value.subs({weight[c]: sp.sqrt(v + eps), bias[c]: mu})
    hat = _hat().subs({eps: 0, v: spread})
    moved = hat.subs({x[c]: factor * x[c], mu: factor * mu, spread: factor**2 * spread})
    anything = {"weight": sp.symbols("g1 g2"), "bias": sp.symbols("b1 b2")}
    return (
        *statistics(),
        Step("gamma = sqrt(v + eps) and beta = mu give one token back", restored - x[c]),
        Step(
            "at eps = 0, a x has the same normalised value for any a > 0", sp.simplify(moved - hat)
        ),
        Step(
            "as its mean is a mu",
            distributed(sp.Sum(factor * x[c], channels)).subs(ROW_SUM, d * mu) / d - factor * mu,
        ),
        Step(
            "and its variance a^2 v",
            sp.simplify(
                in_moments(sp.Sum((factor * x[c] - factor * mu) ** 2, channels)) / d - factor**2 * v
            ),
        ),
        Step(
            "(1, -1) and (2, -2) both become (1, -1)",
            at(_BARE, (1, -1))[0] - at(_BARE, (2, -2))[0],
        ),
        Step(
            "so under no gamma and beta do they differ",
            sp.Matrix(at(layer_norm(), (1, -1), **anything))
            - sp.Matrix(at(layer_norm(), (2, -2), **anything)),
        ),
    )


def _restored_twice() -> Counterexample:
    affine = {"weight": (1, 1), "bias": (0, 0)}
    return Counterexample(
        "eps = 0, gamma and beta that give x = (1, -1) back: first channel of the output for "
        "(2, -2), stated to be given back as well",
        stated=sp.Integer(2),
        actual=at(layer_norm(), (2, -2), **affine)[0],
    )


def _eps() -> tuple[Step, ...]:
    small, spread, factor, ratio = sp.symbols("e s a r", positive=True)
    hat = _hat().subs({eps: small, v: spread})
    exact = _hat().subs({eps: 0, v: spread})
    moved = hat.subs(
        {
            x[c]: factor * x[c],
            mu: factor * mu,
            spread: factor**2 * spread,
            small: factor**2 * small,
        },
        simultaneous=True,
    )
    return (
        *statistics(),
        Step(
            "eps > 0 makes a constant row 0, where there would be 0 / 0",
            sum(entry**2 for entry in at(_BARE, (3, 3, 3), _MICRO)),
        ),
        Step(
            "it shrinks any other: the value is that at eps = 0 over sqrt(1 + eps / v)",
            sp.simplify(hat**2 / exact**2 - 1 / (1 + small / spread)),
        ),
        Step(
            "which is less, by any ratio of eps to v", sp.simplify(1 - 1 / (1 + ratio)).is_positive
        ),
        Step(
            "but not by much: the divisor is at most 1 + eps / (2 v), whose square is larger by "
            "(eps / v)^2 / 4",
            sp.expand((1 + ratio / 2) ** 2 - (1 + ratio) - ratio**2 / 4),
        ),
        Step(
            "scaling is no longer free: LN(a x; a^2 eps) = LN(x; eps)",
            sp.simplify(moved - hat),
        ),
        Step(
            "at x = (1, -1) / 1000 and eps = 10^-6 the value is 1/sqrt(2) of that at eps = 0",
            sp.simplify(at(_BARE, _SMALL, _MICRO)[0] / at(_BARE, _SMALL)[0] - 1 / sp.sqrt(2)),
        ),
    )


def _shrunk_row() -> Counterexample:
    return Counterexample(
        "x = (1, -1) / 1000, eps = 10^-6: first normalised value, stated to be that without eps, "
        "as the variance isn't zero",
        stated=at(_BARE, _SMALL)[0],
        actual=at(_BARE, _SMALL, _MICRO)[0],
    )


def _batch_norm(first: sp.Expr, second: sp.Expr) -> sp.Expr:
    """Batch normalisation with the statistics of a batch of two, of one channel: LayerNorm along
    the other axis. The first entry's value."""
    return at(_BARE, (first, second))[0]


def _by_statistics(entry: sp.Expr, mean: sp.Expr, variance: sp.Expr) -> sp.Expr:
    """An entry, normalised with a mean and a variance that are given."""
    return _hat().subs({x[c]: entry, mu: mean, v: variance}, simultaneous=True)


def _token_local() -> tuple[Step, ...]:
    (row, _), (channel, _) = layer_norm().axes
    here, there, other = sp.symbols("c0 k0 r", integer=True, nonnegative=True)
    plain = unmarked(layer_norm().expression)
    entries = layer_norm().arrays[0]
    found = sp.diff(plain.subs(channel, here), entries[row + 1 + other, there])
    running_mean = sp.Symbol("m", real=True)
    running = sp.Symbol("w", positive=True)
    evaluated = _by_statistics(entries[row, here], running_mean, running)
    first, second = sp.symbols("p q", real=True)
    below = ((first - second) / 2) ** 2 + eps
    pair = (first - second) / 2 / sp.sqrt(below)
    return (
        Step(
            "the numbers of a row that enter its output are its own",
            sp.Integer(len({node.indices[0] for node in plain.atoms(sp.Indexed)
                            if node.base == entries} - {row})),
        ),
        Step("so nothing moves with an entry of another row", found.doit()),
        Step(
            "a batch's mean and variance make (p - q)/2 / sqrt(((p - q)/2)^2 + eps) of p beside q",
            sp.simplify(
                _by_statistics(first, (first + second) / 2, (first - second) ** 2 / 4) - pair
            ),
        ),
        Step(
            "which moves with q, the other entry of the batch",
            sp.simplify(
                sp.diff(pair, second) + eps / (2 * below ** sp.Rational(3, 2))
            ),
        ),
        Step("0 beside 2 becomes -1", _batch_norm(sp.S.Zero, sp.Integer(2)) + 1),
        Step("and 0 beside -2 becomes 1", _batch_norm(sp.S.Zero, sp.Integer(-2)) - 1),
        Step(
            "with running statistics, as in evaluation, it doesn't",
            sp.diff(evaluated, entries[row + 1 + other, there]),
        ),
    )  # fmt: skip


def _running_statistics() -> Counterexample:
    def evaluated(batch: tuple[int, int]) -> sp.Expr:
        running_mean, running_variance = sp.S.Zero, sp.S.One
        first = sp.Integer(batch[0])
        return _by_statistics(first, running_mean, running_variance).subs(eps, 0)

    return Counterexample(
        "one channel, batches (0, 2) and (0, -2), batch normalisation in evaluation with running "
        "mean 0 and variance 1: how far the first entry's value moves, stated to move as with the "
        "batch's own statistics",
        stated=_batch_norm(sp.S.Zero, sp.Integer(-2)) - _batch_norm(sp.S.Zero, sp.Integer(2)),
        actual=evaluated((0, -2)) - evaluated((0, 2)),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="layer_norm.affine_restores",
        number="C167",
        statement="Gain and bias can bring back the scale and offset that normalising took away.",
        latex=r"\gamma=\sqrt{\sigma^2+\epsilon},\ \beta=\mu\Rightarrow\mathrm{LN}(x)=x;\quad"
        r"\mathrm{LN}(x)=\mathrm{LN}(ax)\ (\epsilon=0)",
        source=Source(
            "004", "3.8 LayerNorm", "The learned parameters restore whatever scale is needed."
        ),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition(
                "D1", "one mean and one variance are to be restored, the same for all tokens"
            ),
        ),
        truth="They are the same for every token, and x and a x come out alike at eps = 0: what "
        "told tokens apart by their scale is gone.",
        counterexample=_restored_twice,
        derivation=_affine,
    ),
    Claim(
        id="layer_norm.eps_only_guards",
        number="C168",
        statement="Eps does nothing but keep the division defined.",
        latex=r"\mathrm{LN}(x;\epsilon)=\mathrm{LN}(x;0)/\sqrt{1+\epsilon/\sigma^2},\quad"
        r"\mathrm{LN}(ax;a^2\epsilon)=\mathrm{LN}(x;\epsilon)",
        source=Source(
            "004", "3.8 LayerNorm", "A constant near 10^-6, there to avoid a division by zero."
        ),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "the variance of every token is far above eps, or zero"),),
        truth="It divides the output by sqrt(1 + eps / v), which is at most 1 + eps / (2 v), and "
        "so ends the freedom of scale. Libraries differ in it: 10^-5 is as usual as 10^-6.",
        counterexample=_shrunk_row,
        derivation=_eps,
    ),
    Claim(
        id="layer_norm.token_local",
        number="C169",
        statement="LayerNorm of a token depends on no other token, of the sequence or the batch; "
        "batch normalisation does.",
        latex=r"\mathrm{LN}(X)_{b,t}=\mathrm{LN}(X_{b,t})",
        source=Source("004", "3.8 LayerNorm", "Statistics over the features, not over the batch."),
        verdict="holds-if",
        form="symbolic",
        conditions=(
            Condition(
                "D1", "batch normalisation is meant in training, with the batch's statistics"
            ),
        ),
        truth="In evaluation batch normalisation uses running statistics, and is local as well.",
        counterexample=_running_statistics,
        derivation=_token_local,
    ),
)
