"""The gradients of RMSNorm and LayerNorm: that closed formulas are derivatives, and what follows.

Source: our own derivation; the documents have the norms and no gradient. Sizes are symbolic, and
the eps and the gain stand where each convention puts them.
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.definition import Definition
from attnspec.spec.derivatives import derivative, entry_of, gradient_step, places, plain, ranges
from attnspec.spec.layer_norm_definition import layer_norm
from attnspec.spec.moments import eps
from attnspec.spec.norm_closed_gradients import RMS_PLACEMENTS, norm_gradients
from attnspec.spec.normal import normal
from attnspec.spec.rms_norm_definition import rms_norm

_k = sp.Symbol("k_1", integer=True, nonnegative=True)


def _loss(given: Definition, upstream: sp.IndexedBase) -> sp.Expr:
    """The sum of upstream times the result, over all rows."""
    (row, rows), (channel, size) = given.axes
    terms = upstream[row, channel] * given.expression
    return sp.Sum(terms, (channel, 0, size - 1), (row, 0, rows - 1))


def gradients_of(norm: str, of: str) -> tuple[Step, ...]:
    """That the closed formulas of one array are the derivatives, in each convention."""
    steps = []
    for name, (closed, given) in norm_gradients().items():
        if not (name.startswith(f"{norm}.") and name.endswith(f".{of}")):
            continue
        arrays = {str(array.label): array for array in given.arrays}
        total = _loss(given, closed.arrays[-1])
        says = f"{name}: the formula is the derivative of the sum of upstream times the result"
        steps.append(gradient_step(says, closed, total, arrays[of], arrays["x"]))
    return tuple(steps)


def _along(made: Definition, closed: Definition) -> Step:
    """That the derivative of a bare norm along a direction is the gradient for this upstream."""
    x, weight, direction = closed.arrays
    (row, _), (channel, size) = made.axes
    where = places(closed)
    here = {row: where[row], channel: where[channel]}
    slope = derivative(plain(made.expression, x).xreplace(here), x[where[row], _k])
    moved = sp.Sum(slope * direction[where[row], _k], (_k, 0, size - 1))
    bare = entry_of(closed, x).replace(
        lambda node: isinstance(node, sp.Indexed) and node.base == weight, lambda _: sp.S.One
    )
    says = f"{made.name}: the derivative along v is the gradient for an upstream of v"
    return Step(says, normal(moved - bare, ranges(closed)))


def _own_adjoint() -> tuple[Step, ...]:
    steps = []
    for placement in RMS_PLACEMENTS:
        closed, _ = norm_gradients()[f"rms_norm.{placement}.plain.x"]
        steps.append(_along(rms_norm(weight=False, eps_placement=placement), closed))
    for placement in ("inside", "outside"):
        closed, _ = norm_gradients()[f"layer_norm.{placement}.x"]
        bare = layer_norm(weight=False, bias=False, eps_placement=placement)
        steps.append(_along(bare, closed))
    return tuple(steps)


def _of_rows(name: str, *, times_x: bool) -> tuple[sp.Expr, Definition]:
    """The sum of a row's gradient, or of its products with x."""
    closed, _ = norm_gradients()[name]
    x = closed.arrays[0]
    row, channel = places(closed).values()
    entry = entry_of(closed, x) * (x[row, channel] if times_x else 1)
    size = ranges(closed)[channel]
    return sp.Sum(entry, (channel, 0, size - 1)), closed


def _rows_vanish() -> tuple[Step, ...]:
    steps = [*gradients_of("layer_norm", "x")]
    for placement in ("inside", "outside"):
        total, closed = _of_rows(f"layer_norm.{placement}.x", times_x=False)
        says = f"eps {placement}: the entries of a row's gradient add up to zero"
        steps.append(Step(says, normal(total, ranges(closed))))
    return tuple(steps)


