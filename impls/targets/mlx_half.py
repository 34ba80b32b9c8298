"""MLX, half-split: `mx.fast.rope`."""

from __future__ import annotations

from attnspec.impls.targets.mlx_calls import DTYPES, Array, rotated
from attnspec.target import Target

TARGET = Target(
    name="mlx.half",
    dtypes=DTYPES,
    conventions={"rope.layout": "half"},
    arrays="numpy",
    requires={"mlx": "mlx[cpu]"},
)


def rope(
    x: Array, positions: Array, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Array:
    """`mx.fast.rope` on halves."""
    if not x.size and rotary_dim not in (None, x.shape[-1]):
        raise NotImplementedError("mx.fast.rope raises for an empty array of which a part turns")
    return rotated(x, positions, base, rotary_dim, traditional=False)
