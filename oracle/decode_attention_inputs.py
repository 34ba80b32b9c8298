"""Calls of attention over a cache: lengths of every kind, around windows and around blocks.

Shapes and contents are attention's, with one query. The slots from a length on hold numbers like
the others, which a right implementation does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from attnspec.oracle.attention_contents import (
    BLUNT,
    CALM,
    CONTENTS,
    FAINT,
    GRADIENTS,
    NORMAL,
    SHARP,
    SPECIAL,
    Contents,
    arrays_of,
    exponent,
)
from attnspec.oracle.attention_shapes import EMPTY_SHAPES, GRADIENT_SHAPES, SHAPES, attention_shapes
from attnspec.oracle.family import PLAIN, Array, Draw, Dress, Family, Form, Scope
from attnspec.oracle.law import Inputs
from attnspec.oracle.shapes import several

SCALES = (1.0, 0.5, 0.1, 2.0, 0.0, 0.25)
"""Of which 0 stands for 1 / d."""
Forms = Callable[[Scope], tuple[Form, ...]]
AXES = "bhgSde"


class Lengths(NamedTuple):
    """How the lengths of the batch entries are drawn."""

    name: str
    full: float = 0.0
    """How often one is all of the slots."""
    empty: float = 0.0
    """How often one is zero."""
    alike: bool = False
    """Whether all entries have the same."""
    room: bool = False
    """Whether each leaves a slot, where there is more than one."""


ANY = (
    Lengths("full", full=1.0), Lengths("one length", alike=True), Lengths("any lengths"),
    Lengths("any lengths, often full", full=0.5), Lengths("any lengths"), Lengths("any lengths"),
    Lengths("some empty", empty=0.3), Lengths("any lengths"), Lengths("with room", room=True),
)  # fmt: skip
ROOMY = (Lengths("with room", room=True), Lengths("with room, some empty", empty=0.2, room=True))
FILLED = tuple(way for way in ANY if not way.empty)
EMPTY = (Lengths("all empty", empty=1.0), Lengths("some empty", empty=0.5))


def decode_inputs(
    scope: Scope, drawn: Draw, *, sizes: Mapping[str, tuple[int, ...]] = SHARP, lift: float = 0.6
) -> Inputs:
    """A query, caches with content in every slot, and the lengths."""
    form, lengths, pattern, dress, seed = drawn
    rng = np.random.default_rng(seed)
    b, h, g, slots, d, e = form.shape
    contents = cast("Contents", pattern)
    sharp = exponent(rng, contents, scope.dtype, d, form.options, sizes)
    shapes = ((b, h, 1, d), (b, g, slots, d), (b, g, slots, e))
    made = arrays_of(rng, shapes, contents, dress, scope.dtype, sharp=sharp, lift=lift)
    q, k, v = made.values()
    counted = lengths_of(rng, lengths, b, slots, form.options.get("window"))
    if scope.conventions.get("attention.empty_row", "zero") == "unspecified":
        # nothing could be said of such an entry
        counted = np.maximum(counted, 1)
    return Inputs(
        component="decode_attention",
        dtype=scope.dtype,
        arrays={"q": q, "k_cache": k, "v_cache": v, "lengths": counted},
        options=dict(form.options),
        layout=dress.layout,
        pattern=f"{contents.name}; {lengths.name}",
        seed=seed,
    )


def lengths_of(
    rng: np.random.Generator, way: Lengths, b: int, slots: int, window: int | None
) -> Array:
    """A length for each entry: where there is a window, half of them at its border and at twice
    it; else a third beside a multiple of eight, where kernels end a block."""
    most = max(slots - 1, 1) if way.room else slots
    drawn = rng.integers(1, most + 1, size=b)
    if window is not None:
        near = window + rng.integers(-1, 3, size=b) + rng.integers(0, 2, size=b) * window
        drawn = np.where(rng.random(b) < 0.5, np.clip(near, 1, most), drawn)
    else:
        near = drawn // 8 * 8 + rng.integers(-1, 2, size=b)
        drawn = np.where(rng.random(b) < 0.34, np.clip(near, 1, most), drawn)
    drawn = np.where(rng.random(b) < way.full, most, drawn)
    if way.alike and b:
        drawn = np.full(b, drawn[0])
    drawn = np.where(rng.random(b) < way.empty, 0, drawn)
    if way.empty and b:
        drawn[rng.integers(b)] = 0
    found: Array = drawn.astype(np.int64)
    return found


def forms(
    scope: Scope,
    *,
    table: tuple[tuple[int, ...], ...] = SHAPES,
    windows: bool | None = None,
    **needs: Any,
) -> tuple[Form, ...]:
    """Shapes b h g S d e with options. `windows`: whether all calls have one, or none. Raises
    ValueError where the function takes no window and every call is to have one."""
    if windows and "window" not in scope.accepts:
        raise ValueError("the function does not take window")
    limits = {("s" if axis == "S" else axis): limit for axis, limit in scope.limits.items()}
    shapes = attention_shapes(
        tuple((b, h, g, 1, s, d, e) for b, h, g, _, s, d, e in table),
        _with(scope, limits),
        needs=needs,
    )
    made = []
    for place, (b, h, g, _, s, d, e) in enumerate(shapes):
        options: dict[str, Any] = {}
        if windows or (windows is None and place % 5 in (2, 4) and "window" in scope.accepts):
            options["window"] = _window(scope, place, s)
        if place % 4 == 3 and "scale" in scope.accepts:
            options["scale"] = SCALES[place // 4 % len(SCALES)] or 1.0 / d
        made.append(Form((b, h, g, s, d, e), options))
    return tuple(made)


def _window(scope: Scope, place: int, slots: int) -> int:
    """From the narrowest, which is one key, to more than the slots."""
    least = 1 if scope.conventions.get("attention.window") == "total" else 0
    choices = (1, 2, 0, slots // 3, slots // 2, 3, slots - 1, 7, slots, slots + 2)
    return max(choices[place // 3 % len(choices)], least)


def _with(scope: Scope, limits: Mapping[str, Any]) -> Scope:
    return Scope(
        component=scope.component,
        dtype=scope.dtype,
        accepts=scope.accepts,
        limits={**limits, "t": (1, 1)},
        conventions=scope.conventions,
        index_dtype=scope.index_dtype,
    )


def empty_row_forms(scope: Scope) -> tuple[Form, ...]:
    """Any, if the target says what a row without keys gives."""
    if scope.conventions.get("attention.empty_row", "zero") == "unspecified":
        raise ValueError("attention.empty_row is 'unspecified': nothing is promised for such rows")
    return forms(scope)


def empty_forms(scope: Scope) -> tuple[Form, ...]:
    """No batch entry."""
    limit = scope.limits.get("b")
    if limit is not None and (0 not in limit if isinstance(limit, (set, frozenset)) else limit[0]):
        raise ValueError(f"the limit b = {limit!r} allows no empty batch")
    table = tuple((1, *shape[1:]) for shape in EMPTY_SHAPES if shape[0] == 0)
    rest = {axis: sizes for axis, sizes in scope.limits.items() if axis != "b"}
    return tuple(Form((0, *f.shape[1:]), {}) for f in forms(_with(scope, rest), table=table))


def gradient_forms(scope: Scope, **more: Any) -> tuple[Form, ...]:
    """In bfloat16 with short sums: what differences of stored numbers add up to is not judged."""
    table = GRADIENT_SHAPES
    if scope.dtype == "bfloat16":
        table = tuple(s for s in table if max(s[1] // s[2], s[4], 2 * s[6]) < 7)
    return forms(scope, table=table, **more)


def _family(
    name: str,
    says: str,
    made: Forms,
    lengths: tuple[Lengths, ...] = ANY,
    *,
    sizes: Mapping[str, tuple[int, ...]] = SHARP,
    patterns: tuple[Contents, ...] = CONTENTS,
    dresses: tuple[Dress, ...] = SPECIAL,
) -> Family:
    lift = 0.6 if sizes is SHARP else 1.0
    return Family(
        name=f"decode_attention{name}",
        component="decode_attention",
        says=says,
        forms=made,
        extras=lengths,
        build=partial(decode_inputs, sizes=sizes, lift=lift),
        patterns=patterns,
        dresses=dresses,
    )


_CALM: Mapping[str, Any] = {"sizes": BLUNT, "patterns": CALM, "dresses": PLAIN}
_FAINT: Mapping[str, Any] = {"sizes": FAINT, "patterns": GRADIENTS, "dresses": NORMAL}
FAMILIES: tuple[Family, ...] = (
    _family("", "a query and a cache of which any part is valid", forms, FILLED),
    _family("_windows", "a window, and lengths about it", partial(forms, windows=True), FILLED),
    _family("_room", "slots that hold nothing yet", partial(forms, s=several), ROOMY, **_CALM),
    _family("_several", "two slots and more", partial(forms, s=several), FILLED, **_CALM),
    _family("_batch", "two entries and more", partial(forms, b=several), FILLED, **_CALM),
    _family("_two_runs", "calm numbers", forms, FILLED, **_CALM),
    _family("_empty_rows", "entries of length zero", empty_row_forms, EMPTY),
    _family("_empty", "no batch entry", empty_forms, FILLED, **_CALM),
    _family("_gradients", "calls that are differentiated", gradient_forms, FILLED, **_FAINT),
    _family(
        "_gradients_room",
        "the same with slots that hold nothing yet",
        partial(gradient_forms, s=several),
        ROOMY[:1],
        **_FAINT,
    ),
)
