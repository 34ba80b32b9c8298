"""Attention tile by tile, with gradients by recomputation."""

from __future__ import annotations

from attnspec.impls.attention_tiled import attention_tiled as attention
from attnspec.target import Target

__all__ = ["TARGET", "attention"]

TARGET = Target(name="torch.tiled", precision="strict", requires={"torch": "torch"})
