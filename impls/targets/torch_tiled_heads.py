"""Attention whose query heads take turns on the key heads."""

from __future__ import annotations

from attnspec.impls.attention_conventions import attention_tiled_heads as attention
from attnspec.target import Target

__all__ = ["TARGET", "attention"]

TARGET = Target(
    name="torch.tiled_heads",
    conventions={"gqa.head_order": "tiled"},
    precision="strict",
    requires={"torch": "torch"},
)
