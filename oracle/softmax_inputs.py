"""Calls of softmax: any axis, logits of every size, rows that are masked in part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from attnspec.oracle.family import (
    PLAIN,
    Array,
    Draw,
    Dress,
    Family,
    Form,
    Scope,
    Shape,
    floats,
    repeated,
    repeated_axis,
    stored_shape,
)
from attnspec.oracle.law import Inputs
from attnspec.oracle.shapes import SOFTMAX_SHAPES
from attnspec.oracle.values import LOGITS, Pattern, Span, span


@dataclass(frozen=True)
class Mask:
    """One named way to put minus infinity into rows."""

    name: str
    fill: Callable[[np.random.Generator, Shape], Array]
    """From a generator and a shape to where minus infinity goes, the row being the last axis.
    Every row of two and more keeps an entry, and somewhere there is a minus infinity."""


def _first(_rng: np.random.Generator, shape: Shape) -> Array:
    return np.broadcast_to(np.arange(shape[-1]) == 0, shape)


def _last(_rng: np.random.Generator, shape: Shape) -> Array:
    return np.broadcast_to(np.arange(shape[-1]) == shape[-1] - 1, shape)


def _leading(block: int, _rng: np.random.Generator, shape: Shape) -> Array:
    """The whole first block of a kernel that walks along the row, or all but the last entry."""
    return np.broadcast_to(np.arange(shape[-1]) < min(block, shape[-1] - 1), shape)


def _trailing_half(_rng: np.random.Generator, shape: Shape) -> Array:
    return np.broadcast_to(np.arange(shape[-1]) >= (shape[-1] + 1) // 2, shape)


def _alternating(_rng: np.random.Generator, shape: Shape) -> Array:
    return np.broadcast_to(np.arange(shape[-1]) % 2 == 0, shape)


def _all_but_one(rng: np.random.Generator, shape: Shape) -> Array:
    """A place of its own for every row's only entry."""
    return np.asarray(np.arange(shape[-1]) != rng.integers(shape[-1], size=(*shape[:-1], 1)))


def _runs(rng: np.random.Generator, shape: Shape) -> Array:
    """A leading run of another length in every row, as in the transpose of a causal mask."""
    runs = rng.integers(0, shape[-1], size=(*shape[:-1], 1))
    runs.flat[0] = max(1, int(runs.flat[0]))
    return np.asarray(np.arange(shape[-1]) < runs)


def _scattered(rng: np.random.Generator, shape: Shape) -> Array:
    """Every entry with even odds; each row keeps one."""
    kept = rng.integers(shape[-1], size=(*shape[:-1], 1))
    mask: Array = (rng.random(shape) < 0.5) & (np.arange(shape[-1]) != kept)
    mask.flat[0 if kept.flat[0] else 1] = True
    return mask


MASKS: tuple[Mask, ...] = (
    Mask("the last", _last),
    Mask("the first", _first),
    Mask("alternating", _alternating),
    Mask("the trailing half", _trailing_half),
    Mask("all but one", _all_but_one),
    Mask("runs of other lengths", _runs),
    Mask("scattered", _scattered),
    Mask("the first 16", partial(_leading, 16)),
    Mask("the first 32", partial(_leading, 32)),
    Mask("the first 64", partial(_leading, 64)),
    Mask("the first 128", partial(_leading, 128)),
)
"""Simplest first."""


