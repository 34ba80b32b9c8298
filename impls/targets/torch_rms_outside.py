"""RMSNorm with eps added to the root."""

from __future__ import annotations

from attnspec.impls.rms_norm import rms_norm_outside as rms_norm
from attnspec.target import Target

__all__ = ["TARGET", "rms_norm"]

TARGET = Target(
    name="torch.rms_outside",
    conventions={"rms_norm.eps": "outside"},
    precision="strict",
    requires={"torch": "torch"},
)
