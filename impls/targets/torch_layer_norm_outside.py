"""The reference of LayerNorm with eps beside the root."""

from __future__ import annotations

from attnspec.impls.layer_norm import layer_norm_outside as layer_norm
from attnspec.target import Target

__all__ = ["TARGET", "layer_norm"]

TARGET = Target(
    name="torch.layer_norm_outside",
    conventions={"layer_norm.eps": "outside"},
    precision="strict",
    requires={"torch": "torch"},
)
