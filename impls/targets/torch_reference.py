"""The references of this package: plain PyTorch."""

from __future__ import annotations

from attnspec.impls.alibi_bias import alibi_bias
from attnspec.impls.alibi_slopes import alibi_slopes
from attnspec.impls.attention import attention
from attnspec.impls.decode_attention import decode_attention
from attnspec.impls.layer_norm import layer_norm
from attnspec.impls.learned_positions import learned_positions
from attnspec.impls.mla import mla, mla_absorbed, mla_cache, mla_decode
from attnspec.impls.multi_head_attention import multi_head_attention
from attnspec.impls.residual_block import residual_block
from attnspec.impls.rms_norm import rms_norm
from attnspec.impls.rope import rope, rope_apply
from attnspec.impls.sinusoidal import sinusoidal
from attnspec.impls.softmax import softmax
from attnspec.impls.t5_bias import t5_bias
from attnspec.impls.t5_bucket import t5_bucket
from attnspec.impls.transformer_layer import transformer_layer
from attnspec.target import Target

__all__ = [
    "TARGET",
    "alibi_bias",
    "alibi_slopes",
    "attention",
    "decode_attention",
    "layer_norm",
    "learned_positions",
    "mla",
    "mla_absorbed",
    "mla_cache",
    "mla_decode",
    "multi_head_attention",
    "residual_block",
    "rms_norm",
    "rope",
    "rope_apply",
    "sinusoidal",
    "softmax",
    "t5_bias",
    "t5_bucket",
    "transformer_layer",
]

# one rounding, where the result leaves
TARGET = Target(name="torch", precision="strict", requires={"torch": "torch"})
