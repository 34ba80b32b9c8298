"""Calls of layer_norm: rows on which statistics differ, with and without weight and bias."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from attnspec.oracle.family import DRESSES, PLAIN, Draw, Dress, Family, Form, Scope
from attnspec.oracle.law import Inputs
from attnspec.oracle.norm_rows import (
    BALANCED,
    EPS,
    GAINS,
    NORM_SHAPES,
    OFFSET,
    ROWS,
    SMALL,
    SPREAD,
    Rows,
    channels,
    eps_forms,
    filled_rows,
    no_rows,
    row_shapes,
    several_rows,
    within_reach,
)
from attnspec.oracle.precision import FORMATS
from attnspec.oracle.shapes import Need, Shape, even, several
from attnspec.oracle.values import PATTERNS, Pattern, span

Array = np.ndarray[Any, Any]

DEFAULT_EPS = 1e-5


class Affine(NamedTuple):
    """What is drawn for weight and bias; `None` for left out. A function that does not take one
    of them goes without."""

    weight: Pattern | None
    bias: Pattern | None


BIASES: tuple[Pattern, ...] = (PATTERNS["zeros"], *GAINS, PATTERNS["normal"])
AFFINE: tuple[Affine, ...] = (
    Affine(None, None),
    Affine(GAINS[0], None),
    Affine(None, BIASES[0]),
    *(
        Affine(weight, bias)
        for turn, weight in enumerate((*GAINS, *GAINS))
        for bias in (BIASES[turn % len(BIASES)], BIASES[(turn + 3) % len(BIASES)])
    ),
    *(Affine(weight, None) for weight in GAINS),
    *(Affine(None, bias) for bias in BIASES[:3]),
    *(Affine(None, None),) * 4,
)
"""Simplest first; repeated as often as they shall be drawn."""
BARE: tuple[Affine, ...] = (Affine(None, None),)
BOTH: tuple[Affine, ...] = tuple(a for a in AFFINE if a.weight is not None and a.bias is not None)
BIASED: tuple[Affine, ...] = tuple(
    Affine(weight, bias) for bias in GAINS for weight in (None, *GAINS[1:4])
)
"""A bias of no zeros."""


ABOVE_ERRORS: tuple[float | None, ...] = (None, 1e-8, 1e-6, 1e-8, 1e-3, 1e-5, 1e-8)
"""Sizes of eps beside which the error of a mean is small; the smallest is 0 in float16."""
SMALLEST_AIM = 1e-11
"""The smallest variance beside which it is."""


def _not_too_large(dresses: tuple[Dress, ...]) -> tuple[Dress, ...]:
    """Those without numbers whose squares overflow every format: of their rows nothing is
    promised."""
    return tuple(d for d in dresses if not any("largest" in name for _, name in d.specials))


def _forms(
    scope: Scope,
    *,
    need: Need = bool,
    keep: Callable[[Shape], bool] = bool,
    table: tuple[Shape, ...] = NORM_SHAPES,
    sizes: tuple[float | None, ...] = EPS,
) -> tuple[Form, ...]:
    """Shapes of a table whose width and rows are as needed, with every eps of some."""
    shapes = row_shapes(scope, table, need)
    kept = tuple(shape for shape in shapes if keep(shape))
    return eps_forms(scope, kept or shapes, sizes)


def _three(width: int) -> bool:
    return width > 2


def _five(width: int) -> bool:
    """Whether two numbers that the gradient of a row can't have leave most of it."""
    return width > 4


def _aim(scope: Scope, eps: float) -> float:
    """The variance at which half of what a row is divided by is eps."""
    outside = scope.conventions.get("layer_norm.eps") == "outside"
    return eps**2 if outside else eps


def _readable_forms(scope: Scope) -> tuple[Form, ...]:
    """Rows of even width, with every eps that is about a variance of rows of the dtype."""
    sizes = [e for e in EPS if within_reach(_aim(scope, e or DEFAULT_EPS), scope.dtype)]
    return _forms(scope, need=even, sizes=tuple(sizes))


def _gradient_forms(scope: Scope, need: Need = _five, **more: Any) -> tuple[Form, ...]:
    """Rows of five and more, with every eps at which the gradient of a row of about its size, up
    to 32 over its root, is a number of the dtype."""
    overflow = FORMATS[scope.dtype].overflow
    aims = {e: _aim(scope, e or DEFAULT_EPS) for e in EPS}
    kept = [
        e for e, aim in aims.items()
        if not within_reach(aim, scope.dtype) or 32.0 * aim**-0.5 < overflow
    ]  # fmt: skip
    return _forms(scope, need=need, sizes=tuple(e for e in EPS if e in kept), **more)


