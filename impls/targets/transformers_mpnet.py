"""The relative position bias of MPNet in transformers, a port of T5's of its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.mpnet",
    # an embedding's gradient on the CPU is summed in the dtype of its table
    precision={"reductions": "storage"},
    # an encoder's: as many queries as keys
    limits={"t5_bias": {"t": {65}, "s": {65}}},
    requires={"torch": "torch", "transformers": "transformers"},
)


def t5_bucket(
    relative_position: Tensor, *, num_buckets: int = 32, max_distance: int = 128
) -> Tensor:
    """`MPNetEncoder.relative_position_bucket`, which knows both directions only."""
    from transformers.models.mpnet import modeling_mpnet

    encoder: Any = modeling_mpnet.MPNetEncoder
    buckets: Tensor = encoder.relative_position_bucket(
        relative_position, num_buckets=num_buckets, max_distance=max_distance
    )
    return buckets


def t5_bias(table: Tensor, t: int, s: int) -> Tensor:
    """`MPNetEncoder.compute_position_bias`, of as many queries as keys."""
    from torch.nn.functional import embedding
    from transformers.models.mpnet import modeling_mpnet

    encoder: Any = modeling_mpnet.MPNetEncoder

    def read(rows: Tensor) -> Tensor:
        return embedding(rows, table)

    layer: Any = SimpleNamespace(
        relative_attention_bias=read,
        relative_position_bucket=encoder.relative_position_bucket,
    )
    tokens = table.new_empty(1, s, 0)
    bias: Tensor = encoder.compute_position_bias(layer, tokens, num_buckets=table.shape[0])[0]
    return bias