def _far_below(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return np.asarray(rng.standard_normal(shape) - 2.0**14)


FAR_BELOW = Pattern("far below zero", _far_below, signed=False)
"""Below the finite numbers that are taken for minus infinity."""


def softmax_inputs(scope: Scope, drawn: Draw) -> Inputs:
    """A call of softmax. The variance never counts: a sum of exponentials is coherent."""
    form, mask, pattern, dress, seed = drawn
    rng = np.random.default_rng(seed)
    dim = form.options.get("dim", -1)
    rank = len(form.shape)
    if dim % rank == repeated_axis(rank, dress.layout):
        # repeating along the row itself would leave a single logit, however long the row
        dress = Dress("contiguous", dress.specials)
    x = floats(rng, form.shape, pattern, dress, span(scope.dtype, "logits"))
    name = pattern.name
    if mask is not None:
        name = f"{name}; minus infinity: {mask.name}"
        first = x[tuple(map(slice, stored_shape(x.shape, dress.layout)))]
        rows = np.moveaxis(first, dim, -1)
        rows[mask.fill(rng, rows.shape)] = -np.inf
        x = repeated(x, dress.layout)
    return Inputs(
        component="softmax",
        dtype=scope.dtype,
        arrays={"x": x},
        options=dict(form.options),
        layout=dress.layout,
        pattern=name,
        signed=False,
        seed=seed,
    )


SPREAD = tuple(p for p in LOGITS if p.name not in ("large gaps", "spike", "shifted", "tiny"))
"""Patterns under which gradients do not vanish: a row of one weight has none."""
LONGEST_IN_HALF = 257


def _forms(
    scope: Scope, *, shapes: tuple[Shape, ...] = SOFTMAX_SHAPES, rows: int = 1, row: int = 1
) -> tuple[Form, ...]:
    """Shapes with at least so many rows of at least such a length: the axis left out, then every
    axis, from the back and from the front."""
    if scope.dtype == "float16":
        # weights below 6e-5 are not judged there, and rows of a thousand have little else
        shapes = tuple(shape for shape in shapes if max(shape) <= LONGEST_IN_HALF)
    left_out = [Form(shape, {}) for shape in shapes]
    named = [
        Form(shape, {"dim": dim})
        for shape in shapes
        for dim in range(len(shape) - 1, -len(shape) - 1, -1)
        if shape[dim] > 1
    ]
    every = [*left_out, *named, *left_out] if "dim" in scope.accepts else left_out
    return tuple(form for form in every if _has(form, rows, row))


def _has(form: Form, rows: int, row: int) -> bool:
    size: int = form.shape[form.options.get("dim", -1)]
    return size >= row and prod(form.shape) >= rows * size


EMPTY_SHAPES: tuple[Shape, ...] = ((0, 1), (0, 3), (0, 2, 5), (2, 0, 3), (0, 17), (2, 0, 3, 5))


def _empty_forms(scope: Scope) -> tuple[Form, ...]:
    """An axis of size 0 in front, the row itself is not empty."""
    forms = _forms(scope, shapes=EMPTY_SHAPES, rows=0)
    return tuple(form for form in forms if form.shape[form.options.get("dim", -1)])


SOFTMAX: tuple[Family, ...] = (
    Family(
        name="softmax",
        component="softmax",
        says="any finite logits",
        forms=_forms,
        extras=(None,),
        build=softmax_inputs,
        patterns=LOGITS,
    ),
    Family(
        name="softmax_some_minus_infinity",
        component="softmax",
        says="some entries of some rows are minus infinity, never a whole row",
        forms=partial(_forms, row=2),
        extras=MASKS,
        build=softmax_inputs,
        patterns=(*LOGITS, *[FAR_BELOW] * 5),
    ),
    Family(
        name="softmax_rows",
        component="softmax",
        says="two rows and more",
        forms=partial(_forms, rows=2),
        extras=(None,),
        build=softmax_inputs,
        patterns=LOGITS,
    ),
    Family(
        name="softmax_gradients",
        component="softmax",
        says="rows of three and more, logits that leave several weights",
        forms=partial(_forms, row=3),
        extras=(None,),
        build=softmax_inputs,
        patterns=SPREAD,
    ),
    Family(
        name="softmax_empty",
        component="softmax",
        says="no rows",
        forms=_empty_forms,
        extras=(None,),
        build=softmax_inputs,
        patterns=LOGITS[:1],
        dresses=PLAIN,
    ),
)
