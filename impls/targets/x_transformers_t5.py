"""The relative position bias of x-transformers, in T5's form."""

# the function that gives the buckets has no public name
# ruff: noqa: SLF001

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="x-transformers.t5",
    # an embedding's gradient on the CPU is summed in the dtype of its table
    precision={"reductions": "storage"},
    # without a query einx raises AxisSizeError
    limits={"t5_bias": {"t": (1, 8192)}},
    requires={"torch": "torch", "x_transformers": "x-transformers"},
)


def t5_bucket(
    relative_position: Tensor,
    *,
    bidirectional: bool = True,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> Tensor:
    """`RelativePositionBias._relative_position_bucket`."""
    from x_transformers.x_transformers import RelativePositionBias

    buckets: Tensor = RelativePositionBias._relative_position_bucket(
        relative_position,
        causal=not bidirectional,
        num_buckets=num_buckets,
        max_distance=max_distance,
    )
    return buckets


def t5_bias(
    table: Tensor, t: int, s: int, *, bidirectional: bool = True, max_distance: int = 128
) -> Tensor:
    """`RelativePositionBias` with the call's table in place of its own, and a scale of 1."""
    from torch.func import functional_call

    rows, heads = table.shape
    module = _module(rows, heads, not bidirectional, max_distance)
    bias: Tensor = functional_call(module, {"relative_attention_bias.weight": table}, (t, s))
    return bias


@lru_cache(maxsize=64)
def _module(rows: int, heads: int, causal: bool, max_distance: int) -> Any:
    from x_transformers.x_transformers import RelativePositionBias

    return RelativePositionBias(
        1.0, causal=causal, num_buckets=rows, max_distance=max_distance, heads=heads
    )
