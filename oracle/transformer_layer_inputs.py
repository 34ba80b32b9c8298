"""Calls of a Llama-style layer: sizes that differ from each other, and weights of several kinds.

Two norms, two sublayers and two sums follow each other, so that in half precision nothing is known
of the output for large weights: there weights are smaller. Sums in which nothing cancels, and
matrices that select one channel each, are judged in every dtype.
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
from attnspec.oracle.precision import snapped
from attnspec.oracle.shapes import Need, Shape, even, several
from attnspec.oracle.transformer_layer_contents import (
    AT_EPS,
    CONTENTS,
    FILLS,
    SMALLER,
    TELLING,
    Contents,
    gains,
)
from attnspec.oracle.transformer_layer_values import DEFAULT_EPS, WEIGHTS

Array = np.ndarray[Any, Any]

AXES = ("b", "n", "m", "h", "g", "d", "e", "f")

SIZES: tuple[Shape, ...] = (
    (1, 1, 1, 1, 1, 2, 1, 1), (1, 2, 2, 1, 1, 2, 2, 1), (1, 2, 3, 2, 1, 2, 2, 2),
    (2, 3, 4, 2, 2, 2, 2, 3), (1, 3, 5, 4, 2, 2, 2, 4), (2, 4, 6, 3, 1, 4, 3, 5),
    (1, 5, 7, 4, 2, 2, 3, 6), (2, 3, 5, 3, 3, 4, 4, 7), (3, 2, 7, 6, 2, 4, 6, 8),
    (2, 5, 8, 6, 3, 2, 2, 7), (1, 7, 3, 2, 1, 4, 5, 6), (3, 4, 5, 6, 3, 4, 4, 2),
    (2, 6, 9, 4, 2, 2, 7, 5), (2, 2, 7, 6, 2, 6, 4, 9), (1, 8, 4, 6, 3, 6, 6, 5),
    (2, 5, 8, 2, 1, 4, 4, 12), (1, 9, 6, 4, 4, 2, 5, 8), (3, 5, 4, 8, 2, 6, 3, 7),
    (1, 3, 4, 2, 2, 2, 2, 4), (2, 4, 8, 4, 2, 2, 2, 8), (1, 6, 7, 6, 2, 4, 1, 10),
    (1, 15, 4, 2, 1, 4, 4, 6), (2, 16, 5, 4, 2, 2, 3, 9), (1, 17, 12, 6, 3, 8, 8, 10),
    (1, 5, 24, 8, 2, 6, 6, 32), (1, 4, 32, 4, 2, 16, 16, 40), (2, 33, 6, 2, 1, 4, 3, 5),
    (1, 33, 4, 4, 1, 2, 2, 3), (1, 66, 3, 2, 1, 4, 4, 5), (5, 3, 4, 4, 2, 6, 6, 10),
    (4, 2, 16, 12, 4, 2, 2, 17),
)  # fmt: skip
"""Simplest first: batch, tokens, width, heads, heads of keys, channels of keys, of values, hidden
width. Half of them have as many channels of keys as of values, as most models do."""
SMALL = SIZES[1:20]

BASES: tuple[Mapping[str, Any], ...] = (
    {}, {"rope_base": 100.0}, {"rope_base": None}, {"rope_base": 8.0}, {"rope_base": 500000.0},
)  # fmt: skip
EPSILONS: tuple[Mapping[str, Any], ...] = ({}, {"eps": 1e-5}, {"eps": 0.0625})


def shapes_of(size: Mapping[str, int]) -> dict[str, Shape]:
    """x and the weights."""
    b, n, m, h, g, d, e, f = (size[axis] for axis in AXES)
    return {
        "x": (b, n, m), "w_q": (m, h * d), "w_k": (m, g * d), "w_v": (m, g * e), "w_o": (h * e, m),
        "norm_attention": (m,), "norm_feed_forward": (m,), "w_gate": (m, f), "w_up": (m, f),
        "w_down": (f, m),
    }  # fmt: skip


def filled_arrays(
    rng: np.random.Generator, size: Mapping[str, int], contents: Contents, dress: Dress,
    scope: Scope, eps: float,
) -> dict[str, Array]:  # fmt: skip
    """x and the weights; numbers of order 1 stay so, where weights are not made smaller."""
    lower, made = SMALLER.get(scope.dtype, (0, 0)), {}
    for name, shape in shapes_of(size).items():
        stored = stored_shape(shape, dress.layout)
        if name == "x":
            values = contents.fill(rng, stored, None)  # type: ignore[arg-type]
            if contents.small:
                values = values * (2.0 ** np.rint(0.5 * np.log2(eps)))
        elif name.startswith("norm"):
            values = gains(rng, stored)
            if scope.conventions.get("rms_norm.gain") == "one-plus":
                values = values - 1.0
        else:
            asks = name in ("w_q", "w_k")
            fill = contents.scores if asks else contents.values
            fan = shape[0] if fill in ("positive", "ones") else shape[0] ** 0.5
            values = FILLS[fill](rng, stored) / fan
            values = np.ldexp(values, contents.sizes[not asks] - lower[not asks])
            if contents.small and name in ("w_o", "w_down"):
                # the stream stays about as small as it is
                values = values * (2.0 ** np.rint(0.5 * np.log2(eps)))
        values = snapped(values, scope.dtype)
        made[name] = values if stored == shape else np.broadcast_to(values, shape).copy()
    return made


def transformer_layer_inputs(scope: Scope, drawn: Draw) -> Inputs:
    """A call of the layer."""
    form, _, contents, dress, seed = drawn
    assert isinstance(contents, Contents)
    size = dict(zip(AXES, form.shape, strict=True))
    eps = float(form.options.get("eps", DEFAULT_EPS))
    arrays = filled_arrays(np.random.default_rng(seed), size, contents, dress, scope, eps)
    return Inputs(
        component="transformer_layer",
        dtype=scope.dtype,
        arrays={name: arrays[name] for name in ("x", *WEIGHTS)},
        options=dict(form.options),
        layout=dress.layout,
        pattern=contents.name,
        seed=seed,
    )


def _apart(shape: Shape) -> bool:
    """Whether no two widths are the same, and there are several tokens and heads."""
    widths = (shape[2], *shape[5:])
    return len(set(widths)) == len(widths) and shape[1] > 1 and shape[3] > shape[4]


def forms(
    scope: Scope,
    *,
    needs: Mapping[str, Need] | None = None,
    table: tuple[Shape, ...] = SIZES,
    apart: bool = False,
    turned: bool | None = None,
    grouped: bool = False,
    with_eps: bool = False,
) -> tuple[Form, ...]:
    """Legal sizes with options. `turned`: that all calls rotate, or none. Raises ValueError where
    the limits or options of the target leave none."""
    # whoever rotates needs pairs of channels
    shapes = legal_shapes(scope, AXES, {"d": even, **(needs or {})}, table, grouped=grouped)
    different = tuple(shape for shape in shapes if _apart(shape))
    if apart and different:
        shapes = different
    bases = BASES if "rope_base" in scope.accepts else BASES[:1]
    if turned is not None:
        bases = tuple(b for b in bases if (b.get("rope_base", 1.0) is not None) == turned)
    if not bases:
        raise ValueError("the function takes no option `rope_base`, and rotates by default")
    if with_eps and scope.conventions.get("rms_norm.eps") == "none":
        raise ValueError("the target declares that it has no eps")
    epsilons = EPSILONS if "eps" in scope.accepts else EPSILONS[:1]
    asked = list(product(bases, epsilons))
    return tuple(
        Form(shape, {**head_options(scope, shape, turn + k), **base, **eps})
        for turn, shape in enumerate(shapes)
        for k in (0, 1, 7)
        for base, eps in (asked[(3 * turn + 2 * k) % len(asked)],)
    )


def _empty_forms(scope: Scope) -> tuple[Form, ...]:
    if scope.limits:
        raise ValueError(f"no empty batch within the limits {scope.limits!r}")
    shapes = legal_shapes(scope, AXES, {"d": even}, SIZES[2:8], grouped=False)
    return tuple(Form((0, *s[1:]), head_options(scope, s, turn)) for turn, s in enumerate(shapes))


def _family(
    name: str,
    says: str,
    made: Callable[[Scope], tuple[Form, ...]],
    patterns: tuple[Contents, ...] = TELLING,
    dresses: tuple[Dress, ...] = UPRIGHT,
) -> Family:
    return Family(
        name=f"transformer_layer{name}",
        component="transformer_layer",
        says=says,
        forms=made,
        extras=(None,),
        build=transformer_layer_inputs,
        patterns=patterns,
        dresses=dresses,
    )


_TOKENS, _MANY = {"n": several}, {"n": lambda size: size > 2}
FAMILIES: tuple[Family, ...] = (
    _family("", "any sizes", forms, CONTENTS, WEIGHT_DRESSES),
    _family("_apart", "widths that all differ", partial(forms, apart=True)),
    _family("_several", "two tokens and more", partial(forms, needs=_TOKENS), TELLING,
            WEIGHT_DRESSES),
    _family("_heads", "two heads and more", partial(forms, needs={"h": several, "n": several})),
    _family("_grouped", "fewer heads of keys than of queries",
            partial(forms, needs={"h": several, "n": several}, grouped=True)),
    _family("_turned", "calls with rotation of two tokens and more",
            partial(forms, needs=_TOKENS, turned=True)),
    _family("_still", "calls without rotation of three tokens and more",
            partial(forms, needs=_MANY, turned=False)),
    _family("_batch", "two entries and more", partial(forms, needs={"b": several})),
    _family("_at_eps", "rows whose mean square is about eps", partial(forms, with_eps=True),
            AT_EPS),
    _family("_gradients", "small sizes", partial(forms, table=SMALL, needs=_TOKENS), TELLING,
            WEIGHT_DRESSES),
    _family("_empty", "no batch entry", _empty_forms, CONTENTS[:1]),
)  # fmt: skip
