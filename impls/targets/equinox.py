"""Equinox on JAX: `equinox.nn.LayerNorm` of each row."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from attnspec.target import Target

Array = np.ndarray[Any, Any]

TARGET = Target(
    name="equinox",
    dtypes=("float32", "bfloat16"),
    # every new shape takes it a while
    limits={"m": {5, 32}},
    arrays="numpy",
    requires={"jax": "jax", "equinox": "equinox"},
)


def layer_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5
) -> Array:
    """Over all rows by `jax.vmap`."""
    return np.array(_function(weight is None, bias is None, eps)(*_given(x, weight, bias)))


def layer_norm_backward(
    grad_out: Array,
    x: Array,
    *,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> tuple[Array, ...]:
    """Of x and, where they are given, weight and bias, by `jax.vjp`."""
    import jax
    import jax.numpy as jnp

    function = _function(weight is None, bias is None, eps)
    gradients = jax.vjp(function, *_given(x, weight, bias))[1](jnp.asarray(grad_out))
    return tuple(np.array(gradient) for gradient in gradients)


def _given(*arrays: Array | None) -> list[Any]:
    import jax.numpy as jnp

    return [jnp.asarray(array) for array in arrays if array is not None]


@lru_cache(maxsize=64)
def _function(no_weight: bool, no_bias: bool, eps: float) -> Callable[..., Any]:
    """Of x and those of weight and bias that there are."""
    import equinox
    import jax

    @jax.jit
    def function(x: Any, *affine: Any) -> Any:
        norm = equinox.nn.LayerNorm(
            x.shape[-1], eps=eps, use_weight=not no_weight, use_bias=not no_bias, dtype=x.dtype
        )
        rest = iter(affine)
        if not no_weight:
            norm = equinox.tree_at(lambda made: made.weight, norm, next(rest))
        if not no_bias:
            norm = equinox.tree_at(lambda made: made.bias, norm, next(rest))
        rows = jax.vmap(norm)(x.reshape(-1, x.shape[-1]))
        return rows.reshape(x.shape)

    return function
