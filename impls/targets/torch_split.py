"""Attention over parts of the keys, merged."""

from __future__ import annotations

from attnspec.impls.attention_split import attention_split as attention
from attnspec.target import Target

__all__ = ["TARGET", "attention"]

TARGET = Target(name="torch.split", precision="strict", requires={"torch": "torch"})
