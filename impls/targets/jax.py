"""JAX: `jax.nn.dot_product_attention`, compiled for the CPU by XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnspec.target import Target

Array = np.ndarray[Any, Any]

TARGET = Target(
    name="jax",
    # its softmax is float32 for float64 too, by its documentation; float16 would take as long again
    dtypes=("float32", "bfloat16"),
    conventions={"attention.causal_alignment": "top-left", "attention.empty_row": "unspecified"},
    # float32 up to the weights
    precision={"bfloat16": {"scores": "float32"}},
    # every new shape takes it most of a second
    limits={"b": {2}, "h": {2}, "g": {1, 2}, "t": {1, 4}, "s": {3, 7}, "d": {8}, "e": {8}},
    arrays="numpy",
    requires={"jax": "jax"},
)


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
) -> Array:
    """It wants the heads behind the tokens."""
    if mask is not None or causal or window is not None:
        _refuse_low(bias)
    return np.array(result(q, k, v, mask, bias, causal=causal, window=window, scale=scale))


def result(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    bias: Array | None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
) -> Any:
    """The output as JAX's array, whatever the bias."""
    import jax.numpy as jnp

    given = [jnp.asarray(x) for x in (q, k, v, bias) if x is not None]
    return _function(_full(mask, q, k), causal, window, scale)(*given)


def attention_backward(
    grad_out: Array,
    q: Array,
    k: Array,
    v: Array,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
) -> tuple[Array, ...]:
    """Gradients of q, k, v and, where it is given, the bias, by `jax.vjp`."""
    import jax
    import jax.numpy as jnp

    if mask is not None or causal or window is not None:
        _refuse_low(bias)
    given = [jnp.asarray(x) for x in (q, k, v, bias) if x is not None]
    visible = _full(mask, q, k)
    gradients = jax.vjp(_function(visible, causal, window, scale), *given)[1]
    return tuple(np.array(gradient) for gradient in gradients(jnp.asarray(grad_out)))


def _refuse_low(bias: Array | None) -> None:
    """Raises NotImplementedError for a finite bias below the score of what is hidden, which is
    0.7 times the lowest number."""
    import jax.numpy as jnp

    if bias is None:
        return
    finfo: Any = jnp.finfo
    values, lowest = bias.astype(np.float64), float(finfo(bias.dtype).min)
    if (np.isfinite(values) & (values < lowest / 4.0)).any():
        raise NotImplementedError("JAX hides by a finite score, and this bias has lower numbers")


def _full(mask: Array | None, q: Array, k: Array) -> Array | None:
    """With all its entries, so that there are fewer shapes to compile for."""
    return None if mask is None else np.broadcast_to(mask, (*q.shape[:3], k.shape[2]))


def _function(
    mask: Array | None, causal: bool, window: int | None, scale: float | None
) -> Callable[..., Any]:
    """Of q, k, v and perhaps a bias, all of them JAX's."""
    import jax
    import jax.numpy as jnp

    visible = None if mask is None else jnp.asarray(mask)

    def function(q: Any, k: Any, v: Any, bias: Any = None) -> Any:
        query, key, value = (x.swapaxes(1, 2) for x in (q, k, v))
        output = jax.nn.dot_product_attention(
            query,
            key,
            value,
            bias=bias,
            mask=visible,
            scale=scale,
            is_causal=causal,
            local_window_size=window,
        )
        return output.swapaxes(1, 2)

    return function
