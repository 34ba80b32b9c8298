"""Attention of MLX on NumPy arrays, and its gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnspec.impls.targets.mlx_calls import Array, as_numpy


def attended(
    q: Array,
    k: Array,
    v: Array,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Array:
    """`mx.fast.scaled_dot_product_attention`."""
    import mlx.core as mx

    function = _function(q, k, mask, causal, scale)
    given = [mx.array(x) for x in (q, k, v, bias) if x is not None]
    return as_numpy(function(*given), q)


def gradients(
    upstream: Array,
    q: Array,
    k: Array,
    v: Array,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[Array, ...]:
    """Of q, k, v and, where it is given, the bias, by `mx.vjp`."""
    import mlx.core as mx

    function = _function(q, k, mask, causal, scale)
    given = [mx.array(x) for x in (q, k, v, bias) if x is not None]
    found = mx.vjp(function, given, [mx.array(upstream)])[1]
    return tuple(as_numpy(gradient, q) for gradient in found)


def _function(
    q: Array, k: Array, mask: Array | None, causal: bool, scale: float | None
) -> Callable[..., Any]:
    """Of q, k, v and perhaps a bias, all of them MLX's. It takes one mask: a word, what may be
    seen, or what is added."""
    import mlx.core as mx

    t, s = q.shape[-2], k.shape[-2]
    scale = q.shape[-1] ** -0.5 if scale is None else scale

    def function(q: Any, k: Any, v: Any, bias: Any = None) -> Any:
        one: Any = "causal" if causal and mask is None and bias is None else None
        if one is None:
            seen = np.tri(t, s, s - t, dtype=bool) if causal else None
            if mask is not None:
                seen = mask if seen is None else mask & seen
            one = bias if seen is None else mx.array(seen)
            if bias is not None and seen is not None:
                one = mx.where(one, bias, mx.array(-mx.inf, bias.dtype))
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=one)

    return function
