"""Calls of attention: tensors, options, masks and biases of every shape that may be handed over.

The families that laws refer to are in `attention_families.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

import numpy as np

from attnspec.oracle.attention_biases import ONE_HIDDEN, ROW_HIDDEN, Bias
from attnspec.oracle.attention_contents import SHARP, Contents, arrays_of, exponent
from attnspec.oracle.attention_masks import HOLE, ROW, Mask, handed, with_a_key
from attnspec.oracle.attention_sight import seen
from attnspec.oracle.family import Array, Draw, Dress, Form, Scope
from attnspec.oracle.law import Inputs
from attnspec.oracle.precision import snapped


class Extra(NamedTuple):
    """What is handed over besides q, k, v and options; left out where the function does not take
    it."""

    mask: Mask | None = None
    bias: Bias | None = None


def attention_inputs(
    scope: Scope,
    drawn: Draw,
    *,
    sizes: Mapping[str, tuple[int, ...]] = SHARP,
    lift: float = 0.6,
    hidden: bool = False,
    empty_rows: bool = False,
) -> Inputs:
    """A call of attention in which every row sees a key; with `empty_rows` some row sees none,
    with `hidden` some row doesn't see all of them. `sizes`: exponents of the sizes of scores;
    `lift`: how often values in bfloat16 have a mean. The variance never counts: the
    sum of a softmax is coherent."""
    form, extra, pattern, dress, seed = drawn
    rng = np.random.default_rng(seed)
    b, h, g, t, s, d, e = form.shape
    contents = cast("Contents", pattern)
    sharp = exponent(rng, contents, scope.dtype, d, form.options, sizes)
    shapes = ((b, h, t, d), (b, g, s, d), (b, g, s, e))
    made = arrays_of(rng, shapes, contents, dress, scope.dtype, sharp=sharp, lift=lift)
    extra = _taken(scope, extra)
    added = _added(rng, scope, form, dress, extra, filled_up=not empty_rows)
    if hidden or empty_rows:
        shown = seen(
            scope.conventions, (b, h, t, s), form.options, added.get("mask"), added.get("bias")
        )
        if shown.any(axis=-1).all() if empty_rows else shown.all():
            sure = Extra(ROW, ROW_HIDDEN) if empty_rows else Extra(HOLE, ONE_HIDDEN)
            mask, bias = _taken(scope, sure)
            extra = Extra(mask, extra.bias if mask else bias)
            added = _added(rng, scope, form, dress, extra, filled_up=not empty_rows)
    return Inputs(
        component="attention",
        dtype=scope.dtype,
        arrays={**made, **added},
        options=dict(form.options),
        layout=dress.layout,
        pattern=contents.name + _named(extra),
        signed=False,
        seed=seed,
    )


def _taken(scope: Scope, extra: Extra) -> Extra:
    """What of it the function takes."""
    mask, bias = extra
    accepts = scope.accepts
    return Extra(mask if "mask" in accepts else None, bias if "bias" in accepts else None)


def _added(
    rng: np.random.Generator,
    scope: Scope,
    form: Form,
    dress: Dress,
    extra: Extra,
    *,
    filled_up: bool,
) -> dict[str, Array]:
    """Mask and bias as they are handed over. `filled_up`: rows that they leave without a key are
    given one back."""
    b, h, _, t, s, _, _ = form.shape
    shape = (b, h, t, s)
    mask = bias = None
    found: dict[str, Array] = {}
    if extra.mask is not None:
        found["mask"] = mask = extra.mask.fill(rng, handed(extra.mask.axes, shape))
    if extra.bias is not None:
        # where views repeat along the batch, so do the numbers
        first = 1 if dress.layout == "expanded" else b
        drawn = handed(extra.bias.axes, (first, h, t, s))
        bias = snapped(extra.bias.fill(rng, drawn, scope.dtype), scope.dtype)
    if filled_up and (mask is not None or bias is not None):
        with_a_key(rng, scope.conventions, shape, form.options, mask, bias)
    if extra.bias is not None and bias is not None:
        whole = handed(extra.bias.axes, shape)
        found["bias"] = bias if bias.shape == whole else np.broadcast_to(bias, whole).copy()
    return found


def _named(extra: Extra) -> str:
    """The end of a pattern's name."""
    named = {
        name: f"{x.name} ({x.axes})" for name, x in zip(Extra._fields, extra, strict=True) if x
    }
    return f"; {' and '.join(named)}: {' and '.join(named.values())}" if named else ""
