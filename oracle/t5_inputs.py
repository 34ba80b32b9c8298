"""Calls of t5_bucket and t5_bias: offsets on both sides of the thresholds and far out, at T5's own
sizes and at others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from attnspec.oracle.family import (
    DRESSES,
    PLAIN,
    REPEATED,
    Draw,
    Dress,
    Family,
    Form,
    Scope,
    floats,
    repeated,
)
from attnspec.oracle.law import Inputs
from attnspec.oracle.shapes import Shape, fitted
from attnspec.oracle.t5_offsets import AT_THE_END, OFFSETS, RUNNING, Offsets
from attnspec.oracle.t5_values import (
    MAX_DISTANCE,
    NUM_BUCKETS,
    Setting,
    setting_of,
)
from attnspec.oracle.values import VALUES, Pattern, span

Size = tuple[int | None, int | None]
"""num_buckets and max_distance, None for left out."""

SIZES: tuple[Size, ...] = (
    (32, 128), (None, 64), (16, None), (32, 64), (16, 32), (8, 20), (32, 256), (64, 1000),
    (12, 1029), (4, 4096), (33, 100), (7, 19), (10, 160), (320, 800), (32, 20), (None, 1461),
    (34, 90), (15, None), (5, 9), (64, None), (27, 500), (3, 5), (2, 8),
)  # fmt: skip
"""Besides T5's own, which are left out: fewer and more buckets, shorter and longer distances, odd
counts, thresholds that are met exactly, and the least that one direction can have."""
DIFFERENT = tuple(dress for dress in PLAIN if dress.layout not in REPEATED)
"""Layouts in which every offset has a place of its own."""
DIRECTIONS: tuple[bool | None, ...] = (None, False, True)

BUCKET_SHAPES: tuple[Shape, ...] = (
    (1,), (2,), (3,), (5,), (1, 2), (2, 3), (3, 5), (5, 5), (1, 7), (7, 1), (2, 3, 5), (9,), (17,),
    (3, 33), (33, 33), (1, 65), (65,), (2, 5, 17), (129,), (300,), (5, 64), (1, 300), (64, 65),
    (3, 2, 4, 9), (1025,), (2, 501), (4001,), (128, 129),
)  # fmt: skip
BIAS_SHAPES: tuple[Shape, ...] = (
    (1, 1, 1), (1, 1, 2), (2, 1, 3), (1, 2, 2), (2, 3, 3), (3, 2, 4), (2, 3, 5), (3, 5, 5),
    (4, 1, 7), (3, 7, 9), (2, 1, 17), (5, 4, 18), (3, 17, 17), (2, 16, 31), (3, 9, 33), (2, 33, 33),
    (3, 1, 64), (8, 3, 65), (2, 65, 65), (5, 17, 100), (3, 1, 129), (2, 40, 130), (2, 97, 130),
    (3, 1, 300), (2, 5, 260), (1, 127, 128), (2, 120, 121), (12, 2, 50),
)  # fmt: skip
"""Axes h t s."""


def _options(scope: Scope, way: bool | None, size: Size) -> dict[str, Any] | None:
    """The options of a choice; None where the function lacks one."""
    named = zip(("bidirectional", "num_buckets", "max_distance"), (way, *size), strict=True)
    options = {name: value for name, value in named if value is not None}
    return options if scope.accepts >= options.keys() else None


def _usual(scope: Scope, ways: tuple[bool | None, ...]) -> Iterator[dict[str, Any]]:
    """T5's own sizes."""
    yield from (o for way in ways if (o := _options(scope, way, (None, None))) is not None)


def _mixed(usual: list[Form], others: list[Form]) -> tuple[Form, ...]:
    """T5's own sizes first, and again at the end, so that they are half of all."""
    if not usual and not others:
        raise ValueError("no call is legal: the function does not accept bidirectional")
    again = len(others) // len(usual) - 1 if usual else 0
    return (*usual, *others, *usual * max(again, 0))


