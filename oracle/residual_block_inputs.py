"""Calls of residual_block: rows, and what its norm and its sublayer do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from attnspec.oracle.callee import ZERO, Callee, Moved, Own, Same
from attnspec.oracle.family import PLAIN, Draw, Dress, Family, Form, Scope, floats
from attnspec.oracle.law import Inputs
from attnspec.oracle.norm_rows import SPREAD, Rows, filled_rows, no_rows, row_shapes, several_rows
from attnspec.oracle.precision import FORMATS
from attnspec.oracle.shapes import Need, Shape, several
from attnspec.oracle.values import PATTERNS, Pattern, span

Array = np.ndarray[Any, Any]

ROOM = 256.0
"""By what numbers stay below the largest of their dtype: norm and sublayer multiply by 4 at most,
and no sum of what they give is half as large as that."""

SHAPES: tuple[Shape, ...] = (
    (2,), (1, 2), (2, 2), (3, 2), (2, 3), (3, 1), (3,), (1, 3), (3, 5), (5, 3), (2, 3, 4),
    (3, 2, 5), (4, 7), (7, 4), (2, 5, 6), (2, 1, 8), (3, 9), (2, 1, 3, 9), (5, 16), (17, 6),
    (2, 4, 17), (33, 4), (3, 31), (2, 5, 32), (3, 2, 2, 33), (65, 3), (7,), (40,), (2, 3, 64),
    (5, 65), (3, 128), (2, 129), (257,), (3, 256), (2, 513), (2, 768),
)  # fmt: skip
"""The last axis is the row of channels. Up to three axes before it, or none."""


class Layers(NamedTuple):
    """What is handed over."""

    sublayer: Callee
    norm: Callee


MOVED: tuple[Moved, ...] = (
    Moved((2.0,)),
    Moved((1.0, -2.0), 1),
    Moved((2.0, 1.0, -4.0), -1),
    Moved((-2.0,)),
    Moved((4.0, 1.0, 2.0, -2.0, 1.0), 2),
    Moved((1.0,), 1),
    Moved((-2.0, 0.0, 1.0, 4.0), 0),
)
"""Exact layers, simplest first. Turns of channels and factors do not commute."""
NORMS: tuple[Moved, ...] = tuple(
    Moved(f, s) for f, s in (
        ((4.0,), 0), ((2.0, -1.0), 0), ((1.0, 2.0, 4.0), 1), ((-1.0, 2.0), 2),
        ((2.0, 4.0, -2.0, 1.0, 4.0), -1), ((1.0,), -2), ((1.0,), 0),
    )
)  # fmt: skip
"""Exact stand-ins for norms."""
LAYERS: tuple[Layers, ...] = tuple(
    Layers(sublayer, NORMS[(place + turn) % len(NORMS)])
    for turn in range(len(NORMS))
    for place, sublayer in enumerate(MOVED)
)
BLOCKED: tuple[Layers, ...] = tuple(Layers(ZERO, norm) for norm in NORMS)
RETURNING: tuple[Layers, ...] = (
    Layers(Same(), Same()), Layers(Same(), NORMS[0]), Layers(MOVED[1], Same()),
    Layers(Same(), Same()), Layers(Same(), NORMS[2]), Layers(Same(), Same()),
)  # fmt: skip
"""Layers of which one returns what it is given, or both."""
SMALL: tuple[Layers, ...] = tuple(
    Layers(Moved(f, s), Moved(g, t))
    for f, s in (((1.0,), 1), ((1.0, -1.0), 0), ((-1.0, 1.0, 1.0), 1), ((1.0, 2.0), -1))
    for g, t in (((1.0,), -1), ((1.0, -1.0), 1), ((1.0, 2.0), 0))
)
"""Layers of which several do not let a stream overflow."""
ADDING: tuple[Moved, ...] = (
    Moved((2.0,)), Moved((1.0, 2.0), 1), Moved((4.0, 1.0, 2.0), -1), ZERO, Moved((1.0,)),
    Moved((2.0, -4.0, 1.0), 0),
)  # fmt: skip
"""Sublayers beside which no stream vanishes, which a norm would divide by."""


def _five(width: int) -> bool:
    """Whether two numbers that the gradient of a row can't have leave most of it."""
    return width > 4


def _own(function: str) -> tuple[Layers, ...]:
    return tuple(Layers(s, Own(function, eps)) for eps in (None, 1e-3, 0.0625) for s in ADDING)


