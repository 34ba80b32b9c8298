"""RoPE by the rotation matrix of every position."""

from __future__ import annotations

from attnspec.impls.rope import rope_matrix as rope
from attnspec.target import Target

__all__ = ["TARGET", "rope"]

TARGET = Target(
    name="torch.matrix",
    precision="strict",
    # d x d numbers for every token
    limits={"d": (2, 256), "n": (1, 1024)},
    requires={"torch": "torch"},
)