def _bucket_forms(
    scope: Scope,
    *,
    ways: tuple[bool | None, ...] = DIRECTIONS,
    sizes: tuple[Size, ...] = SIZES,
    shapes: tuple[Shape, ...] = BUCKET_SHAPES,
) -> tuple[Form, ...]:
    usual = [Form(shape, options) for options in _usual(scope, ways) for shape in shapes]
    others = [
        Form(shape, options)
        for way in ways
        for size in sizes
        if (options := _options(scope, way, size)) is not None and _setting(options).legal
        for shape in shapes
    ]
    return _mixed(usual, others)


def _setting(options: dict[str, Any]) -> Setting:
    return setting_of(Inputs("t5_bucket", "int64", {}, options))


def _empty_buckets(scope: Scope) -> tuple[Form, ...]:
    shapes: tuple[Shape, ...] = ((0,), (0, 5), (3, 0), (2, 0, 3))
    return tuple(Form(s, options) for options in _usual(scope, DIRECTIONS) for s in shapes)


def t5_bucket_inputs(scope: Scope, drawn: Draw) -> Inputs:
    """A call of t5_bucket."""
    form, way, _, dress, seed = drawn
    rng = np.random.default_rng(seed)
    offsets = way.fill(rng, form.shape, _setting(dict(form.options)))
    return Inputs(
        component="t5_bucket",
        dtype=scope.dtype,
        arrays={
            "relative_position": repeated(offsets, dress.layout).astype(scope.index_dtype),
        },
        options=dict(form.options),
        layout=dress.layout,
        pattern=f"whole numbers; offsets: {way.name}",
        seed=seed,
    )


def _any(_shape: Shape) -> bool:
    return True


def _fewer_queries(shape: Shape) -> bool:
    return shape[1] < shape[2]


def _several_heads(shape: Shape) -> bool:
    return shape[0] > 1


def _bias_forms(
    scope: Scope,
    *,
    ways: tuple[bool | None, ...] = DIRECTIONS,
    sizes: tuple[Size, ...] = SIZES,
    wanted: Callable[[Shape], bool] = _any,
) -> tuple[Form, ...]:
    """Shapes are num_buckets, h, t, s, as the table's rows are the number of buckets."""
    fitting = fitted(BIAS_SHAPES, "hts", scope.limits, {})
    shapes = [s for s in fitting if s[1] <= s[2] and wanted(s)]
    if not shapes:
        raise ValueError(f"the limits {scope.limits!r} leave no h, t and s that the family needs")
    counts = tuple((n or NUM_BUCKETS,) for n, _ in (*sizes, (None, None)))
    rows = {n for (n,) in fitted(counts, ("num_buckets",), scope.limits, {})}

    def forms(size: Size) -> Iterator[Form]:
        asked, longest = size[0] or NUM_BUCKETS, size[1]
        count = min(rows, key=lambda row: (abs(row - asked), row))
        for way in ways:
            options = _options(scope, way, (None, longest))
            if options is not None:
                setting = Setting(way is not False, count, longest or MAX_DISTANCE)
                yield from (Form((count, *s), options) for s in shapes if setting.legal)

    usual = list(forms((None, None)))
    return _mixed(usual, [form for size in sizes for form in forms(size)])


def _empty_bias(scope: Scope) -> tuple[Form, ...]:
    """No query, beside some keys."""
    limits = {axis: limit for axis, limit in scope.limits.items() if axis not in "ts"}
    if limits != scope.limits:
        raise ValueError(f"the limits {scope.limits!r} say nothing of no query")
    forms = _bias_forms(Scope(component=scope.component, dtype=scope.dtype, limits=limits))
    return tuple(Form((*form.shape[:2], 0, s), {}) for form in forms[:3] for s in (1, 5))


