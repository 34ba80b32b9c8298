"""RoPE in the half-split layout."""

from __future__ import annotations

from attnspec.impls.rope import rope_apply_half as rope_apply
from attnspec.impls.rope import rope_half as rope
from attnspec.target import Target

__all__ = ["TARGET", "rope", "rope_apply"]

TARGET = Target(
    name="torch.half",
    conventions={"rope.layout": "half"},
    precision="strict",
    requires={"torch": "torch"},
)
