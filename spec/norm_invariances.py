"""Norms: what changes nothing in them, and how large their values can be.

Source: document 004 (3.8); the document states neither, both follow from its formulas.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.layer_norm import statistics
from attnspec.spec.layer_norm_definition import layer_norm
from attnspec.spec.moments import eps
from attnspec.spec.norm_forms import (
    ROW_SUM,
    SQUARE_SUM,
    at,
    channels,
    d,
    in_moments,
    layer_norm_form,
    mu,
    q,
    rms_norm_form,
    v,
)
from attnspec.spec.rms_norm import mean_square
from attnspec.spec.rms_norm_definition import rms_norm
from attnspec.spec.sums import distributed
from attnspec.spec.symbols import c, k, x

_LAYER = layer_norm(weight=False, bias=False)
_RMS = rms_norm(weight=False)
_small, _a, _s = sp.symbols("e a s", positive=True)
_shift = sp.Symbol("t", real=True)


def _layer_hat() -> sp.Expr:
    return layer_norm_form(affine=False).value


def _rms_hat() -> sp.Expr:
    return rms_norm_form(gain=None).value


def _scaled(hat: sp.Expr, of_eps: sp.Expr) -> sp.Expr:
    """The value for a x, with `of_eps` for eps: the moments scale as the steps say."""
    moved = {x[c]: _a * x[c], mu: _a * mu, v: _a**2 * _s, q: _a**2 * _s, eps: of_eps}
    return hat.subs(moved, simultaneous=True)


def _still(hat: sp.Expr, of_eps: sp.Expr) -> sp.Expr:
    return hat.subs({v: _s, q: _s, eps: of_eps})


def _invariances() -> tuple[Step, ...]:
    shifted = _layer_hat().subs({x[c]: x[c] + _shift, mu: mu + _shift}, simultaneous=True)
    three = (sp.Integer(1), sp.Integer(2), sp.Integer(-4))
    later = tuple(entry + 3 for entry in three)
    return (
        *statistics(),
        mean_square(),
        Step(
            "x + t has mean mu + t",
            in_moments(sp.Sum(x[c] + _shift, channels)) / d - (mu + _shift),
        ),
        Step(
            "and variance v, so LayerNorm doesn't see t, at any eps",
            in_moments(sp.Sum((x[c] + _shift - mu - _shift) ** 2, channels)) / d - v,
        ),
        Step("LN(x + t) = LN(x)", shifted - _layer_hat()),
        Step(
            "a x has mean a mu and mean square a^2 q",
            distributed(sp.Sum((_a * x[c]) ** 2, channels)) - _a**2 * SQUARE_SUM,
        ),
        Step(
            "as its sum is a times the sum", distributed(sp.Sum(_a * x[c], channels)) - _a * ROW_SUM
        ),
        Step(
            "a > 0, eps = 0: RMSNorm(a x) = RMSNorm(x)",
            sp.simplify(_scaled(_rms_hat(), sp.S.Zero) - _still(_rms_hat(), sp.S.Zero)),
        ),
        Step(
            "and LN(a x) = LN(x)",
            sp.simplify(_scaled(_layer_hat(), sp.S.Zero) - _still(_layer_hat(), sp.S.Zero)),
        ),
        Step(
            "with eps, it has to scale along: RMSNorm(a x; a^2 eps) = RMSNorm(x; eps)",
            sp.simplify(_scaled(_rms_hat(), _a**2 * _small) - _still(_rms_hat(), _small)),
        ),
        Step(
            "a negative factor changes signs: RMSNorm(-x) = -RMSNorm(x)",
            _rms_hat().subs(x[c], -x[c]) + _rms_hat(),
        ),
        Step(
            "RMSNorm sees a shift: (1, 2, -4) and (4, 5, -1), eps = 0, first value 1/sqrt(7) and "
            "4/sqrt(14)",
            sp.Matrix([at(_RMS, three)[0] - 1 / sp.sqrt(7), at(_RMS, later)[0] - 4 / sp.sqrt(14)]),
        ),
        Step("LayerNorm doesn't", sp.Matrix(at(_LAYER, three)) - sp.Matrix(at(_LAYER, later))),
    )


def _layer_bound() -> tuple[Step, ...]:
    rest = sp.Symbol("n", integer=True, positive=True)
    others = (k, 1, rest)
    room = sp.Symbol("u", nonnegative=True)
    squares = distributed(sp.Sum((x[k] + _a / rest) ** 2, others)).doit()
    known = {sp.Sum(x[k], others): -_a, sp.Sum(x[k] ** 2, others): _s - _a**2}
    # S = a^2 d / (d - 1) + u, by the two steps before; v = S / d
    total = _a**2 * (rest + 1) / rest + room
    value = _layer_hat().subs({x[c]: mu + _a, v: total / (rest + 1), eps: _small})
    first = (1 - mu) / sp.sqrt(v)
    of_unit = {mu: 1 / (rest + 1), v: 1 / (rest + 1) - 1 / (rest + 1) ** 2}
    return (
        Step(
            "one centered entry is a > 0, the other n = d - 1 sum to -a; with S for all squares, "
            "the squares of x_k + a/n sum to S - a^2 d / (d - 1)",
            sp.simplify(squares.subs(known) - (_s - _a**2 * (rest + 1) / rest)),
        ),
        Step(
            "which is a sum of squares, so S is at least that: S = a^2 d / (d - 1) + u",
            ((x[k] + _a / rest) ** 2).is_nonnegative,
        ),
        Step(
            "so the square of the normalised value is at most d - 1",
            sp.factor(rest - value**2).is_nonnegative,
        ),
        Step(
            "e_1 has mean 1/d and mean square 1/d: its first value is sqrt(d - 1) at eps = 0",
            sp.simplify(first.subs(of_unit) ** 2 - rest),
        ),
        Step("2 at d = 5", at(_LAYER, (1, 0, 0, 0, 0))[0] - 2),
        Step("a single channel becomes 0, for any eps > 0", at(_LAYER, (7,), _small)[0]),
    )


def _rms_bound() -> tuple[Step, ...]:
    others = sp.Symbol("o", nonnegative=True)
    value = _rms_hat().subs({x[c]: _a, q: (_a**2 + others) / d, eps: _small})
    return (
        Step(
            "one entry is a, the squares of the others sum to o: the square of RMSNorm's value is "
            "at most d",
            sp.factor(d - value**2).is_nonnegative,
        ),
        Step(
            "and d at o = 0 and eps = 0, as for e_1",
            sp.simplify(value.subs({others: 0, _small: 0}) ** 2 - d),
        ),
        Step("2 at d = 4", at(_RMS, (1, 0, 0, 0))[0] - 2),
    )


def _bounds() -> tuple[Step, ...]:
    return (*statistics(), mean_square(), *_layer_bound(), *_rms_bound())


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="layer_norm.bounded",
        number="C177",
        statement="Normalised values are bounded: by sqrt(d - 1) in LayerNorm, by sqrt(d) in "
        "RMSNorm, and no bound is smaller.",
        latex=r"|\hat x_i|\le\sqrt{d-1}\ (\mathrm{LN}),\quad|\hat x_i|\le\sqrt d\ (\mathrm{RMS})",
        source=Source("004", "3.8 RMSNorm", "Not said: it follows from both formulas."),
        verdict="holds",
        form="symbolic",
        derivation=_bounds,
    ),
    Claim(
        id="layer_norm.invariances",
        number="C178",
        statement="A shift of all channels changes nothing in LayerNorm. At eps = 0 a positive "
        "factor changes nothing in RMSNorm, which a shift does change.",
        latex=r"\mathrm{LN}(x+t\mathbf1)=\mathrm{LN}(x),\quad"
        r"\mathrm{RMSNorm}(ax;a^2\epsilon)=\mathrm{RMSNorm}(x;\epsilon)",
        source=Source("004", "3.8 RMSNorm", "Not said: it follows from both formulas."),
        verdict="holds",
        form="symbolic",
        derivation=_invariances,
    ),
)
