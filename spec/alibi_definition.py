"""ALiBi as expressions: a slope for each head, and a bias that falls with distance.

Sources: document 004 (3.4, ALiBi, with the sign corrected); Press et al., *Train short, test long*,
whose code has the rule for head counts that are no power of two.

With P the greatest power of two up to the number of heads, head k has the slope 2^(-8 (k+1) / P)
for k < P, and the others, l = k - P, take every other slope of 2P heads: 2^(-4 (2l+1) / P).
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition, choice, either, one_if, rnd

_h, _i, _j, _u = sp.symbols("h i j u", integer=True, nonnegative=True)
_heads, _t, _s = sp.symbols("heads t s", integer=True, positive=True)
_constant = sp.IndexedBase("constant", shape=(_heads, _t), real=True)

SLOPES = ("paper", "geometric")
ROW_CONSTANTS = ("zero-diagonal", "free")
FUTURES = ("symmetric", "unspecified")


def power_of_two_up_to(heads: sp.Expr) -> sp.Expr:
    """The greatest power of two that is at most `heads`: 1 + 1 + 2 + 4 + ..., as far as it fits."""
    fits = choice(sp.Integer(2) ** _u, sp.Integer(2) ** (_u + 1) <= heads, sp.Integer(0))
    return 1 + sp.Sum(fits, (_u, 0, heads - 1))


def _power(step: sp.Expr, k: sp.Expr) -> sp.Expr:
    """2^(-step k), at once or as a power of the first slope 2^-step. The second is written as an
    exponential, which takes what the first slope is off k times."""
    base = rnd(sp.Integer(2) ** -step, "accumulate")
    return either(
        sp.Integer(2) ** (-step * k), sp.exp(rnd(k * rnd(sp.log(base), "accumulate"), "accumulate"))
    )


def slope(k: sp.Expr, heads: sp.Expr, slopes: str) -> sp.Expr:
    """The slope of head k, counted from 0."""
    if slopes == "geometric":
        return _power(8 / heads, k + 1)
    power = power_of_two_up_to(heads)
    return choice(_power(8 / power, k + 1), k < power, _power(4 / power, 2 * (k - power) + 1))


def distance(i: sp.Expr, j: sp.Expr, t: sp.Expr, s: sp.Expr) -> sp.Expr:
    """How far key j is from query i, which sits at position i + s - t."""
    return sp.Abs(i + s - t - j)


def alibi_slopes(slopes: str) -> Definition:
    """-> slope[h]."""
    value = rnd(slope(_h, _heads, slopes), "output")
    return Definition(f"alibi_slopes.{slopes}", value, ((_h, _heads),), (), (_heads,))


def alibi_bias(slopes: str, row_constant: str) -> Definition:
    """-> bias[h, i, j] = -slope[h] times the distance, for t <= s.

    `free`: plus constant[h, i], which softmax cannot see. It is what an implementation has on the
    diagonal, where it was rounded to storage itself, after one rounding on the way.
    """
    product = rnd(slope(_h, _heads, slopes), "tables") * rnd(distance(_i, _j, _t, _s), "angles")
    value: sp.Expr = -product
    arrays: tuple[sp.IndexedBase, ...] = ()
    if row_constant == "free":
        given = rnd(rnd(_constant[_h, _i], "accumulate", 1), "output", 1)
        value, arrays = given - product, (_constant,)
    return Definition(
        f"alibi_bias.{slopes}.{row_constant.replace('-', '_')}",
        rnd(value, "output"),
        ((_h, _heads), (_i, _t), (_j, _s)),
        arrays,
        (_heads, _t, _s),
    )


def judged(future: str) -> Definition:
    """-> 1 where the bias[h, i, j] is promised, else 0: everywhere, or at keys up to the query."""
    known = sp.true if future == "symmetric" else _j <= _i + _s - _t
    return Definition(
        f"alibi_bias.judged.{future}",
        one_if(known),
        ((_h, _heads), (_i, _t), (_j, _s)),
        (),
        (_heads, _t, _s),
    )


@cache
def alibi_distances() -> Definition:
    """-> how far key j is from query i: distance[i, j]."""
    value = distance(_i, _j, _t, _s)
    return Definition("alibi_distances", value, ((_i, _t), (_j, _s)), (), (_t, _s))


@cache
def powers_of_first(slopes: str) -> Definition:
    """-> 1 for heads whose slope is a power of the first head's, by itself; else 0: mark[h]."""
    first = sp.true if slopes == "geometric" else _h < power_of_two_up_to(_heads)
    return Definition(
        f"alibi_slopes.powers_of_first.{slopes}", one_if(first), ((_h, _heads),), (), (_heads,)
    )


@cache
def definitions() -> tuple[Definition, ...]:
    """Slopes by either rule, and biases with either constant a row."""
    return (
        *(alibi_slopes(slopes) for slopes in SLOPES),
        *(alibi_bias(slopes, constant) for slopes in SLOPES for constant in ROW_CONSTANTS),
    )