def _constant_forms(scope: Scope) -> tuple[Form, ...]:
    """Any rows, with every eps beside which the error of a small mean is small."""
    aims = {e: _aim(scope, e or DEFAULT_EPS) for e in ABOVE_ERRORS}
    return _forms(scope, sizes=tuple(e for e in ABOVE_ERRORS if aims[e] >= SMALLEST_AIM))


def _empty_forms(scope: Scope) -> tuple[Form, ...]:
    return tuple(Form(shape, {}) for shape in no_rows(scope))


MANY: tuple[Shape, ...] = (
    (17, 2), (33, 3), (5, 13, 4), (64, 5), (65, 8), (3, 40, 6), (2, 5, 13, 3), (129, 4), (257, 3),
    (300, 5), (4, 100, 7), (513, 2), (1030, 3),
)  # fmt: skip
"""Rows by the hundred, over one leading axis or several."""


def _build(scope: Scope, drawn: Draw) -> Inputs:
    """A call. The variance never counts: a mean of squares is coherent."""
    form, affine, pattern, dress, seed = drawn
    rows = cast("Rows", pattern)
    rng = np.random.default_rng(seed)
    sizes = span(scope.dtype, "values")
    aim = _aim(scope, float(form.options.get("eps", DEFAULT_EPS)))
    arrays = {"x": filled_rows(rng, form.shape, rows, dress, sizes, aim)}
    told = [rows.name]
    for name, of in affine._asdict().items():
        if of is not None and name in scope.accepts:
            arrays[name] = channels(rng, form.shape[-1], of, sizes)
            told.append(f"{name}: {of.name}")
    return Inputs(
        component="layer_norm",
        dtype=scope.dtype,
        arrays=arrays,
        options=dict(form.options),
        layout="contiguous"
        if len(form.shape) == 1 and dress.layout == "expanded"
        else dress.layout,
        pattern="; ".join(told),
        signed=False,
        seed=seed,
    )


def _family(
    name: str,
    says: str,
    *,
    extras: tuple[Affine, ...] = AFFINE,
    forms: Callable[[Scope], tuple[Form, ...]] = _forms,
    patterns: tuple[Rows, ...] = ROWS,
    dresses: tuple[Dress, ...] = _not_too_large(DRESSES),
) -> Family:
    return Family(
        name=name,
        component="layer_norm",
        says=says,
        forms=forms,
        extras=extras,
        build=_build,
        patterns=patterns,
        dresses=dresses,
    )


FAMILIES: tuple[Family, ...] = (
    _family("layer_norm", "any rows"),
    _family(
        "layer_norm_bare",
        "rows of different entries, without weight and bias",
        extras=BARE,
        forms=partial(_forms, need=several),
        patterns=(*SPREAD, *OFFSET),
        dresses=PLAIN,
    ),
    _family(
        "layer_norm_offset",
        "rows of three and more whose mean is large beside their deviation",
        forms=partial(_forms, need=_three),
        patterns=OFFSET,
        dresses=PLAIN,
    ),
    _family(
        "layer_norm_constant",
        "every row has one number, and the bias is not zero",
        extras=BIASED,
        forms=_constant_forms,
        patterns=SMALL,
        dresses=PLAIN,
    ),
    _family(
        "layer_norm_eps",
        "rows of mean 0 whose variance is about eps, without weight and bias",
        extras=BARE,
        forms=_readable_forms,
        patterns=BALANCED,
        dresses=PLAIN,
    ),
    _family(
        "layer_norm_affine",
        "rows of different entries, with a weight and a bias",
        extras=BOTH,
        forms=partial(_forms, need=several),
        patterns=SPREAD,
        dresses=PLAIN,
    ),
    _family(
        "layer_norm_rows",
        "two rows and more",
        forms=partial(_forms, keep=several_rows),
        patterns=(*SPREAD, *OFFSET),
    ),
    _family(
        "layer_norm_gradients",
        "rows of five and more, of different entries",
        forms=_gradient_forms,
        patterns=SPREAD,
    ),
    _family(
        "layer_norm_many_rows",
        "rows by the hundred, with a weight and a bias",
        extras=BOTH,
        forms=partial(_gradient_forms, need=several, table=MANY),
        patterns=SPREAD,
        dresses=PLAIN,
    ),
    _family(
        "layer_norm_empty",
        "no row",
        extras=AFFINE[:8],
        forms=_empty_forms,
        patterns=ROWS[:1],
        dresses=PLAIN,
    ),
)
