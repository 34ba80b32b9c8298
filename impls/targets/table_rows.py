"""Rows of a table that a library fills from position 0 on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

MOST = 2**22
"""Numbers of the largest table that is filled for a call."""


def rows_of(positions: Tensor, dim: int, table: Callable[[int], Tensor]) -> Tensor:
    """The rows at some positions, of the table with as many rows as asked for: `n dim`."""
    rows = 1 + int(positions.max()) if len(positions) else 1
    if rows * dim > MOST:
        raise NotImplementedError(f"more than {MOST} numbers to fill a table up to a position")
    return table(rows)[positions]
