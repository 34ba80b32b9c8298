"""The relative position bias of T5 in transformers."""

# the function that gives the buckets has no public name
# ruff: noqa: SLF001

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.t5",
    # an embedding's gradient on the CPU is summed in the dtype of its table
    precision={"reductions": "storage"},
    requires={"torch": "torch", "transformers": "transformers"},
)


def t5_bucket(
    relative_position: Tensor,
    *,
    bidirectional: bool = True,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> Tensor:
    """`T5Attention._relative_position_bucket`."""
    from transformers.models.t5 import modeling_t5

    attention: Any = modeling_t5.T5Attention
    buckets: Tensor = attention._relative_position_bucket(
        relative_position,
        bidirectional=bidirectional,
        num_buckets=num_buckets,
        max_distance=max_distance,
    )
    return buckets


def t5_bias(
    table: Tensor, t: int, s: int, *, bidirectional: bool = True, max_distance: int = 128
) -> Tensor:
    """`T5Attention.compute_bias`, with the keys before the first query as those of a cache."""
    from torch.nn.functional import embedding
    from transformers.models.t5 import modeling_t5

    attention: Any = modeling_t5.T5Attention

    def read(rows: Tensor) -> Tensor:
        return embedding(rows, table)

    # what the method looks at, with the call's table in place of a layer's own
    layer: Any = SimpleNamespace(
        relative_attention_bias=read,
        is_decoder=not bidirectional,
        relative_attention_num_buckets=table.shape[0],
        relative_attention_max_distance=max_distance,
        _relative_position_bucket=attention._relative_position_bucket,
    )
    bias: Tensor = attention.compute_bias(layer, t, s, device=table.device, past_seen_tokens=s - t)[
        0
    ]
    return bias
