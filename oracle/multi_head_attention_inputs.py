"""Calls of multi-head attention: sizes that differ from each other, and weights of several kinds.

In half precision weights are smaller, so that something is known of most outputs.
"""

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
    stored_shape,
)
from attnspec.oracle.grouped_heads import head_options, legal_shapes
from attnspec.oracle.law import Inputs
from attnspec.oracle.multi_head_attention_values import WEIGHTS
from attnspec.oracle.precision import snapped
from attnspec.oracle.shapes import Need, Shape, even, several
from attnspec.oracle.transformer_layer_contents import (
    CONTENTS,
    FILLS,
    SMALLER,
    TELLING,
    Contents,
)

Array = np.ndarray[Any, Any]

AXES = ("b", "n", "m", "h", "g", "d", "e")

SIZES: tuple[Shape, ...] = (
    (1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 1, 1, 2, 2), (1, 2, 3, 2, 1, 2, 2), (2, 3, 4, 2, 2, 2, 2),
    (1, 3, 5, 4, 2, 2, 4), (2, 4, 6, 3, 1, 4, 3), (1, 5, 7, 4, 2, 2, 3), (2, 3, 5, 3, 3, 3, 4),
    (3, 2, 7, 6, 2, 4, 6), (2, 5, 8, 6, 3, 2, 3), (1, 7, 3, 2, 1, 4, 5), (3, 4, 5, 6, 3, 4, 2),
    (2, 6, 9, 4, 2, 2, 7), (2, 2, 7, 6, 2, 6, 4), (1, 8, 4, 6, 3, 6, 3), (2, 5, 8, 2, 1, 4, 4),
    (1, 9, 6, 4, 4, 2, 5), (3, 5, 4, 8, 2, 6, 3), (1, 3, 4, 2, 2, 2, 2), (2, 4, 8, 4, 2, 5, 2),
    (1, 6, 7, 6, 2, 4, 1), (2, 3, 5, 4, 4, 2, 3), (1, 15, 4, 2, 1, 4, 4), (2, 16, 5, 4, 2, 2, 3),
    (1, 17, 12, 6, 3, 8, 8), (1, 5, 24, 8, 2, 6, 6), (1, 4, 32, 4, 2, 16, 16),
    (2, 33, 6, 2, 1, 4, 3), (1, 33, 4, 4, 1, 2, 2), (1, 66, 3, 2, 1, 4, 4), (5, 3, 4, 4, 2, 6, 6),
    (4, 2, 16, 12, 4, 2, 2), (2, 7, 9, 6, 6, 2, 4),
)  # fmt: skip
"""Simplest first: batch, tokens, width, heads, heads of keys, channels of keys, of values."""
SMALL = SIZES[1:22]

BASES: tuple[Mapping[str, Any], ...] = (
    {}, {"rope_base": 10000.0}, {"rope_base": 100.0}, {"rope_base": None}, {"rope_base": 8.0},
)  # fmt: skip
ORDERS: tuple[Mapping[str, Any], ...] = ({}, {"causal": True}, {"causal": False})


def shapes_of(shape: Shape) -> dict[str, Shape]:
    """x and the weights."""
    b, n, m, h, g, d, e = shape
    return {
        "x": (b, n, m), "w_q": (m, h * d), "w_k": (m, g * d), "w_v": (m, g * e), "w_o": (h * e, m),
    }  # fmt: skip


def filled_arrays(
    rng: np.random.Generator, shape: Shape, contents: Contents, dress: Dress, dtype: str
) -> dict[str, Array]:
    """x and the weights; numbers of order 1 stay so, where weights are not made smaller."""
    lower, made = SMALLER.get(dtype, (0, 0)), {}
    for name, size in shapes_of(shape).items():
        stored = stored_shape(size, dress.layout)
        if name == "x":
            values = contents.fill(rng, stored, None)  # type: ignore[arg-type]
        else:
            asks = name in ("w_q", "w_k")
            fill = contents.scores if asks else contents.values
            fan = size[0] if fill in ("positive", "ones") else size[0] ** 0.5
            values = FILLS[fill](rng, stored) / fan
            values = np.ldexp(values, contents.sizes[not asks] - lower[not asks])
        values = snapped(values, dtype)
        made[name] = values if stored == size else np.broadcast_to(values, size).copy()
    return made


