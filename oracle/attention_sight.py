"""Who sees whom in a call of attention: the definition's own formula, evaluated.

Sources: `spec/attention_definition.py` (`sees`, `key_head`). The conventions of a target decide the
alignment of queries with keys, what a window counts, and which key head a query head reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnspec.oracle.expected import value_of
from attnspec.spec import attention_definition
from attnspec.spec.attention_definition import Options

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

EVERYTHING = 2**40
"""Keys to one side of a query, where nothing limits them."""


def reach(
    conventions: Mapping[str, str], t: int, s: int, options: Mapping[str, Any]
) -> tuple[int, int, int]:
    """Position of the first query, and how many keys before and after its own position a query
    sees, under `causal` and `window`."""
    first = 0 if conventions.get("attention.causal_alignment") == "top-left" else s - t
    window = options.get("window")
    wide = EVERYTHING if window is None else int(window)
    total = window is not None and conventions.get("attention.window") == "total"
    return first, wide - total, 0 if options.get("causal") else wide


def in_range(options: Mapping[str, Any]) -> bool:
    """Whether causality or a window may hide keys."""
    return bool(options.get("causal")) or options.get("window") is not None


def seen(
    conventions: Mapping[str, str],
    shape: Shape,
    options: Mapping[str, Any],
    mask: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """Whether query i sees key j: bool, of the shape b h t s. A key that a mask, minus infinity in
    a bias, causality or a window hides is not seen."""
    b, h, t, s = shape
    wanted = Options(mask=mask is not None, bias=bias is not None, ranges=in_range(options))
    parameters: dict[str, Any] = {"batch": b, "heads": h, "t": t, "s": s}
    arrays: dict[str, Array] = {}
    if wanted.ranges:
        limits = reach(conventions, t, s, options)
        parameters.update(zip(("offset", "left", "right"), limits, strict=True))
    if mask is not None:
        arrays["mask"] = np.broadcast_to(mask, shape).astype(np.int8)
    if bias is not None:
        arrays["bias"] = with_four_axes(bias)
        parameters.update(spread(bias))
    found: Array = value_of(attention_definition.visible(wanted), parameters, arrays) != 0.0
    return found


def with_four_axes(values: Array) -> Array:
    """A mask or a bias with the leading axes that it may lack."""
    return values.reshape((1,) * (4 - values.ndim) + values.shape)


def spread(bias: Array) -> dict[str, int]:
    """The sizes of a bias by the definition's names."""
    names = ("bias_b", "bias_h", "bias_t", "bias_s")
    return dict(zip(names, with_four_axes(bias).shape, strict=True))


def head_order(conventions: Mapping[str, str], heads: int, groups: int) -> str:
    """In which order query heads share key heads. Both orders are the same where every head has
    its own, and where all share one."""
    return "grouped" if groups in (1, heads) else conventions["gqa.head_order"]


def key_heads(conventions: Mapping[str, str], heads: int, groups: int) -> Array:
    """The key head that each query head reads."""
    definition = attention_definition.key_heads(head_order(conventions, heads, groups))
    value = value_of(definition, {"heads": heads, "groups": groups}, {})
    return value.astype(np.int64)
