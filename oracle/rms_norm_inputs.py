"""Calls of rms_norm: rows with and without a gain, rows at eps, rows of zeros, of one number, of
numbers whose squares overflow half precision, and so many rows that a sum over them tells."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from attnspec.oracle.family import DRESSES, PLAIN, Draw, Dress, Family, Form, Scope
from attnspec.oracle.law import Inputs
from attnspec.oracle.norm_rows import (
    GAINS,
    NORM_DRESSES,
    NORM_SHAPES,
    ROWS,
    Array,
    Rows,
    channels,
    eps_forms,
    filled_rows,
    no_rows,
    row_shapes,
)
from attnspec.oracle.precision import FORMATS, snapped
from attnspec.oracle.rms_norm_values import eps_of
from attnspec.oracle.shapes import Shape
from attnspec.oracle.values import Pattern, Span, span

Gain = Pattern | None
"""How the weight is filled; None for a call without one."""
ANY_GAIN: tuple[Gain, ...] = (None, *GAINS)


def rms_norm_inputs(scope: Scope, drawn: Draw) -> Inputs:
    """A call of rms_norm, with a weight where the function takes one."""
    form, gain, rows, dress, seed = drawn
    assert isinstance(rows, Rows)
    rng = np.random.default_rng(seed)
    numbers = span(scope.dtype, "values")
    blank = Inputs("rms_norm", scope.dtype, {}, dict(form.options))
    x = filled_rows(rng, form.shape, rows, dress, numbers, eps_of(blank))
    if rows in AT_EPS:
        x = snapped(x * _size_at_eps(eps_of(blank), numbers), scope.dtype)
    arrays, name = {"x": x}, rows.name
    if gain is not None and "weight" in scope.accepts:
        arrays["weight"] = channels(rng, form.shape[-1], gain, numbers)
        name = f"{name}; weight: {gain.name}"
    return Inputs(
        component="rms_norm",
        dtype=scope.dtype,
        arrays=arrays,
        options=dict(form.options),
        layout=dress.layout,
        pattern=name,
        seed=seed,
    )


def _size_at_eps(eps: float, numbers: Span) -> float:
    """The root of eps; 1 where numbers about it would have lost bits: float16 has some left below
    its normal range, of the others hardware may take such numbers for 0."""
    least = 2.0**-15 if numbers.dtype == "float16" else 64.0 * numbers.normal
    return eps**0.5 if eps**0.5 > least else 1.0


def _forms(
    scope: Scope,
    *,
    table: tuple[Shape, ...] = NORM_SHAPES,
    width: int = 1,
    rows: int = 1,
    axes: int = 1,
    with_eps: bool = False,
    weighted: bool = False,
) -> tuple[Form, ...]:
    """Shapes of at least so many axes, and rows of such a width, with every eps. Raises
    ValueError where the family is about what the target lacks."""
    if with_eps and scope.conventions.get("rms_norm.eps") == "none":
        raise ValueError("the target declares that it has no eps")
    if weighted and "weight" not in scope.accepts:
        raise ValueError("the function takes no weight")
    shapes = row_shapes(scope, table, lambda size: size >= width)
    several = (s for s in shapes if len(s) >= axes)
    enough = tuple(s for s in several if np.prod(s[:-1], dtype=np.int64) >= rows)
    if not enough:
        raise ValueError(f"no shape of {rows} rows is legal under the limits {scope.limits!r}")
    return eps_forms(scope, enough)


def _empty_forms(scope: Scope) -> tuple[Form, ...]:
    return tuple(Form(shape, {}) for shape in no_rows(scope))


# -- rows of one kind -----------------------------------------------------------------------------


def _sizes(rng: np.random.Generator, shape: Shape, low: int, high: int) -> Array:
    """For every row a power of two between two, the higher left out."""
    return np.asarray(np.ldexp(1.0, rng.integers(low, high, (*shape[:-1], 1))))


def _signs(rng: np.random.Generator, shape: Shape) -> Array:
    return np.where(rng.random(shape) < 0.5, -1.0, 1.0)


def _equal_sizes(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """One size a row, with signs: its mean square is known without adding up."""
    return _signs(rng, shape) * _sizes(rng, shape, -3, 3)


def _about(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return rng.standard_normal(shape) * _sizes(rng, shape, -3, 3)


def _with_a_mean(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return (rng.standard_normal(shape) + 2.0 * _signs(rng, (*shape[:-1], 1))) / 2.0


AT_EPS: tuple[Rows, ...] = tuple(
    Rows(name, fill, signed=False)
    for name, fill in (
        ("one size about eps", _equal_sizes),
        ("about eps", _about),
        ("about eps, with a mean", _with_a_mean),
    )
)
"""Rows whose mean square lies from eps / 64 to 64 eps."""


def _some_zero(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """Rows of zeros, the first always, among normal ones."""
    kept = rng.random((*shape[:-1], 1)) < 0.5
    kept.flat[0] = False
    return rng.standard_normal(shape) * kept


def _all_zero(_rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return np.zeros(shape)


ZEROS = (
    Rows("zeros", _all_zero, signed=False),
    *(Rows("rows of zeros among others", _some_zero, signed=False),) * 4,
)


def _one_number(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    one = (*shape[:-1], 1)
    numbers = _signs(rng, one) * (1.0 + rng.random(one)) * _sizes(rng, shape, -8, 8)
    return np.broadcast_to(numbers, shape).copy()


def _one_in_all(_rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return np.ones(shape)


EQUAL = (
    Rows("ones", _one_in_all, signed=False),
    *(Rows("one number a row", _one_number, signed=False),) * 4,
)


def _pairs(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """Every number beside its negative, in any order, so that the mean is exactly 0; of an odd
    number of channels one is 0."""
    half = rng.standard_normal((*shape[:-1], shape[-1] // 2)) * _sizes(rng, shape, -2, 4)
    rest = np.zeros((*shape[:-1], shape[-1] % 2))
    return rng.permuted(np.concatenate([half, -half, rest], axis=-1), axis=-1)


CENTRED = (Rows("pairs that cancel", _pairs, signed=False),)


def _huge(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    """Numbers whose squares overflow float16, up to its largest; in wider formats, up to where
    squares still add up in them."""
    most = 2.0**15 if span.dtype == "float16" else FORMATS[span.dtype].overflow ** 0.5 / 256.0
    low = 8 if span.dtype == "float16" else 20
    sizes = np.ldexp(1.0, rng.integers(low, int(np.log2(most)) + 1, (*shape[:-1], 1)))
    return _signs(rng, shape) * sizes * (0.5 + 1.25 * rng.random(shape))


HUGE = (Rows("squares overflow half precision", _huge, signed=False),)


def _small(rng: np.random.Generator, shape: Shape, span: Span) -> Array:
    """Numbers whose squares underflow, all of them normal: hardware may take others for 0."""
    low, high = (2, 6) if span.dtype == "float16" else (8, 20)
    sizes = span.normal * np.ldexp(1.0, rng.integers(low, high, (*shape[:-1], 1)))
    return _signs(rng, shape) * sizes * (1.0 + rng.random(shape))


SMALL = (Rows("squares underflow", _small, signed=False),)

MANY: tuple[Shape, ...] = (
    (300, 2), (3, 200, 2), (2, 300, 3), (520, 3), (2, 3, 130, 4), (1030, 2), (5, 210, 3),
    (2, 1100, 2), (2500, 2), (4200, 2), (7, 300, 4), (2, 2100, 3),
)  # fmt: skip
"""So many rows that a sum over them leaves the integers of bfloat16, most those of float16."""


def _unit(_rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    """1 and -1 by turns along a row: the normalised value is the same, as far as eps allows."""
    return np.broadcast_to(np.where(np.arange(shape[-1]) % 2 == 0, 1.0, -1.0), shape).copy()


UNIT = (Rows("1 and -1 by turns", _unit, signed=False),)


NOT_LARGE = tuple(row for row in ROWS if not row.name.startswith("large"))
"""Rows whose gradients stay within the normal range of float16: those of x are divided by its
size."""


def _family(
    name: str,
    says: str,
    *,
    forms: Callable[[Scope], tuple[Form, ...]] = _forms,
    gains: tuple[Gain, ...] = ANY_GAIN,
    rows: tuple[Rows, ...] = ROWS,
    dresses: tuple[Dress, ...] = NORM_DRESSES,
) -> Family:
    return Family(
        name=f"rms_norm{name}",
        component="rms_norm",
        says=says,
        forms=forms,
        extras=gains,
        build=rms_norm_inputs,
        patterns=rows,
        dresses=dresses,
    )


FAMILIES: tuple[Family, ...] = (
    _family("", "any rows"),
    _family("_rows", "two rows and more", forms=partial(_forms, rows=2)),
    _family("_axes", "rows along two axes and more", forms=partial(_forms, rows=2, axes=3)),
    _family(
        "_beside",
        "two rows and more, with numbers whose squares overflow",
        forms=partial(_forms, rows=2),
        dresses=DRESSES,
    ),
    _family(
        "_weighted",
        "calls with a weight",
        forms=partial(_forms, weighted=True),
        gains=GAINS,
    ),
    _family(
        "_gradients",
        "rows of three channels and more: one is normalised to its sign, whatever it is",
        forms=partial(_forms, width=3),
        rows=NOT_LARGE,
    ),
    _family(
        "_gradient_rows",
        "two such rows and more",
        forms=partial(_forms, width=3, rows=2),
        rows=NOT_LARGE,
    ),
    _family(
        "_at_eps",
        "rows whose mean square is about eps",
        forms=partial(_forms, with_eps=True),
        rows=AT_EPS,
        dresses=PLAIN,
    ),
    _family(
        "_zeros",
        "some rows are zero",
        forms=partial(_forms, with_eps=True),
        rows=ZEROS,
        dresses=PLAIN,
    ),
    _family(
        "_equal",
        "every row is one number over and over",
        forms=partial(_forms, width=2),
        rows=EQUAL,
        dresses=PLAIN,
    ),
    _family(
        "_centred",
        "rows of mean 0",
        forms=partial(_forms, width=2),
        rows=CENTRED,
        dresses=PLAIN,
    ),
    _family("_huge", "numbers whose squares leave half precision", rows=HUGE, dresses=PLAIN),
    _family(
        "_small",
        "numbers whose squares underflow",
        forms=partial(_forms, with_eps=True),
        rows=SMALL,
        dresses=PLAIN,
    ),
    _family(
        "_many",
        "hundreds of rows",
        forms=partial(_forms, table=MANY, rows=257, weighted=True, width=2),
        gains=GAINS,
        rows=UNIT,
        dresses=PLAIN[:1],
    ),
    _family(
        "_empty", "no rows", forms=_empty_forms, gains=ANY_GAIN[:2], rows=ROWS[:1], dresses=PLAIN
    ),
)
