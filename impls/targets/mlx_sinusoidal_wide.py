"""MLX: `nn.SinusoidalPositionalEncoding` in wide rows, where its second frequency is off."""

from __future__ import annotations

from attnspec.impls.targets.mlx_sinusoidal import Array, encoded
from attnspec.target import Target

TARGET = Target(
    name="mlx.sinusoidal_wide",
    conventions={"sinusoidal.layout": "concatenated"},
    arrays="numpy",
    limits={"dim": {262, 366, 376, 448}},
    requires={"mlx": "mlx[cpu]"},
)


def sinusoidal(positions: Array, dim: int, *, base: float = 10000.0) -> Array:
    """As the target `mlx.sinusoidal`, with any base."""
    return encoded(positions, dim, base)
