"""What wrong implementations do with memory that isn't theirs, kept inside of the storage."""

from __future__ import annotations

import torch
from torch import Tensor


def read_as_contiguous(x: Tensor) -> Tensor:
    """The numbers that code without strides would read from where `x` begins. Where that
    passes the end of the storage, as for expanded tensors, `x` itself."""
    last = x.storage_offset() + x.numel()
    if last * x.element_size() > x.untyped_storage().nbytes():
        return x
    strides = torch.empty(x.shape, device="meta").stride()
    return x.as_strided(x.shape, strides, x.storage_offset())


def overwrite(x: Tensor, values: Tensor) -> None:
    """Write into the caller's tensor, unless several of its entries share one place."""
    if all(step or size <= 1 for size, step in zip(x.shape, x.stride(), strict=True)):
        x.detach().copy_(values)


def used_up(x: Tensor) -> Tensor:
    """A copy of `x`, which is then overwritten as a buffer is."""
    copy = x.clone()
    overwrite(x, x.detach() * 2.0)
    return copy
