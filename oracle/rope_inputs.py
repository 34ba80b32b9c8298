"""Calls of rope and rope_apply: positions of both shapes, at edges and far out; tables of angles
and of other numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from attnspec.oracle import positions as at
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.family import (
    DRESSES,
    PLAIN,
    Draw,
    Dress,
    Family,
    Form,
    Scope,
    floats,
    repeated,
)
from attnspec.oracle.law import Inputs
from attnspec.oracle.positions import EDGES, POSITIONS, TABLES, ZERO, Array, Positions
from attnspec.oracle.precision import snapped
from attnspec.oracle.shapes import BASIS_SHAPES, ROPE_SHAPES, Need, Shape, even, fitted, several
from attnspec.oracle.values import VALUES, Pattern, Span, span

AXES = "bhnd"
AS_MANY_HEADS: tuple[Shape, ...] = (
    (1, 2, 2, 4), (2, 3, 3, 6), (3, 4, 4, 2), (2, 5, 5, 4), (3, 2, 2, 8), (2, 4, 4, 10),
    (1, 7, 7, 6), (1, 8, 8, 4), (2, 3, 3, 16), (1, 16, 16, 4), (3, 6, 6, 8), (1, 17, 17, 2),
)  # fmt: skip
"""As many heads as positions."""

Width = Callable[[int], int]


def _half(d: int) -> int:
    """Half of the channels, an even number of them."""
    return max(2, d // 4 * 2)


def _least(_d: int) -> int:
    return 2


def _most(d: int) -> int:
    """All channels but one pair."""
    return max(2, d - 2)


def _whole(d: int) -> int:
    return d


Choice = tuple[float | None, Width | None]
"""A base and a width, None for left out."""

CHOICES: tuple[Choice, ...] = (
    (None, _half), (10000.0, None), (500000.0, None), (100.0, None), (None, _least), (2.0, None),
    (None, _most), (1000000.0, None), (None, _whole), (500000.0, _half), (100.0, _most),
    (1000000.0, _least), (2.0, _half),
)  # fmt: skip
"""Options besides none at all."""


def _options(choice: Choice, d: int) -> dict[str, Any]:
    base, width = choice
    options: dict[str, Any] = {} if base is None else {"base": base}
    if width is not None:
        options["rotary_dim"] = width(d)
    return options


def rope_forms(
    scope: Scope,
    *,
    table: tuple[Shape, ...] = ROPE_SHAPES,
    needs: Mapping[str, Need] | None = None,
    partial_only: bool = False,
) -> tuple[Form, ...]:
    """Every shape without options, then with each choice of options that the function takes,
    and without options again, for a third of all."""
    if partial_only and "rotary_dim" not in scope.accepts:
        raise ValueError("calls in which some channels do not turn need the option rotary_dim")
    shapes = fitted(table, AXES, scope.limits, {"d": even, **(needs or {})})
    accepted = scope.accepts.intersection(COMPONENTS[scope.component].options)
    chosen = [
        Form(shape, options)
        for choice in CHOICES
        for shape in shapes
        if accepted >= (options := _options(choice, shape[3])).keys()
    ]
    if partial_only:
        return tuple(f for f in chosen if f.options.get("rotary_dim", f.shape[3]) < f.shape[3])
    plain = [Form(shape, {}) for shape in shapes]
    return (*plain, *chosen, *plain * (len(chosen) // (2 * len(plain))))


def _basis_forms(scope: Scope) -> tuple[Form, ...]:
    """As many positions as channels."""
    shapes = fitted(BASIS_SHAPES, AXES, scope.limits, {"d": even, "n": even})
    square = tuple(dict.fromkeys(s for s in shapes if s[2] == s[3]))
    if not square:
        raise ValueError(f"no size is legal both as n and as d under the limits {scope.limits!r}")
    return tuple(form for form in rope_forms(scope, table=square) if form.shape in square)


_EMPTY: tuple[Shape, ...] = ((0, 3, 5, 4), (2, 0, 5, 4), (2, 3, 0, 4), (0, 2, 3, 16), (3, 2, 0, 8))


def _empty_forms(scope: Scope) -> tuple[Form, ...]:
    """No batch entry, no head or no position. An axis may be empty unless a limit forbids it."""
    forms = []
    for shape in _EMPTY:
        hole = shape.index(0)
        filled = (*shape[:hole], 1, *shape[hole + 1 :])
        limits = {axis: limit for axis, limit in scope.limits.items() if axis != AXES[hole]}
        if AXES[hole] not in scope.limits or _allows_zero(scope.limits[AXES[hole]]):
            fit = fitted((filled,), AXES, limits, {"d": even})[0]
            forms.append(Form((*fit[:hole], 0, *fit[hole + 1 :]), {}))
    if not forms:
        raise ValueError(f"the limits {scope.limits!r} allow no empty axis")
    return tuple(forms)


def _allows_zero(limit: Any) -> bool:
    return 0 in limit if isinstance(limit, (set, frozenset)) else limit[0] <= 0


Drawn = tuple[Any, bool]
"""A way to fill positions or tables, and whether they have a batch axis."""


def rope_inputs(scope: Scope, drawn: Draw, *, end: int = 2**62, different: bool = False) -> Inputs:
    """A call of rope. Positions lie below `end`, in different rows where asked for."""
    form, (way, batched), pattern, dress, seed = drawn
    rng = np.random.default_rng(seed)
    b, _, n, _ = form.shape
    rows = way.fill(rng, b if batched else 1, n)
    if different:
        rows = at.with_different_rows(rows)
    index = np.dtype(scope.index_dtype)
    rows = at.below(rows, min(end, int(np.iinfo(index).max) + 1)).astype(index, copy=False)
    return Inputs(
        component="rope",
        dtype=scope.dtype,
        arrays={
            "x": floats(rng, form.shape, pattern, dress, span(scope.dtype, "values")),
            "positions": rows if batched else rows[0],
        },
        options=dict(form.options),
        layout=dress.layout,
        pattern=f"{pattern.name}; positions: {way.name}",
        signed=pattern.signed and not dress.specials,
        seed=seed,
    )


def rope_apply_inputs(scope: Scope, drawn: Draw) -> Inputs:
    """A call of rope_apply. The signs of x alone are signs of every term."""
    form, (way, batched), pattern, dress, seed = drawn
    rng = np.random.default_rng(seed)
    b, _, n, d = form.shape
    cos, sin = way.fill(rng, (b, n, d // 2) if batched else (n, d // 2))
    return Inputs(
        component="rope_apply",
        dtype=scope.dtype,
        arrays={
            "x": floats(rng, form.shape, pattern, dress, span(scope.dtype, "values")),
            "cos": repeated(snapped(cos, scope.dtype), dress.layout),
            "sin": repeated(snapped(sin, scope.dtype), dress.layout),
        },
        options=dict(form.options),
        layout=dress.layout,
        pattern=f"{pattern.name}; tables: {way.name}",
        signed=pattern.signed and not dress.specials,
        seed=seed,
    )


def _basis(_rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
    return np.broadcast_to(np.eye(shape[-2], shape[-1]), shape).copy()


BASIS = Pattern("basis", _basis, signed=False)


def _all(position: int, _rng: np.random.Generator, rows: int, n: int) -> Array:
    return np.full((rows, n), position)


def _all_on_an_edge(rng: np.random.Generator, rows: int, n: int) -> Array:
    return np.full((rows, n), EDGES[int(rng.integers(len(EDGES)))].start)


ALL_EQUAL: tuple[Positions, ...] = (
    *(Positions(f"all {m}", partial(_all, m)) for m in (1, 2, 3)),
    Positions("all on an edge", _all_on_an_edge),
)


def shaped(ways: tuple[Any, ...], *batched: bool) -> tuple[Drawn, ...]:
    """Every way, without and with a batch axis."""
    return tuple((way, axis) for way in ways for axis in (batched or (False, True)))


def _family(
    name: str,
    says: str,
    *,
    extras: tuple[Drawn, ...] = shaped(POSITIONS),
    forms: Callable[[Scope], tuple[Form, ...]] = rope_forms,
    build: Callable[[Scope, Draw], Inputs] = rope_inputs,
    patterns: tuple[Pattern, ...] = VALUES,
    dresses: tuple[Dress, ...] = DRESSES,
) -> Family:
    return Family(
        name=name,
        component="rope_apply" if build is rope_apply_inputs else "rope",
        says=says,
        forms=forms,
        extras=extras,
        build=build,
        patterns=patterns,
        dresses=dresses,
    )


ROPE: tuple[Family, ...] = (
    _family("rope", "any positions"),
    _family(
        "rope_alike",
        "any positions; often as many as heads",
        forms=partial(rope_forms, table=(*ROPE_SHAPES, *AS_MANY_HEADS)),
    ),
    _family(
        "rope_pairs",
        "positions that leave room for a shift",
        build=partial(rope_inputs, end=2**16),
    ),
    _family("rope_zero", "every position is 0", extras=shaped(ZERO)),
    _family(
        "rope_partial",
        "some channels do not turn",
        forms=partial(rope_forms, partial_only=True, needs={"d": lambda d: even(d) and d > 2}),
    ),
    _family(
        "rope_batch",
        "every batch entry has positions of its own",
        extras=shaped(tuple(p for p in POSITIONS if p.name != "all zero"), True),
        forms=partial(rope_forms, needs={"b": several}),
        build=partial(rope_inputs, different=True),
    ),
    _family(
        "rope_basis",
        "every channel alone, all at one position",
        extras=shaped(ALL_EQUAL),
        forms=_basis_forms,
        patterns=(BASIS,),
        dresses=PLAIN,
    ),
    _family(
        "rope_empty",
        "no batch entry, no head or no position",
        extras=shaped(POSITIONS[:1]),
        forms=_empty_forms,
        patterns=VALUES[:1],
        dresses=PLAIN,
    ),
    _family("rope_apply", "tables of any numbers", extras=shaped(TABLES), build=rope_apply_inputs),
    _family(
        "rope_apply_empty",
        "no batch entry, no head or no position",
        extras=shaped(TABLES[1:2]),
        forms=_empty_forms,
        build=rope_apply_inputs,
        patterns=VALUES[:1],
        dresses=PLAIN,
    ),
)