def multi_head_attention_inputs(scope: Scope, drawn: Draw) -> Inputs:
    """A call."""
    form, _, contents, dress, seed = drawn
    assert isinstance(contents, Contents)
    rng = np.random.default_rng(seed)
    arrays = filled_arrays(rng, form.shape, contents, dress, scope.dtype)
    return Inputs(
        component="multi_head_attention",
        dtype=scope.dtype,
        arrays={name: arrays[name] for name in ("x", *WEIGHTS)},
        options=dict(form.options),
        layout=dress.layout,
        pattern=contents.name,
        seed=seed,
    )


def _apart(shape: Shape) -> bool:
    """Whether no two widths are the same, and there are several tokens and heads."""
    _, n, m, h, _, d, e = shape
    return len({m, d, e, h}) == 4 and n > 1 < h


def forms(
    scope: Scope,
    *,
    needs: Mapping[str, Need] | None = None,
    table: tuple[Shape, ...] = SIZES,
    apart: bool = False,
    turned: bool | None = None,
    causal: bool | None = None,
    grouped: bool = False,
) -> tuple[Form, ...]:
    """Legal sizes with options. `turned`, `causal`: that all calls are, or none. Raises ValueError
    where the limits or options of the target leave none."""
    pairs: Mapping[str, Need] = {"d": even} if turned else {}
    shapes = legal_shapes(scope, AXES, {**(needs or {}), **pairs}, table, grouped=grouped)
    shapes = tuple(filter(_apart, shapes)) or shapes if apart else shapes
    bases = BASES if "rope_base" in scope.accepts else BASES[:1]
    orders = ORDERS if "causal" in scope.accepts else ORDERS[:1]
    if turned is not None:
        bases = tuple(b for b in bases if (b.get("rope_base") is not None) == turned)
    if causal is not None:
        orders = tuple(o for o in orders if o.get("causal", False) == causal)
    for name, left in (("rope_base", bases), ("causal", orders)):
        if not left:
            raise ValueError(f"such a call needs the option {name}, which is not accepted")
    still = tuple(b for b in bases if b.get("rope_base") is None)
    return tuple(
        Form(
            shape,
            {**head_options(scope, shape, turn + k), **asked[(3 * turn + 2 * k) % len(asked)]},
        )
        for turn, shape in enumerate(shapes)
        # an odd number of channels has no pairs
        for asked in ([{**o, **b} for b, o in product(still if shape[5] % 2 else bases, orders)],)
        for k in (0, 1, 7, 5)
    )


def _empty_forms(scope: Scope) -> tuple[Form, ...]:
    if scope.limits:
        raise ValueError(f"no empty batch within the limits {scope.limits!r}")
    shapes = legal_shapes(scope, AXES, {}, SIZES[2:8], grouped=False)
    return tuple(Form((0, *s[1:]), head_options(scope, s, turn)) for turn, s in enumerate(shapes))


def _family(
    name: str,
    says: str,
    made: Callable[[Scope], tuple[Form, ...]],
    patterns: tuple[Contents, ...] = TELLING,
    dresses: tuple[Dress, ...] = UPRIGHT,
) -> Family:
    return Family(
        name=f"multi_head_attention{name}",
        component="multi_head_attention",
        says=says,
        forms=made,
        extras=(None,),
        build=multi_head_attention_inputs,
        patterns=patterns,
        dresses=dresses,
    )


_TOKENS: Mapping[str, Need] = {"n": several}
_HEADS: Mapping[str, Need] = {"h": several, "n": several}
FAMILIES: tuple[Family, ...] = (
    _family("", "any sizes", forms, CONTENTS, WEIGHT_DRESSES),
    _family("_apart", "widths that all differ", partial(forms, apart=True)),
    _family("_heads", "two heads and more", partial(forms, needs=_HEADS)),
    _family("_grouped", "fewer heads of keys than of queries",
            partial(forms, needs=_HEADS, grouped=True)),
    _family("_turned", "calls with rotation of two tokens and more",
            partial(forms, needs=_TOKENS, turned=True)),
    _family("_mirrored", "calls with rotation and without causality",
            partial(forms, needs=_TOKENS, turned=True, causal=False)),
    _family("_still", "calls without rotation or causality of two tokens and more",
            partial(forms, needs=_TOKENS, turned=False, causal=False)),
    _family("_causal", "causal calls of two tokens and more",
            partial(forms, needs=_TOKENS, causal=True)),
    _family("_single", "one token", partial(forms, needs={"n": lambda size: size == 1})),
    _family("_batch", "two entries and more", partial(forms, needs={"b": several})),
    _family("_gradients", "small sizes", partial(forms, table=SMALL, needs=_TOKENS), TELLING,
            WEIGHT_DRESSES),
    _family("_empty", "no batch entry", _empty_forms, CONTENTS[:1]),
)  # fmt: skip
