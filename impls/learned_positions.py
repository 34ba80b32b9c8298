"""Learned positions: the rows of a table that positions name.

Source: Gehring et al., *Convolutional Sequence to Sequence Learning* (2017), section 3.1. Values
are copied. The gradient of the table is a sum over the tokens that read a row; it's formed in
float32, or in the table's dtype where that is wider, and rounded once.
"""

from __future__ import annotations

import torch
from torch import Tensor


def learned_positions(positions: Tensor, table: Tensor) -> Tensor:
    """`positions: n`, `table: L m` to `n m`.

    Raises IndexError for a position outside 0 to L-1, negative ones included (on the CPU; on
    another device it fails as an index out of range does there), and ValueError for arguments of
    another shape.
    """
    _check(positions, table)
    return _widened(table).index_select(0, positions).to(table.dtype)


def learned_positions_one_hot(positions: Tensor, table: Tensor) -> Tensor:
    """As `learned_positions`, each token's row picked out of all by a comparison."""
    _check(positions, table)
    rows = torch.arange(table.shape[0], device=table.device)
    if positions.device.type == "cpu" and not torch.isin(positions, rows).all():
        raise IndexError(f"a position is outside 0 to {table.shape[0] - 1}")
    named = (positions.unsqueeze(-1) == rows).unsqueeze(-1)
    return torch.where(named, _widened(table), 0.0).sum(-2).to(table.dtype)


def _widened(table: Tensor) -> Tensor:
    """In the dtype in which gradients are added up."""
    return table.to(torch.promote_types(table.dtype, torch.float32))


def _check(positions: Tensor, table: Tensor) -> None:
    if positions.ndim != 1:
        raise ValueError(f"positions have shape {tuple(positions.shape)}; expected one axis n")
    if table.ndim != 2:
        raise ValueError(f"table has shape {tuple(table.shape)}; expected two axes L m")
