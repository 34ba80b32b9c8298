"""Softmax in one pass over blocks."""

from __future__ import annotations

from attnspec.impls.softmax import softmax_online as softmax
from attnspec.target import Target

__all__ = ["TARGET", "softmax"]

TARGET = Target(name="torch.online", precision="strict", requires={"torch": "torch"})
