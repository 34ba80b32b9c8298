"""RoPE by complex multiplication."""

from __future__ import annotations

from attnspec.impls.rope import rope_complex as rope
from attnspec.target import Target

__all__ = ["TARGET", "rope"]

TARGET = Target(name="torch.complex", precision="strict", requires={"torch": "torch"})
