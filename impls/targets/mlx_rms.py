"""RMSNorm of MLX on NumPy arrays, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.impls.targets.mlx_calls import as_numpy

Array = np.ndarray[Any, Any]


def normalised(x: Array, weight: Array | None = None, *, eps: float = 1e-6) -> Array:
    """`mx.fast.rms_norm`."""
    import mlx.core as mx

    gain = None if weight is None else mx.array(weight)
    return as_numpy(mx.fast.rms_norm(mx.array(x), gain, eps), x)


def gradients(
    upstream: Array, x: Array, weight: Array | None = None, *, eps: float = 1e-6
) -> tuple[Array, ...]:
    """Of x and, where it is given, the weight, by `mx.vjp`."""
    import mlx.core as mx

    def function(x: Any, weight: Any = None) -> Any:
        return mx.fast.rms_norm(x, weight, eps)

    given = [mx.array(array) for array in (x, weight) if array is not None]
    found = mx.vjp(function, given, [mx.array(upstream)])[1]
    return tuple(as_numpy(gradient, x) for gradient in found)
