"""The relative position bias of WavLM in transformers: T5's, for the frames of an encoder."""

# the function that gives the buckets has no public name
# ruff: noqa: SLF001

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="transformers.wavlm",
    # an embedding's gradient on the CPU is summed in the dtype of its table
    precision={"reductions": "storage"},
    # an encoder's: as many queries as keys
    limits={"t5_bias": {"t": {65}, "s": {65}}},
    requires={"torch": "torch", "transformers": "transformers"},
)


def t5_bucket(
    relative_position: Tensor, *, num_buckets: int = 32, max_distance: int = 128
) -> Tensor:
    """`WavLMAttention._relative_positions_bucket`, which knows both directions only."""
    from transformers.models.wavlm.modeling_wavlm import WavLMAttention

    layer: Any = SimpleNamespace(num_buckets=num_buckets, max_distance=max_distance)
    buckets: Tensor = WavLMAttention._relative_positions_bucket(layer, relative_position)
    return buckets


def t5_bias(table: Tensor, t: int, s: int, *, max_distance: int = 128) -> Tensor:
    """`WavLMAttention.compute_bias`, of as many queries as keys."""
    from torch.nn.functional import embedding
    from transformers.models.wavlm.modeling_wavlm import WavLMAttention

    class Read:
        weight = table

        def __call__(self, rows: Tensor) -> Tensor:
            return embedding(rows, table)

    layer: Any = SimpleNamespace(
        rel_attn_embed=Read(), num_buckets=table.shape[0], max_distance=max_distance
    )
    layer._relative_positions_bucket = partial(WavLMAttention._relative_positions_bucket, layer)
    bias: Tensor = WavLMAttention.compute_bias(layer, t, s)
    return bias