def _forms(
    scope: Scope,
    *,
    table: tuple[Shape, ...] = SHAPES,
    need: Need = bool,
    keep: Callable[[Shape], bool] = bool,
    placements: tuple[str, ...] = ("pre", "post"),
) -> tuple[Form, ...]:
    shapes = row_shapes(scope, table, need)
    kept = tuple(shape for shape in shapes if keep(shape)) or shapes
    return tuple(Form(shape, {"placement": p}) for shape in kept for p in placements)


def _empty_forms(scope: Scope) -> tuple[Form, ...]:
    return tuple(Form(s, {"placement": p}) for s in no_rows(scope) for p in ("pre", "post"))


def _within(values: Array, dtype: str) -> Array:
    """The values, with zeros for those that norm and sublayer may let overflow, and for those that
    may be flushed to zero."""
    fmt = FORMATS[dtype]
    size = np.abs(values)
    return np.where((size < fmt.normal) | (size > fmt.overflow / ROOM), 0.0, values)


def _build(scope: Scope, drawn: Draw) -> Inputs:
    """A call. The variance never counts: no sum has more than two terms."""
    form, layers, pattern, dress, seed = drawn
    rng = np.random.default_rng(seed)
    sizes = span(scope.dtype, "values")
    layout = dress.layout
    if len(form.shape) == 1 and layout == "expanded":
        layout = "contiguous"
    if isinstance(pattern, Rows):
        x = filled_rows(rng, form.shape, pattern, Dress(layout, ()), sizes, 1.0)
    else:
        x = floats(rng, form.shape, pattern, Dress(layout, ()), sizes)
    return Inputs(
        component="residual_block",
        dtype=scope.dtype,
        arrays={"x": _within(x, scope.dtype)},
        options=dict(form.options),
        callees=layers._asdict(),
        layout=layout,
        pattern=pattern.name,
        signed=False,
        seed=seed,
    )


VALUES: tuple[Pattern, ...] = tuple(
    PATTERNS[name] for name in (
        "normal", "signs", "small integers", "halves", "one-hot rows", "sparse", "scaled by row",
        "midpoints", "heavy-tailed", "spike", "normal", "midpoints", "normal",
    )
)  # fmt: skip
PLAIN_VALUES: tuple[Pattern, ...] = (
    PATTERNS["small integers"],
    PATTERNS["midpoints"],
    *(rows for rows in SPREAD if rows.name == "normal"),
    PATTERNS["midpoints"],
    *(rows for rows in SPREAD if rows.name == "normal"),
)
"""Numbers about 1."""


def _family(
    name: str,
    says: str,
    *,
    extras: tuple[Layers, ...] = LAYERS,
    forms: Callable[[Scope], tuple[Form, ...]] = _forms,
    patterns: tuple[Pattern, ...] = VALUES,
) -> Family:
    return Family(
        name=name, component="residual_block", says=says, forms=forms, extras=extras, build=_build,
        patterns=patterns, dresses=PLAIN,
    )  # fmt: skip


_NORMED: tuple[Pattern, ...] = tuple(r for r in SPREAD if not r.name.startswith(("large", "near")))

FAMILIES: tuple[Family, ...] = (
    _family("residual_block", "any rows, with layers that are exact"),
    _family("residual_block_blocked", "a sublayer that gives zeros", extras=BLOCKED),
    _family(
        "residual_block_rows", "two rows and more",
        forms=partial(_forms, keep=several_rows),
    ),
    _family(
        "residual_block_returned", "layers that return what they are given",
        extras=RETURNING,
    ),
    _family(
        "residual_block_stream", "rows of numbers about 1, as they pass through several blocks",
        extras=SMALL,
        forms=partial(_forms, placements=("pre",)),
        patterns=PLAIN_VALUES,
    ),
    *(
        _family(
            f"residual_block_{norm}", f"rows of different entries, with the target's {norm}",
            extras=_own(norm),
            forms=partial(_forms, need=several),
            patterns=_NORMED,
        )
        for norm in ("layer_norm", "rms_norm")
    ),
    *(
        _family(
            f"residual_block_{norm}_gradients",
            f"rows of five and more, of different entries, with the target's {norm}",
            extras=_own(norm),
            forms=partial(_forms, need=_five),
            patterns=_NORMED,
        )
        for norm in ("layer_norm", "rms_norm")
    ),
    _family(
        "residual_block_empty", "no row",
        extras=LAYERS[:8], forms=_empty_forms, patterns=VALUES[:1],
    ),
)  # fmt: skip
