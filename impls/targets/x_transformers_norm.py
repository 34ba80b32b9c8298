"""The RMSNorm of x-transformers: a normalisation to unit length, times the root of the width."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnspec.target import Target

if TYPE_CHECKING:
    from torch import Tensor

SHORT = "F.normalize divides by no less than 1e-12, and a row is shorter"

TARGET = Target(
    name="x-transformers.norm",
    # in float16 a row brought to unit length may have entries below the normal range
    dtypes=("float64", "float32", "bfloat16"),
    conventions={"rms_norm.eps": "none"},
    # the length of a row is rounded to the dtype of x
    precision={"statistics": "storage"},
    requires={"torch": "torch", "x_transformers": "x-transformers"},
)


def rms_norm(x: Tensor, weight: Tensor | None = None) -> Tensor:
    """`RMSNorm`, or `SimpleRMSNorm`, which has no gain."""
    return normalised(x, weight, offset=False)


def normalised(x: Tensor, weight: Tensor | None, *, offset: bool) -> Tensor:
    """The module of either kind of gain, and the one without."""
    from torch.func import functional_call

    if bool((x.double().norm(dim=-1) < 1e-12).any()):
        raise NotImplementedError(SHORT)
    result: Tensor
    if weight is None:
        result = _simple(x.shape[-1])(x)
    else:
        result = functional_call(_module(x.shape[-1], offset), {"g": weight}, (x,))
    return result


@lru_cache(maxsize=64)
def _simple(channels: int) -> Any:
    from x_transformers.x_transformers import SimpleRMSNorm

    return SimpleRMSNorm(channels)


@lru_cache(maxsize=64)
def _module(channels: int, offset: bool) -> Any:
    from x_transformers.x_transformers import RMSNorm

    return RMSNorm(channels, unit_offset=offset)
