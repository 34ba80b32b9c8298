"""Attention whose queries sit at the places of the first keys."""

from __future__ import annotations

from attnspec.impls.attention_conventions import attention_top_left as attention
from attnspec.target import Target

__all__ = ["TARGET", "attention"]

TARGET = Target(
    name="torch.top_left",
    conventions={"attention.causal_alignment": "top-left"},
    precision="strict",
    requires={"torch": "torch"},
)
