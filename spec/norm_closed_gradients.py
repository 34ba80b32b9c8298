"""The gradients of RMSNorm and LayerNorm as closed formulas, each written once.

Source: our own derivation; the claims in `norm_gradients` say that each is the derivative of
sum(upstream * result). With r what a row is multiplied by, h the normalised row and g the upstream
times the gain, dx is r times what is left of g without its part along h (and, for LayerNorm,
without its mean). eps that is added to the root changes the factor of the part along the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition, unmarked
from attnspec.spec.layer_norm_definition import PLACEMENTS as LAYER_PLACEMENTS
from attnspec.spec.layer_norm_definition import layer_norm
from attnspec.spec.moments import eps
from attnspec.spec.rms_norm_definition import GAINS, gain_of, rms_norm

RMS_PLACEMENTS = ("inside", "outside", "none")
"""Where eps stands; where it is clamped, a row's gradient is that without eps, or that of a
constant factor."""
_a, _c, _k, _l, _s = sp.symbols("a c k l s", integer=True, nonnegative=True)
_rows, _d = sp.symbols("rows d", integer=True, positive=True)
_x, _upstream = (sp.IndexedBase(n, shape=(_rows, _d), real=True) for n in ("x", "upstream"))
_weight = sp.IndexedBase("weight", shape=(_d,), real=True)

Entry = Callable[[sp.Expr], sp.Expr]


def _mean(entry: Entry) -> sp.Expr:
    return sp.Sum(entry(_k), (_k, 0, _d - 1)) / _d


def _factors(square: sp.Expr, placement: str) -> tuple[sp.Expr, sp.Expr]:
    """What a row is multiplied by, r, and the slope s of 1/r by half of the mean square."""
    root = sp.sqrt(square + eps) if placement == "inside" else sp.sqrt(square)
    return (1 / (root + eps) if placement == "outside" else 1 / root), 1 / root


def _of_row(row: Entry, above: Entry, placement: str) -> Entry:
    """The gradient of a row that is divided by a root of its mean square, from that of the
    result: r (g - y r s mean(g y)), where the slope of 1/r is s times y over the size."""
    factor, slope = _factors(sp.Sum(row(_s) ** 2, (_s, 0, _d - 1)) / _d, placement)
    along = _mean(lambda at: above(at) * row(at))
    return lambda at: factor * (above(at) - row(at) * factor * slope * along)


def _definition(name: str, of: str, expression: sp.Expr) -> Definition:
    rows = ((_a, _rows), (_c, _d))
    return Definition(
        f"{name}.{of}",
        expression,
        rows if of == "x" else rows[1:],
        (_x, _weight, _upstream),
        (_rows, _d, eps),
    )


def _over_rows(term: sp.Expr) -> sp.Expr:
    return sp.Sum(term, (_a, 0, _rows - 1))


def rms_norm_gradient(of: str, *, placement: str = "inside", gain: str = "plain") -> Definition:
    """The gradient of x[a, c] or weight[c]."""

    def row(at: sp.Expr) -> sp.Expr:
        return _x[_a, at]

    def above(at: sp.Expr) -> sp.Expr:
        return _upstream[_a, at] * unmarked(gain_of(_weight[at], gain))

    factor, _ = _factors(_mean(lambda at: row(at) ** 2), placement)
    expression = {
        "x": lambda: _of_row(row, above, placement)(_c),
        "weight": lambda: _over_rows(_upstream[_a, _c] * row(_c) * factor),
    }[of]()
    return _definition(f"rms_norm.{placement}.{gain}", of, expression)


def layer_norm_gradient(of: str, *, placement: str = "inside") -> Definition:
    """The gradient of x[a, c], weight[c] or bias[c]."""
    middle = sp.Sum(_x[_a, _l], (_l, 0, _d - 1)) / _d

    def centred(at: sp.Expr) -> sp.Expr:
        return _x[_a, at] - middle

    def above(at: sp.Expr) -> sp.Expr:
        return _upstream[_a, at] * _weight[at]

    def rest(at: sp.Expr) -> sp.Expr:
        """Without its mean: what the mean of the row sends back."""
        return above(at) - _mean(above)

    factor, _ = _factors(_mean(lambda at: centred(at) ** 2), placement)
    expression = {
        # centred rows add up to 0, so that along them g and g less its mean are the same
        "x": lambda: _of_row(centred, rest, placement)(_c),
        "weight": lambda: _over_rows(_upstream[_a, _c] * centred(_c) * factor),
        "bias": lambda: _over_rows(_upstream[_a, _c]),
    }[of]()
    return _definition(f"layer_norm.{placement}", of, expression)


@cache
def norm_gradients() -> Mapping[str, tuple[Definition, Definition]]:
    """By name the closed formula, and the definition whose gradient it is."""
    found = {}
    for placement in RMS_PLACEMENTS:
        for gain in GAINS:
            for of in ("x", "weight"):
                made = rms_norm_gradient(of, placement=placement, gain=gain)
                found[made.name] = made, rms_norm(eps_placement=placement, gain=gain)
    for placement in LAYER_PLACEMENTS:
        for of in ("x", "weight", "bias"):
            made = layer_norm_gradient(of, placement=placement)
            found[made.name] = made, layer_norm(eps_placement=placement)
    return found
