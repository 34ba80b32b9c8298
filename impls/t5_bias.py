"""T5's bias on attention scores: a learned number for each head and bucket.

Raffel et al., *Exploring the limits of transfer learning with a unified text-to-text transformer*
(2020), section 2.1. Entries are widened before they are read, so that their gradients are summed in
float32 at least.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnspec.impls.t5_bucket import t5_bucket, t5_bucket_by_logarithm


def t5_bias(
    table: Tensor, t: int, s: int, *, bidirectional: bool = True, max_distance: int = 128
) -> Tensor:
    """`table: num_buckets h` to `h t s`, for t <= s: the last query sits at the last key.

    Raises ValueError for more queries than keys.
    """
    buckets = t5_bucket(
        displacements(table, t, s),
        bidirectional=bidirectional,
        num_buckets=table.shape[0],
        max_distance=max_distance,
    )
    return read(table, buckets)


def t5_bias_by_offset(
    table: Tensor, t: int, s: int, *, bidirectional: bool = True, max_distance: int = 128
) -> Tensor:
    """As `t5_bias`: one row for each of the t + s - 1 offsets, laid along the diagonals."""
    places = displacements(table, t, s)
    offsets = torch.arange(1 - s, t, device=table.device)
    buckets = t5_bucket_by_logarithm(
        offsets,
        bidirectional=bidirectional,
        num_buckets=table.shape[0],
        max_distance=max_distance,
    )
    wide = table.to(torch.promote_types(table.dtype, torch.float32))
    rows = wide.index_select(0, buckets).transpose(0, 1)
    return rows[:, places + s - 1].to(table.dtype)


def displacements(table: Tensor, t: int, s: int) -> Tensor:
    """Positions of keys minus positions of queries, `t s`, on the table's device. Raises
    ValueError for more queries than keys."""
    if not 0 <= t <= s:
        raise ValueError(f"t is {t} and s is {s}; expected t from 0 to s")
    keys = torch.arange(s, device=table.device)
    return keys - keys[s - t :, None]


def read(table: Tensor, buckets: Tensor) -> Tensor:
    """The table's entries of these buckets, `h t s`."""
    wide = table.to(torch.promote_types(table.dtype, torch.float32))
    return wide[buckets].permute(2, 0, 1).to(table.dtype)
