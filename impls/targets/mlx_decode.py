"""MLX: `mx.fast.scaled_dot_product_attention` over a cache, with a mask of the valid slots."""

from __future__ import annotations

import numpy as np

from attnspec.impls.targets.mlx_attention import attended
from attnspec.impls.targets.mlx_calls import DTYPES, Array
from attnspec.target import Target

TARGET = Target(
    name="mlx.decode",
    dtypes=DTYPES,
    conventions={"attention.empty_row": "unspecified"},
    arrays="numpy",
    gradients=False,
    requires={"mlx": "mlx[cpu]"},
)


def decode_attention(
    q: Array,
    k_cache: Array,
    v_cache: Array,
    lengths: Array,
    *,
    window: int | None = None,
    scale: float | None = None,
) -> Array:
    """It weighs what a mask hides by zero, so that NaN there has to be replaced first."""
    slots, ends = np.arange(k_cache.shape[2]), lengths[:, None]
    valid = slots < ends
    shown = valid if window is None else valid & (slots >= ends - 1 - window)
    zero = np.zeros((), k_cache.dtype)
    k, v = (np.where(valid[:, None, :, None], cache, zero) for cache in (k_cache, v_cache))
    return attended(q, k, v, mask=shown[:, None, None], scale=scale)
