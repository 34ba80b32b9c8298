"""RMSNorm with eps in the place of smaller mean squares."""

from __future__ import annotations

from attnspec.impls.rms_norm import rms_norm_clamped as rms_norm
from attnspec.target import Target

__all__ = ["TARGET", "rms_norm"]

TARGET = Target(
    name="torch.rms_clamped",
    conventions={"rms_norm.eps": "clamped"},
    precision="strict",
    requires={"torch": "torch"},
)
