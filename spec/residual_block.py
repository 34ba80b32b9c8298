"""Residual blocks: norm before the sublayer or after the sum.

Source: document 004 (3.8, post-norm and pre-norm).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Condition, Counterexample, Source, Step
from attnspec.spec.definition import unmarked
from attnspec.spec.derivatives import derivative
from attnspec.spec.layer_norm_definition import layer_normalised
from attnspec.spec.moments import eps
from attnspec.spec.norm_forms import at, channels, d, in_moments, layer_norm_form, mu, v
from attnspec.spec.normal import normal
from attnspec.spec.residual_block_definition import Layer, block, residual_block
from attnspec.spec.rms_norm_definition import Entry
from attnspec.spec.sums import distributed
from attnspec.spec.symbols import c, k, x

_sublayer, _norm = sp.Function("f", real=True), sp.Function("N", real=True)
_W = sp.IndexedBase("W", real=True)
_layers = sp.Symbol("L", integer=True, positive=True)
_depth = sp.Symbol("l", integer=True, nonnegative=True)
_NOTHING = {"sublayer_factor": (0, 0), "sublayer_order": (0, 1)}


def _any(function: sp.Function) -> Layer:
    """A layer of which nothing is known."""
    return lambda row: lambda channel: function(row(channel), channel)


def _entry(channel: sp.Expr) -> sp.Expr:
    return x[channel]


def _wired(placement: str) -> sp.Expr:
    """Channel c of a block whose sublayer is f and whose norm is N."""
    return unmarked(block(placement, _entry, _any(_sublayer), _any(_norm))(c))


def wiring() -> tuple[Step, ...]:
    """The two blocks, and the sum that pre-norm blocks add up to."""
    stream = sp.Function("x", real=True)
    kept = stream(_depth + 1) - stream(_depth)
    return (
        Step("pre-norm is x + f(N(x))", _wired("pre") - x[c] - _sublayer(_norm(x[c], c), c)),
        Step("post-norm is N(x + f(x))", _wired("post") - _norm(x[c] + _sublayer(x[c], c), c)),
        Step(
            "so a pre-norm layer adds f(N(x)), and the differences telescope: x_L - x_0 is their "
            "sum over all layers",
            sp.Sum(kept, (_depth, 0, _layers - 1)).doit() - (stream(_layers) - stream(0)),
        ),
    )


def _after() -> tuple[Step, ...]:
    hat = layer_norm_form(affine=False).value
    three_one = (sp.Integer(3), sp.Integer(1))
    return (
        *wiring(),
        Step(
            "LayerNorm's values sum to zero, whatever it is given: so those of a post-norm block "
            "do",
            in_moments(sp.Sum(hat, channels)),
        ),
        Step(
            "post-norm with f = 0 and eps = 0: (3, 1) becomes (1, -1)",
            sp.Matrix(at(residual_block("post", "layer_norm"), three_one, **_NOTHING))
            - sp.Matrix([1, -1]),
        ),
        Step(
            "pre-norm: it stays (3, 1), no norm comes after the sublayer",
            sp.Matrix(at(residual_block("pre", "layer_norm"), three_one, **_NOTHING))
            - sp.Matrix([3, 1]),
        ),
    )


def _no_norm_after() -> Counterexample:
    given = (sp.Integer(3), sp.Integer(1))
    return Counterexample(
        "pre-norm block whose sublayer gives 0, x = (3, 1), eps = 0: first channel of the output, "
        "stated to be normalised after the sublayer",
        stated=at(residual_block("post", "layer_norm"), given, **_NOTHING)[0],
        actual=at(residual_block("pre", "layer_norm"), given, **_NOTHING)[0],
    )


def _linear(row: Entry) -> Entry:
    """A sublayer that mixes channels by any matrix W."""
    return lambda channel: sp.Sum(_W[channel, k] * row(k), (k, 0, d - 1))


def _layer_norm(row: Entry) -> Entry:
    return layer_normalised(row, c, d)


def identity_in_jacobian() -> tuple[Step, ...]:
    """That the derivative of pre-norm blocks is the identity plus something else."""
    here, there = sp.symbols("c0 k0", integer=True, nonnegative=True)
    ranges = {here: d, there: d}
    whole = unmarked(block("pre", _entry, _linear, _layer_norm)(here))
    branch = unmarked(_linear(_layer_norm(_entry))(here))
    slope = derivative(whole, x[there]) - derivative(branch, x[there])
    size = sp.Symbol("m", integer=True, positive=True)
    one, rest, new = (
        sp.Identity(size),
        sp.MatrixSymbol("P", size, size),
        sp.MatrixSymbol("J", size, size),
    )
    return (
        Step(
            "pre-norm, LayerNorm and any matrix: the derivative is the identity plus the branch's",
            normal(slope - sp.KroneckerDelta(here, there), ranges),
        ),
        Step(
            "one layer more on a product I + P of such layers: (I + J)(I + P) = I + (J + P + J P)",
            ((one + new) * (one + rest)).expand().doit() - (one + new + rest + new * rest),
        ),
    )  # fmt: skip


def _variances() -> tuple[Step, ...]:
    size = sp.Function("s")
    share = sp.Function("a")
    start, step = sp.symbols("s0 r", positive=True)
    first, second = sp.symbols("p f", real=True)
    grown = sp.rsolve(size(_depth + 1) - size(_depth) - step, size(_depth), {size(0): start})
    damped = sp.rsolve(share(_depth + 1) - share(_depth) / sp.sqrt(2), share(_depth), {share(0): 1})
    hat = layer_norm_form(affine=False).value
    branch = sp.IndexedBase("f", real=True)
    both = distributed(sp.Sum((x[c] + branch[c]) ** 2, channels))
    return (
        Step(
            "the squares of a sum: those of stream and branch, and twice their products, which are "
            "zero together where both have mean 0 and are uncorrelated",
            both
            - sp.Sum(x[c] ** 2, channels)
            - sp.Sum(branch[c] ** 2, channels)
            - 2 * sp.Sum(x[c] * branch[c], channels),
        ),
        Step(
            "so in pre-norm, with branches of variance r, variances are s0 + l r",
            sp.expand(grown - start - _depth * step),
        ),
        Step(
            "in post-norm, with stream and branch of variance 1, the sum has variance 2, so the "
            "norm multiplies the stream by 1/sqrt(2)",
            sp.diff(hat.subs({x[c]: first + second, v: 2, mu: 0, eps: 0}), first) - 1 / sp.sqrt(2),
        ),
        Step("after L layers by 2^(-L/2)", sp.simplify(damped - 2 ** (-_depth / 2))),
        Step("2^-12 after 24 blocks", damped.subs(_depth, 24) - sp.Rational(1, 2**12)),
    )


def _stability() -> tuple[Step, ...]:
    return (*identity_in_jacobian(), *_variances())


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="residual_block.norm_after_sublayer",
        number="C163",
        statement="The norm stands right after attention and right after the feed-forward network "
        "of every layer.",
        latex=r"x_{l+1}=\mathrm{LN}(x_l+\mathrm{Sub}(x_l))",
        source=Source(
            "004", "3.8 LayerNorm", "A norm follows each of the two sublayers, in every layer."
        ),
        verdict="holds-if",
        form="symbolic",
        conditions=(Condition("D1", "the block is post-norm"),),
        truth="A pre-norm block, today's usual one, has it before the sublayer, and nothing is "
        "normalised after the sum.",
        counterexample=_no_norm_after,
        derivation=_after,
    ),
    Claim(
        id="residual_block.placements",
        number="C170",
        statement="A post-norm block is norm(x + sublayer(x)), a pre-norm block x + "
        "sublayer(norm(x)); so pre-norm blocks add up.",
        latex=r"x_{l+1}=\mathrm{LN}(x_l+\mathrm{Sub}(x_l)),\quad "
        r"x_L=x_0+\sum_{l<L}\mathrm{Sub}(\mathrm{LN}(x_l))",
        source=Source("004", "3.8 Post/Pre-LN", "Both formulas, the original and today's."),
        verdict="holds",
        form="symbolic",
        derivation=wiring,
    ),
    Claim(
        id="residual_block.prenorm_trains_stably",
        number="C171",
        statement="Pre-norm trains more stably, as the residual stream passes unnormalised.",
        latex=r"\partial x_{l+1}/\partial x_l=I+J_l,\quad\mathrm{Var}\,x_l=s_0+lr,\quad"
        r"\text{post-norm: }2^{-L/2}",
        source=Source(
            "004", "3.8 Post/Pre-LN", "An untouched stream keeps gradients in order at scale."
        ),
        verdict="empirical",
        form="symbolic",
        truth="How training goes is no matter of mathematics. Derived: the Jacobian of pre-norm "
        "blocks contains the identity, and variance grows linearly where branches are "
        "uncorrelated; post-norm blocks with stream and branch of variance 1 damp the stream by "
        "2^(-L/2) over L blocks.",
        derivation=_stability,
    ),
)
