"""Heads that share keys: how many a call has, and which sizes and options calls may have.

Axes are those of the contract: h heads of queries, g of keys and values, d and e channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnspec.oracle.family import Scope
from attnspec.oracle.law import Inputs
from attnspec.oracle.shapes import Need, Shape, legal_sizes, nearest


def head_counts(inputs: Inputs) -> tuple[int, int]:
    """How many heads queries and keys have."""
    h, g = inputs.options["n_heads"], inputs.options.get("n_kv_heads")
    return int(h), int(h if g is None else g)


def legal_shapes(
    scope: Scope,
    axes: tuple[str, ...],
    needs: Mapping[str, Need],
    table: tuple[Shape, ...],
    *,
    grouped: bool,
) -> tuple[Shape, ...]:
    """Every axis moved to the nearest size that limits and needs leave; `axes` begin with b, n, m,
    h and g, and `grouped` asks for fewer heads of keys than of queries. Raises ValueError where an
    axis has no size left, or no number of heads is a multiple of one of keys."""
    if grouped and "n_kv_heads" not in scope.accepts:
        raise ValueError("such a call needs the option n_kv_heads, which is not accepted")
    legal = {}
    for axis in axes:
        limit = scope.limits.get(axis, (1, 1024))
        legal[axis] = [size for size in legal_sizes(axis, limit) if needs.get(axis, bool)(size)]
        if not legal[axis]:
            raise ValueError(f"no legal size of axis {axis!r} is left by its limit {limit!r}")
    found: dict[Shape, None] = {}
    for shape in table:
        b, n, m, h, g, *rest = (nearest(s, legal[a]) for s, a in zip(shape, axes, strict=True))
        fitting = [k for k in legal["g"] if h % k == 0 and (k < h or not grouped)]
        if "n_kv_heads" not in scope.accepts:
            fitting = [k for k in fitting if k == h]
        if fitting:
            found[(b, n, m, h, nearest(g, fitting), *rest)] = None
    if not found:
        without = "" if "n_kv_heads" in scope.accepts else " without the option n_kv_heads"
        raise ValueError(f"no numbers of heads fit each other under the limits{without}")
    return tuple(found)


def head_options(scope: Scope, shape: Shape, turn: int) -> dict[str, Any]:
    """The numbers of heads: that of keys is left out, None or named where it is the same."""
    h, g = shape[3], shape[4]
    same: tuple[dict[str, Any], ...] = ({}, {"n_kv_heads": None}, {"n_kv_heads": g})
    if "n_kv_heads" not in scope.accepts:
        same = same[:1]
    return {"n_heads": h, **(same[turn % len(same)] if h == g else {"n_kv_heads": g})}
