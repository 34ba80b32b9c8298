"""RMSNorm without eps."""

from __future__ import annotations

from attnspec.impls.rms_norm import rms_norm_without_eps as rms_norm
from attnspec.target import Target

__all__ = ["TARGET", "rms_norm"]

TARGET = Target(
    name="torch.rms_without_eps",
    conventions={"rms_norm.eps": "none"},
    precision="strict",
    requires={"torch": "torch"},
)
