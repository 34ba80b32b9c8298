"""Masks and biases of the contract as one tensor, for functions that take a single one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def lower_right(q: Tensor, k: Tensor) -> Tensor:
    """What causality leaves visible, the last query at the last key: bool, `t s`."""
    t, s = q.shape[-2], k.shape[-2]
    return torch.ones(t, s, dtype=torch.bool, device=q.device).tril(s - t)


def both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Visible by two masks, each of which may be absent."""
    if one is None or other is None:
        return one if other is None else other
    return one & other


def one_tensor(
    mask: Tensor | None, bias: Tensor | None, hidden: float = -torch.inf
) -> Tensor | None:
    """A mask as it is, a bias as it is, and of the two together a bias."""
    if mask is None or bias is None:
        return mask if bias is None else bias
    return torch.where(mask, bias, hidden)


def with_axes(x: Tensor, axes: int) -> Tensor:
    """With axes of size 1 in front, where it has fewer."""
    return x[(None,) * (axes - x.ndim)]
