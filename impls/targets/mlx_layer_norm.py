"""LayerNorm of MLX on NumPy arrays, and its gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnspec.impls.targets.mlx_calls import as_numpy

Array = np.ndarray[Any, Any]


def layer_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5
) -> Array:
    """`mx.fast.layer_norm`."""
    import mlx.core as mx

    given = [mx.array(array) for array in (x, weight, bias) if array is not None]
    return as_numpy(_function(weight, bias, eps)(*given), x)


def layer_norm_backward(
    grad_out: Array,
    x: Array,
    *,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> tuple[Array, ...]:
    """Of x and, where they are given, weight and bias, by `mx.vjp`."""
    import mlx.core as mx

    given = [mx.array(array) for array in (x, weight, bias) if array is not None]
    found = mx.vjp(_function(weight, bias, eps), given, [mx.array(grad_out)])[1]
    return tuple(as_numpy(gradient, x) for gradient in found)


def _function(weight: Array | None, bias: Array | None, eps: float) -> Callable[..., Any]:
    """Of x and those of weight and bias that there are."""
    import mlx.core as mx

    def function(x: Any, *affine: Any) -> Any:
        rest = iter(affine)
        gain = None if weight is None else next(rest)
        return mx.fast.layer_norm(x, gain, None if bias is None else next(rest), eps)

    return function
