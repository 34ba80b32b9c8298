"""The reference of LayerNorm whose statistics are updated channel by channel."""

from __future__ import annotations

from attnspec.impls.layer_norm import layer_norm_updated as layer_norm
from attnspec.target import Target

__all__ = ["TARGET", "layer_norm"]

TARGET = Target(
    name="torch.layer_norm_updated",
    precision="strict",
    # a step for each channel
    limits={"m": (1, 65)},
    requires={"torch": "torch"},
)
