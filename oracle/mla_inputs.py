"""Calls of latent attention: sizes that differ from each other, and weights of several kinds.

A score is made of four matrices after another, so that in half precision nothing is known of a
large one: there the weights of queries are small. Sums in which nothing cancels, and matrices that
select one channel each, are judged in every dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from attnspec.oracle.family import LAYOUTS, REPEATED, Draw, Dress, Family, Form, Scope, stored_shape
from attnspec.oracle.law import Inputs
from attnspec.oracle.mla_values import WEIGHTS
from attnspec.oracle.precision import snapped
from attnspec.oracle.shapes import Need, Shape, even, legal_sizes, nearest, several
from attnspec.oracle.values import Pattern, Span, span

Array = np.ndarray[Any, Any]

AXES = ("b", "n", "m", "r", "c", "h", "d", "e", "p")

SIZES: tuple[Shape, ...] = (
    (1, 1, 1, 1, 1, 1, 1, 1, 2), (1, 2, 1, 1, 1, 1, 1, 1, 2), (1, 2, 3, 2, 2, 1, 2, 1, 2),
    (2, 3, 4, 2, 3, 1, 3, 2, 2), (1, 3, 5, 4, 2, 2, 1, 3, 2), (2, 4, 6, 3, 5, 2, 1, 3, 2),
    (1, 5, 7, 6, 4, 3, 2, 1, 2), (2, 3, 5, 1, 7, 3, 6, 2, 4), (3, 2, 7, 5, 1, 4, 3, 6, 8),
    (2, 5, 8, 7, 4, 3, 6, 1, 2), (1, 7, 5, 3, 6, 2, 4, 1, 8), (3, 4, 2, 6, 5, 2, 7, 1, 8),
    (2, 6, 9, 4, 3, 5, 1, 7, 2), (2, 1, 7, 5, 3, 4, 8, 6, 2), (1, 8, 3, 5, 9, 4, 6, 7, 2),
    (2, 5, 12, 9, 7, 3, 4, 8, 6), (1, 9, 6, 3, 2, 4, 5, 7, 8), (3, 5, 10, 2, 8, 2, 7, 6, 4),
    (1, 3, 4, 2, 2, 2, 2, 2, 2), (2, 4, 6, 4, 4, 2, 4, 4, 4), (1, 6, 7, 3, 2, 1, 5, 4, 6),
    (1, 15, 9, 4, 6, 3, 5, 2, 8), (2, 16, 5, 7, 3, 2, 6, 9, 4), (1, 17, 24, 12, 8, 4, 6, 5, 10),
    (1, 9, 48, 20, 16, 8, 12, 10, 6), (1, 5, 64, 32, 24, 4, 16, 12, 8),
    (2, 33, 8, 6, 4, 3, 7, 5, 2), (1, 65, 7, 3, 5, 2, 4, 6, 8), (1, 130, 6, 4, 3, 2, 5, 7, 2),
    (1, 4, 32, 10, 34, 2, 18, 7, 16), (5, 3, 4, 6, 2, 8, 1, 7, 10),
)  # fmt: skip
"""Simplest first: batch, tokens, widths of model, query latent and latent, heads, content channels,
value channels, rotary channels. Latents are narrower than all heads together, and wider."""

BASES: tuple[Mapping[str, Any], ...] = (
    {}, {"rope_base": 100.0}, {}, {"rope_base": 8.0}, {"rope_base": 500000.0}, {},
    {"rope_base": 3.0}, {"rope_base": 10000.0},
)  # fmt: skip

_PLAIN = [layout for layout in LAYOUTS if layout not in REPEATED]
DRESSES: tuple[Dress, ...] = tuple(
    Dress(layout, ()) for layout in (*_PLAIN, *_PLAIN, "contiguous", "expanded", *_PLAIN)
)
"""Memory layouts. A weight with stride 0 is one row over and over, which is rare."""

HALF = ("bfloat16", "float16")


@dataclass(frozen=True)
class Contents(Pattern):
    """How the numbers of a call look; `fill` is that of x."""

    scores: str
    """The weights of queries and keys, one of `FILLS`."""
    values: str
    """Those of values and of the output, and of the latent."""
    size: int
    """Exponent of two for the weights of queries; half precision has a smaller one."""


Fill = Callable[[np.random.Generator, Shape], Array]


def _normal(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.standard_normal(shape)


def _positive(rng: np.random.Generator, shape: Shape) -> Array:
    return 0.25 + np.abs(rng.standard_normal(shape))


def _selecting(rng: np.random.Generator, shape: Shape) -> Array:
    """Every column has one number, a power of two with a sign, as large as a column of others."""
    rows, columns = shape
    made = np.zeros(shape)
    sizes = np.ldexp(1.0, rng.integers(-1, 2, columns)) * np.sqrt(rows)
    made[rng.integers(rows, size=columns), np.arange(columns)] = sizes * _signs(rng, columns)
    return made


def _signs(rng: np.random.Generator, shape: Any) -> Array:
    return np.where(rng.random(shape) < 0.5, -1.0, 1.0)


def _whole(rng: np.random.Generator, shape: Shape) -> Array:
    return np.rint(rng.standard_normal(shape) * 1.5)


FILLS: Mapping[str, Fill] = {
    "zeros": lambda rng, shape: np.zeros(shape),
    "ones": lambda rng, shape: np.ones(shape),
    "normal": _normal,
    "positive": _positive,
    "selecting": _selecting,
    "whole": _whole,
}


def _contents(x: str, scores: str, values: str, size: int = 0) -> Contents:
    def fill(rng: np.random.Generator, shape: Shape, _span: Span) -> Array:
        return FILLS[x](rng, shape)

    name = f"x {x}, weights of scores {scores}, of values {values}"
    return Contents(name if not size else f"{name}, times 2^{size}", fill, False, scores, values,
                    size)  # fmt: skip


CONTENTS: tuple[Contents, ...] = (
    _contents("ones", "zeros", "ones"),
    _contents("whole", "zeros", "ones"),
    _contents("whole", "selecting", "selecting"),
    *(
        _contents(x, scores, values, size)
        for x, scores, values, size in (
            ("normal", "normal", "normal", 0),
            ("normal", "selecting", "selecting", 0),
            ("positive", "normal", "positive", 0),
            ("normal", "normal", "normal", 2),
            ("normal", "normal", "selecting", 1),
            ("normal", "selecting", "normal", 2),
            ("positive", "selecting", "positive", 1),
            ("whole", "selecting", "selecting", 1),
            ("positive", "normal", "positive", 2),
            ("normal", "normal", "normal", 1),
            ("normal", "selecting", "selecting", 3),
            ("normal", "normal", "normal", -2),
        )
    ),
)
"""Simplest first."""
CALM = tuple(_contents("normal", "normal", "normal", size) for size in (0, -1, 1))
"""Weights of which no one is nearly 1, and no product is zero."""
TELLING = CONTENTS[3:]
"""In which no weight is the same for all."""


def call_sizes(form: Form) -> dict[str, int]:
    """The sizes of a form, by axis."""
    return dict(zip(AXES, form.shape, strict=True))


def shapes_of(size: Mapping[str, int]) -> dict[str, Shape]:
    """x and the weights."""
    b, n, m, r, c, h, d, e, p = (size[axis] for axis in AXES)
    return {
        "x": (b, n, m), "w_dq": (m, r), "w_uq": (r, h * d), "w_qr": (r, h * p), "w_dkv": (m, c),
        "w_uk": (c, h * d), "w_uv": (c, h * e), "w_kr": (m, p), "w_o": (h * e, m),
    }  # fmt: skip


def filled_arrays(
    rng: np.random.Generator, size: Mapping[str, int], contents: Contents, dress: Dress, dtype: str
) -> dict[str, Array]:
    """x and the weights, of which each keeps numbers of order 1 where they were so before."""
    smaller = {"bfloat16": 3, "float16": 1}.get(dtype, 0)
    made = {}
    for name, shape in shapes_of(size).items():
        stored = stored_shape(shape, dress.layout)
        if name == "x":
            values = contents.fill(rng, stored, span(dtype, "values"))
        else:
            asks = name in ("w_dq", "w_uq", "w_qr", "w_uk", "w_kr")
            values = FILLS[contents.scores if asks else contents.values](rng, stored)
            fan = shape[0] if (not asks) and contents.values == "positive" else shape[0] ** 0.5
            values = values / fan
            if name in ("w_uq", "w_qr"):
                values = np.ldexp(values, contents.size - smaller)
        values = snapped(values, dtype)
        made[name] = values if stored == shape else np.broadcast_to(values, shape).copy()
    return made


def mla_inputs(component: str, scope: Scope, drawn: Draw) -> Inputs:
    """A call over all tokens."""
    form, _, contents, dress, seed = drawn
    assert isinstance(contents, Contents)
    size = call_sizes(form)
    arrays = filled_arrays(np.random.default_rng(seed), size, contents, dress, scope.dtype)
    return Inputs(
        component=component,
        dtype=scope.dtype,
        arrays={name: arrays[name] for name in ("x", *WEIGHTS)},
        options=dict(form.options),
        layout=dress.layout,
        pattern=contents.name,
        seed=seed,
    )


def legal_shapes(scope: Scope, needs: Mapping[str, Need]) -> tuple[Shape, ...]:
    """Every axis moved to the nearest size that limits and needs leave, and the ends of each limit
    besides. Raises ValueError where an axis has none left."""
    legal = {}
    for axis in AXES:
        limit = scope.limits.get(axis, (1, 1024))
        need = needs.get(axis, even if axis == "p" else bool)
        legal[axis] = [size for size in legal_sizes(axis, limit) if need(size)]
        if not legal[axis]:
            raise ValueError(f"no legal size of axis {axis!r} is left by its limit {limit!r}")
    found = dict.fromkeys(
        tuple(nearest(size, legal[axis]) for size, axis in zip(shape, AXES, strict=True))
        for shape in SIZES
    )
    for shape in list(found)[4:12:3]:
        for place, axis in enumerate(AXES):
            if axis in scope.limits:
                ends = (legal[axis][0], legal[axis][-1])
                found |= dict.fromkeys((*shape[:place], s, *shape[place + 1 :]) for s in ends)
    return tuple(found)


def _apart(shape: Shape) -> bool:
    """Whether no two widths are the same, and there are several tokens and heads."""
    widths = shape[2:5] + shape[6:]
    return len(set(widths)) == len(widths) and shape[1] > 1 and shape[5] > 1


def _between(low: int, high: int, size: int) -> bool:
    return low <= size <= high


def forms(
    scope: Scope,
    *,
    needs: Mapping[str, Need] | None = None,
    apart: bool = False,
    causal: bool | None = None,
    least: int = 0,
) -> tuple[Form, ...]:
    """Legal sizes with options. `causal`: that all calls are, or none. Raises ValueError where the
    limits or options of the target leave none."""
    shapes = legal_shapes(scope, needs or {})
    different = tuple(shape for shape in shapes if _apart(shape))
    if apart and different:
        shapes = different
    kinds: tuple[Mapping[str, Any], ...] = ({}, {"causal": True}, {}, {"causal": False})
    if causal is not None:
        kinds = ({}, {"causal": True}) if causal else ({"causal": False},)
    if "causal" not in scope.accepts:
        kinds = tuple(kind for kind in kinds if not kind)
    if not kinds:
        raise ValueError("the function takes no option `causal`")
    bases = BASES if "rope_base" in scope.accepts else BASES[:1]
    asked = list(product(kinds, bases))
    return tuple(
        Form(shape, _asked(scope, shape, {**kind, **base}))
        for turn, shape in enumerate(shapes)
        for kind, base in (asked[(3 * turn + k) % len(asked)] for k in (0, 1, 7))
    )


def _asked(scope: Scope, shape: Shape, more: Mapping[str, Any]) -> dict[str, Any]:
    heads = {} if scope.component == "mla_cache" else {"n_heads": shape[5]}
    return {**heads, **more}


def empty_forms(scope: Scope) -> tuple[Form, ...]:
    """Calls without a batch entry. Raises ValueError under any limits."""
    if scope.limits:
        raise ValueError(f"no empty batch within the limits {scope.limits!r}")
    return tuple(
        Form((0, *shape[1:]), _asked(scope, shape, {})) for shape in legal_shapes(scope, {})[2:8]
    )


UPRIGHT = (Dress("contiguous", ()),)
"""For calls that a law makes others of."""


def _families(component: str) -> tuple[Family, ...]:
    def family(
        name: str,
        says: str,
        made: Callable[[Scope], tuple[Form, ...]],
        patterns: tuple[Contents, ...] = CONTENTS,
        dresses: tuple[Dress, ...] = DRESSES,
    ) -> Family:
        return Family(
            name=f"{component}{name}",
            component=component,
            says=says,
            forms=made,
            extras=(None,),
            build=partial(mla_inputs, component),
            patterns=patterns,
            dresses=dresses,
        )

    tokens, heads = {"n": several}, {"h": several, "n": several}
    few: dict[str, Need] = {axis: partial(_between, 1, 8) for axis in ("m", "r", "c", "d")}
    few |= {"n": partial(_between, 2, 6), "h": partial(_between, 1, 3)}
    return (
        family("", "any sizes", forms),
        family("_apart", "widths that all differ", partial(forms, apart=True), TELLING, UPRIGHT),
        family("_several", "two tokens and more", partial(forms, needs=tokens), TELLING),
        family("_calm", "few tokens, of usual scores", partial(forms, needs=few), CALM, UPRIGHT),
        family("_heads", "two heads and more", partial(forms, needs=heads), TELLING, UPRIGHT),
        family("_batch", "two entries and more", partial(forms, needs={"b": several}), TELLING),
        family("_causal", "causal calls of two tokens and more",
               partial(forms, needs=tokens, causal=True), TELLING, UPRIGHT),
        family("_full", "calls without causality of two tokens and more",
               partial(forms, needs=tokens, causal=False), TELLING, UPRIGHT),
        family("_empty", "no batch entry", empty_forms, CONTENTS[:1], UPRIGHT),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (*_families("mla"), *_families("mla_absorbed"))
