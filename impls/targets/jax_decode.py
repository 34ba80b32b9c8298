"""JAX: `jax.nn.dot_product_attention` with the lengths of keys and values, compiled for the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnspec.target import Target

Array = np.ndarray[Any, Any]

TARGET = Target(
    name="jax.decode",
    dtypes=("float32", "bfloat16"),
    conventions={"attention.empty_row": "unspecified"},
    # float32 up to the weights
    precision={"bfloat16": {"scores": "float32"}},
    # every new shape takes it most of a second
    limits={"b": {2}, "h": {2}, "g": {1}, "S": {3, 7}, "d": {8}, "e": {8}},
    arrays="numpy",
    requires={"jax": "jax"},
)


def decode_attention(
    q: Array, k_cache: Array, v_cache: Array, lengths: Array, *, scale: float | None = None
) -> Array:
    """It wants the heads behind the tokens."""
    import jax.numpy as jnp

    given = [jnp.asarray(x) for x in (q, k_cache, v_cache)]
    return np.array(_function(lengths, scale)(*given))


def decode_attention_backward(
    grad_out: Array,
    q: Array,
    k_cache: Array,
    v_cache: Array,
    lengths: Array,
    *,
    scale: float | None = None,
) -> tuple[Array, ...]:
    """Gradients of q and both caches, by `jax.vjp`."""
    import jax
    import jax.numpy as jnp

    given = [jnp.asarray(x) for x in (q, k_cache, v_cache)]
    back = jax.vjp(_function(lengths, scale), *given)[1]
    return tuple(np.array(gradient) for gradient in back(jnp.asarray(grad_out)))


def _function(lengths: Array, scale: float | None) -> Callable[..., Any]:
    """Of q and both caches, all of them JAX's. What hidden slots hold is weighed by zero, so that
    NaN there has to be replaced first."""
    import jax
    import jax.numpy as jnp

    counts = jnp.asarray(lengths, jnp.int32)

    def function(q: Any, k_cache: Any, v_cache: Any) -> Any:
        valid = jnp.arange(k_cache.shape[2]) < counts[:, None]
        held = (jnp.where(valid[:, None, :, None], x, 0) for x in (k_cache, v_cache))
        query, key, value = (x.swapaxes(1, 2) for x in (q, *held))
        output = jax.nn.dot_product_attention(
            query, key, value, scale=scale, key_value_seq_lengths=counts
        )
        return output.swapaxes(1, 2)

    return function
