"""RMSNorm with a gain of 1 + weight."""

from __future__ import annotations

from attnspec.impls.rms_norm import rms_norm_one_plus as rms_norm
from attnspec.target import Target

__all__ = ["TARGET", "rms_norm"]

TARGET = Target(
    name="torch.rms_one_plus",
    conventions={"rms_norm.gain": "one-plus"},
    precision="strict",
    requires={"torch": "torch"},
)
