"""The RMSNorm of x-transformers whose gain is 1 + weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnspec.impls.targets.x_transformers_norm import normalised
from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

TARGET = Target(
    name="x-transformers.norm_offset",
    # in float16 a row brought to unit length may have entries below the normal range
    dtypes=("float64", "float32", "bfloat16"),
    conventions={"rms_norm.eps": "none", "rms_norm.gain": "one-plus"},
    # the length of a row is rounded to the dtype of x
    precision={"statistics": "storage"},
    requires={"torch": "torch", "x_transformers": "x-transformers"},
)


def rms_norm(x: Tensor, weight: Tensor | None = None) -> Tensor:
    """`RMSNorm` with a unit offset."""
    return normalised(x, weight, offset=True)
