"""Attention in which a row that sees nothing is NaN."""

from __future__ import annotations

from attnspec.impls.attention_conventions import attention_nan_rows as attention
from attnspec.target import Target

__all__ = ["TARGET", "attention"]

TARGET = Target(
    name="torch.nan_rows",
    conventions={"attention.empty_row": "nan"},
    precision="strict",
    requires={"torch": "torch"},
)
