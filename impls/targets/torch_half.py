"""RoPE in the half-split layout, and sinusoidal positions with all sines first."""

from __future__ import annotations

from attnspec.impls.rope import rope_apply_half as rope_apply
from attnspec.impls.rope import rope_half as rope
from attnspec.impls.sinusoidal import sinusoidal_concatenated as sinusoidal
from attnspec.target import Target

__all__ = ["TARGET", "rope", "rope_apply", "sinusoidal"]

TARGET = Target(
    name="torch.half",
    conventions={"rope.layout": "half", "sinusoidal.layout": "concatenated"},
    precision="strict",
    requires={"torch": "torch"},
)