def t5_bias_inputs(scope: Scope, drawn: Draw, *, numbered: bool = False) -> Inputs:
    """A call of t5_bias, with any numbers in its table or, `numbered`, each bucket's number."""
    form, _, pattern, dress, seed = drawn
    rng = np.random.default_rng(seed)
    rows, heads, t, s = form.shape
    table = floats(rng, (rows, heads), pattern, dress, span(scope.dtype, "values"))
    if numbered:
        table = np.broadcast_to(np.arange(rows, dtype=np.float64)[:, None], table.shape).copy()
    return Inputs(
        component="t5_bias",
        dtype=scope.dtype,
        arrays={"table": table},
        numbers={"t": t, "s": s},
        options=dict(form.options),
        layout=dress.layout,
        pattern="numbers of buckets" if numbered else pattern.name,
        signed=pattern.signed and not dress.specials and not numbered,
        seed=seed,
    )


def _bucket_family(
    name: str,
    says: str,
    *,
    forms: Callable[[Scope], tuple[Form, ...]] = _bucket_forms,
    extras: tuple[Offsets, ...] = OFFSETS,
    dresses: tuple[Dress, ...] = PLAIN,
) -> Family:
    return Family(
        name=name, component="t5_bucket", says=says, forms=forms, extras=extras,
        build=t5_bucket_inputs, patterns=VALUES[:1], dresses=dresses,
    )  # fmt: skip


def _bias_family(
    name: str,
    says: str,
    *,
    forms: Callable[[Scope], tuple[Form, ...]] = _bias_forms,
    build: Callable[[Scope, Draw], Inputs] = t5_bias_inputs,
    patterns: tuple[Pattern, ...] = VALUES,
    dresses: tuple[Dress, ...] = DRESSES,
) -> Family:
    return Family(
        name=name, component="t5_bias", says=says, forms=forms, extras=(None,),
        build=build, patterns=patterns, dresses=dresses,
    )  # fmt: skip


EXACT_NUMBERS = 256
"""Whole numbers up to here are numbers of every dtype."""

FAMILIES: tuple[Family, ...] = (
    _bucket_family("t5_bucket", "any offsets"),
    _bucket_family(
        "t5_bucket_every",
        "every offset from -2000 to 2000",
        forms=partial(_bucket_forms, shapes=((4001,),)),
        extras=(RUNNING,),
        dresses=DIFFERENT,
    ),
    _bucket_family(
        "t5_bucket_end",
        "T5's own sizes, around the first distance of the last bucket",
        forms=partial(_bucket_forms, sizes=()),
        extras=AT_THE_END,
        dresses=DIFFERENT,
    ),
    _bucket_family(
        "t5_bucket_both",
        "later keys have buckets of their own",
        forms=partial(_bucket_forms, ways=(None, True)),
    ),
    _bucket_family(
        "t5_bucket_one",
        "later keys share bucket 0",
        forms=partial(_bucket_forms, ways=(False,)),
    ),
    _bucket_family("t5_bucket_empty", "no offset", forms=_empty_buckets, extras=OFFSETS[:1]),
    _bias_family("t5_bias", "any table"),
    _bias_family(
        "t5_bias_rows",
        "fewer queries than keys",
        forms=partial(_bias_forms, wanted=_fewer_queries),
    ),
    _bias_family(
        "t5_bias_heads", "several heads", forms=partial(_bias_forms, wanted=_several_heads)
    ),
    _bias_family(
        "t5_bias_numbers",
        "every entry is the number of its bucket",
        forms=partial(
            _bias_forms, sizes=tuple(size for size in SIZES if (size[0] or 0) <= EXACT_NUMBERS)
        ),
        build=partial(t5_bias_inputs, numbered=True),
        patterns=VALUES[:1],
        dresses=PLAIN,
    ),
    _bias_family(
        "t5_bias_empty", "no query", forms=_empty_bias, patterns=VALUES[:1], dresses=PLAIN
    ),
)
