"""Calls of latent attention: sizes that differ from each other, with options that differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from attnspec.oracle.family import (
    UPRIGHT,
    WEIGHT_DRESSES,
    Draw,
    Dress,
    Family,
    Form,
    Scope,
)
from attnspec.oracle.law import Inputs
from attnspec.oracle.mla_contents import AXES, CALM, CONTENTS, TELLING, Contents, filled_arrays
from attnspec.oracle.mla_values import WEIGHTS
from attnspec.oracle.shapes import Need, Shape, even, legal_sizes, nearest, several

Array = np.ndarray[Any, Any]

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


def call_sizes(form: Form) -> dict[str, int]:
    """The sizes of a form, by axis."""
    return dict(zip(AXES, form.shape, strict=True))


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


def _families(component: str) -> tuple[Family, ...]:
    def family(
        name: str,
        says: str,
        made: Callable[[Scope], tuple[Form, ...]],
        patterns: tuple[Contents, ...] = CONTENTS,
        dresses: tuple[Dress, ...] = WEIGHT_DRESSES,
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
