"""JAX: `jax.nn.standardize`, which takes the mean of the squares less the square of the mean for
the variance."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnspec.target import Target

Array = np.ndarray[Any, Any]

TARGET = Target(
    name="jax.standardize",
    dtypes=("float32",),
    # every new shape takes it a while
    limits={"m": {5, 64}},
    gradients=False,
    arrays="numpy",
    requires={"jax": "jax"},
)


def layer_norm(x: Array, *, eps: float = 1e-5) -> Array:
    """Without weight and bias."""
    import jax
    import jax.numpy as jnp

    return np.array(jax.nn.standardize(jnp.asarray(x), axis=-1, epsilon=eps))
