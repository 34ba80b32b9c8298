"""The positions of x-transformers: a learned table, and the rotation."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor, device

TARGET = Target(
    name="x-transformers.positions",
    precision={
        # angle, sine and cosine are formed in float32 for every dtype
        "float64": {"tables": "float32"},
        # the running sums of a table's gradient are rounded to its dtype
        "bfloat16": {"reductions": "storage"},
        "float16": {"reductions": "storage"},
    },
    limits={
        # rows are divided by the root of the width, which is exact for these
        "learned_positions": {"m": {1, 4, 16}},
        # it raises for two channels and where there is no token
        "rope": {"n": (1, 1024), "b": (1, 64), "d": (4, 1024)},
    },
    requires={"torch": "torch", "x_transformers": "x-transformers"},
)


def learned_positions(positions: Tensor, table: Tensor) -> Tensor:
    """`AbsolutePositionalEmbedding`, which divides rows by the root of their width, of a table
    that was multiplied by it."""
    import torch
    from torch.func import functional_call
    from x_transformers.x_transformers import AbsolutePositionalEmbedding

    rows, width = table.shape
    with torch.device("meta"):
        module = AbsolutePositionalEmbedding(width, rows)
    weight = {"emb.weight": table / module.scale}
    # of its first argument it asks only how many tokens there are, which may not be more than rows
    tokens = table.new_zeros(1, min(len(positions), rows))
    found: Tensor = functional_call(module, weight, (tokens,), {"pos": positions})
    return found


def rope(
    x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
) -> Tensor:
    """`apply_rotary_pos_emb` with the angles of `RotaryEmbedding` at the given positions."""
    from x_transformers.x_transformers import apply_rotary_pos_emb

    width = x.shape[-1] if rotary_dim is None else rotary_dim
    turning, scale = _rotary(width, base, x.device)(positions)
    result: Tensor = apply_rotary_pos_emb(x, turning, scale)
    return result


@lru_cache(maxsize=64)
def _rotary(width: int, base: float, place: device) -> Any:
    from x_transformers.x_transformers import RotaryEmbedding

    if width == 2:
        # it raises base_rescale_factor to the power width / (width - 2), also where that is 1
        raise NotImplementedError("RotaryEmbedding(dim=2) divides by zero")
    return RotaryEmbedding(width, base=base).to(place)
