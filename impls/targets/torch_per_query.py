"""Attention that hides what is hidden from NaN and infinity too."""

from __future__ import annotations

from attnspec.impls.attention_conventions import attention_per_query as attention
from attnspec.target import Target

__all__ = ["TARGET", "attention"]

TARGET = Target(
    name="torch.per_query",
    conventions={"attention.masked_nan": "ignored", "attention.visible_nan": "propagates"},
    precision="strict",
    # t x s x d numbers for every head
    limits={"t": (0, 64), "s": (1, 64), "d": (1, 128), "e": (1, 128)},
    requires={"torch": "torch"},
)
