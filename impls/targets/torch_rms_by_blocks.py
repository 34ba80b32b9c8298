"""RMSNorm whose squares are added up block by block."""

from __future__ import annotations

from attnspec.impls.rms_norm import rms_norm_by_blocks as rms_norm
from attnspec.target import Target

__all__ = ["TARGET", "rms_norm"]

TARGET = Target(
    name="torch.rms_by_blocks",
    precision="strict",
    requires={"torch": "torch"},
)
