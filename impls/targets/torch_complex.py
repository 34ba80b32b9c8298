"""RoPE by complex multiplication, and sinusoidal positions from complex numbers."""

from __future__ import annotations

from attnspec.impls.rope import rope_complex as rope
from attnspec.impls.sinusoidal import sinusoidal_complex as sinusoidal
from attnspec.target import Target

__all__ = ["TARGET", "rope", "sinusoidal"]

TARGET = Target(name="torch.complex", precision="strict", requires={"torch": "torch"})
