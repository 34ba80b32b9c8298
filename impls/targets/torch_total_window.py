"""Attention whose windows count keys backwards from the query's own."""

from __future__ import annotations

from attnspec.impls.attention_conventions import attention_total_window as attention
from attnspec.target import Target

__all__ = ["TARGET", "attention"]

TARGET = Target(
    name="torch.total_window",
    conventions={"attention.window": "total"},
    precision="strict",
    requires={"torch": "torch"},
)
