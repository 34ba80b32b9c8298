"""Residual blocks in plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Layer = Callable[[Tensor], Tensor]
"""From rows to rows of the same shape, dtype and device."""


def residual_block(x: Tensor, sublayer: Layer, norm: Layer, *, placement: str) -> Tensor:
    """x + sublayer(norm(x)) for the placement `pre`, norm(x + sublayer(x)) for `post`; `x: ... m`.

    Nothing is written in place: a layer may return what it was given. Raises ValueError for
    another placement.
    """
    if placement == "pre":
        return x + sublayer(norm(x))
    if placement == "post":
        return norm(x + sublayer(x))
    raise ValueError(f"unknown placement {placement!r}; allowed: pre, post")
