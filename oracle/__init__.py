"""What decides: values, enclosures and allowances from the definitions, and the laws."""

from __future__ import annotations

from attnspec.oracle import (
    alibi_bias,
    alibi_slopes,
    attention,
    attention_gradients,
    decode_attention,
    layer_norm,
    layer_norm_gradients,
    learned_positions,
    mla,
    mla_cache,
    mla_decode,
    mla_gradients,
    multi_head_attention,
    multi_head_attention_gradients,
    residual_block,
    residual_block_gradients,
    rms_norm,
    rms_norm_gradients,
    rope,
    rope_apply,
    rope_gradients,
    rope_streams,
    sinusoidal,
    softmax,
    softmax_gradients,
    t5_bias,
    t5_bucket,
    transformer_layer,
    transformer_layer_gradients,
)
from attnspec.oracle.law import Law

LAWS: tuple[Law, ...] = (
    *softmax.LAWS,
    *softmax_gradients.LAWS,
    *attention.LAWS,
    *attention_gradients.LAWS,
    *decode_attention.LAWS,
    *sinusoidal.LAWS,
    *learned_positions.LAWS,
    *t5_bucket.LAWS,
    *t5_bias.LAWS,
    *alibi_slopes.LAWS,
    *alibi_bias.LAWS,
    *rope.LAWS,
    *rope_streams.LAWS,
    *rope_apply.LAWS,
    *rope_gradients.LAWS,
    *layer_norm.LAWS,
    *layer_norm_gradients.LAWS,
    *residual_block.LAWS,
    *residual_block_gradients.LAWS,
    *rms_norm.LAWS,
    *rms_norm_gradients.LAWS,
    *mla.LAWS,
    *multi_head_attention.LAWS,
    *multi_head_attention_gradients.LAWS,
    *transformer_layer.LAWS,
    *transformer_layer_gradients.LAWS,
    *mla_gradients.LAWS,
    *mla_cache.LAWS,
    *mla_decode.LAWS,
)
"""Every law, component by component."""


def law(id: str) -> Law:
    """The law of this id. Raises ValueError, naming those there are."""
    for row in LAWS:
        if row.id == id:
            return row
    raise ValueError(f"unknown law {id!r}; there are: {', '.join(row.id for row in LAWS)}")