def _left_by_eps() -> tuple[Step, ...]:
    total, closed = _of_rows("rms_norm.inside.plain.x", times_x=True)
    x, weight, upstream = closed.arrays
    row, channel = places(closed).values()
    size = ranges(closed)[channel]
    over = (channel, 0, size - 1)
    square = sp.Sum(x[row, channel] ** 2, over) / size + eps
    share = eps * sp.Sum(upstream[row, channel] * weight[channel] * x[row, channel], over)
    # both sides times the cube of the root: what is left is polynomial in the sums
    left = normal((total * square ** sp.Rational(3, 2) - share).expand(), ranges(closed))
    bare, without = _of_rows("rms_norm.none.plain.x", times_x=True)
    return (
        *gradients_of("rms_norm", "x"),
        Step(
            "the sum of x dx over a row is eps sum(g x) / (q + eps)^(3/2), g upstream times gain",
            sp.simplify(left),
        ),
        Step("so without eps it is zero", sp.simplify(normal(bare, ranges(without)))),
    )


_RMS = Source("004", "3.8 RMSNorm", "The formula, without an epsilon.")
_LAYER = Source("004", "3.8 LayerNorm", "The formula of a normalised token, and no derivative.")


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="rms_norm.gradient",
        number="",
        statement="The gradient of RMSNorm is the inverse root times what is left of upstream "
        "times gain without its part along the normalised row.",
        latex=r"dx=r\bigl(g-h\,\tfrac1d\sum_kg_kh_k\bigr),\quad h=rx,\ g=u\gamma",
        source=_RMS,
        verdict="holds",
        form="symbolic",
        truth="With eps under the root, or none. Added to the root, it makes the part along the "
        "row r^2 s x mean(g x), with s the inverse root of the mean square alone.",
        derivation=lambda: gradients_of("rms_norm", "x"),
    ),
    Claim(
        id="rms_norm.gradient_of_weight",
        number="",
        statement="The gradient of the gain is the sum over all rows of upstream times the "
        "normalised row.",
        latex=r"d\gamma_c=\sum_au_{ac}h_{ac}",
        source=_RMS,
        verdict="holds",
        form="symbolic",
        derivation=lambda: gradients_of("rms_norm", "weight"),
    ),
    Claim(
        id="rms_norm.gradient_orthogonal_to_x",
        number="",
        statement="The gradient of RMSNorm has no part along the row but what eps leaves.",
        latex=r"\sum_cx_c\,dx_c=\epsilon\sum_cg_cx_c\big/(q+\epsilon)^{3/2}",
        source=_RMS,
        verdict="holds",
        form="symbolic",
        derivation=_left_by_eps,
    ),
    Claim(
        id="layer_norm.gradient",
        number="",
        statement="The gradient of LayerNorm is the inverse root times what is left of upstream "
        "times weight without its mean and its part along the normalised row.",
        latex=r"dx=r\bigl(g-\bar g-h\,\tfrac1d\sum_kg_kh_k\bigr),\quad h=r(x-\mu),\ g=u\gamma",
        source=_LAYER,
        verdict="holds",
        form="symbolic",
        truth="With eps under the root. Added to it, it makes the part along the row "
        "r^2 s (x - mu) mean(g (x - mu)), with s the inverse root of the variance alone.",
        derivation=lambda: gradients_of("layer_norm", "x"),
    ),
    Claim(
        id="layer_norm.gradient_of_affine",
        number="",
        statement="The gradient of the weight is the sum over all rows of upstream times the "
        "normalised row, that of the bias the sum of upstream.",
        latex=r"d\gamma_c=\sum_au_{ac}h_{ac},\quad d\beta_c=\sum_au_{ac}",
        source=_LAYER,
        verdict="holds",
        form="symbolic",
        derivation=lambda: (
            *gradients_of("layer_norm", "weight"),
            *gradients_of("layer_norm", "bias"),
        ),
    ),
    Claim(
        id="layer_norm.gradient_rows_vanish",
        number="",
        statement="The gradient of LayerNorm adds up to zero in each row, whatever the weight.",
        latex=r"\sum_cdx_c=0",
        source=_LAYER,
        verdict="holds",
        form="symbolic",
        derivation=_rows_vanish,
    ),
    Claim(
        id="layer_norm.derivative_is_its_own_adjoint",
        number="",
        statement="Of a row without weight the derivative along a direction is the gradient for "
        "an upstream of that direction, in both norms.",
        latex=r"J=J^\top",
        source=_LAYER,
        verdict="holds",
        form="symbolic",
        derivation=_own_adjoint,
    ),
)
