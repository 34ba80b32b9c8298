"""ALiBi's bias in two forms.

Query i sits at position i + s - t, and a key at distance u from it gets minus the slope of the head
times u: Press et al., *Train short, test long* (2022), 3. Both forms compute in float32, or in the
result's dtype where that is wider, and round once, when they return.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnspec.impls.alibi_slopes import (
    alibi_slopes,
    alibi_slopes_geometric,
    working_dtype,
)


def alibi_bias(
    n_heads: int,
    t: int,
    s: int,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """What is added to the scores of `t` queries and `s` keys: `h t s`, 0 at a query's own key and
    less with every step away from it, to both sides.

    Raises ValueError for more queries than keys, and for less than one head.
    """
    slopes = alibi_slopes(n_heads, dtype=working_dtype(dtype), device=device)
    steps = offsets(t, s, device=device).abs().to(slopes.dtype)
    return (-slopes[:, None, None] * steps).to(dtype or torch.float32)


def alibi_bias_by_key(
    n_heads: int,
    t: int,
    s: int,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """As `alibi_bias` up to a constant a row, for keys up to the query, with geometric slopes for
    every head count: the slope times how far a key is before the last one, for all queries alike.
    """
    slopes = alibi_slopes_geometric(n_heads, dtype=working_dtype(dtype), device=device)
    before_last = offsets(t, s, device=device)[-1:].to(slopes.dtype)
    return (slopes[:, None, None] * before_last).to(dtype or torch.float32).expand(-1, t, -1)


def offsets(t: int, s: int, *, device: torch.device | str | None = None) -> Tensor:
    """Position of each key less that of each query, in whole numbers: `t s`. Raises ValueError for
    more queries than keys."""
    if t > s:
        raise ValueError(f"{t} queries are more than {s} keys")
    keys = torch.arange(s, device=device)
    return keys - keys[s - t :, None]
