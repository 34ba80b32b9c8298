"""ALiBi's slopes in two forms.

A power of two P of heads has the slopes 2^(-8k/P), k = 1 to P. Other head counts take those of the
greatest power of two below, and for the heads that are left every other slope of twice as many:
Press et al., *Train short, test long* (2022), and its code. Both forms compute in float32, or in
the result's dtype where that is wider, and round once, when they return.
"""

from __future__ import annotations

import torch
from torch import Tensor


def alibi_slopes(
    n_heads: int, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
) -> Tensor:
    """The slope of each head: `n_heads` positive numbers, falling within each of the two runs.

    Raises ValueError for less than one head.
    """
    exponents = slope_exponents(n_heads, device=device)
    return torch.exp2(exponents.to(working_dtype(dtype))).to(dtype or torch.float32)


def alibi_slopes_geometric(
    n_heads: int, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
) -> Tensor:
    """As `alibi_slopes`, but 2^(-8k/h) whatever the number h of heads: each the one before times
    the first."""
    first = torch.tensor(2.0 ** (-8.0 / _at_least_one(n_heads)), dtype=working_dtype(dtype))
    return first.to(device).expand(n_heads).cumprod(0).to(dtype or torch.float32)


def slope_exponents(n_heads: int, *, device: torch.device | str | None = None) -> Tensor:
    """Logarithms to base 2 of the slopes, exact in float64: `n_heads`."""
    power = 1 << (_at_least_one(n_heads).bit_length() - 1)
    head = torch.arange(n_heads, dtype=torch.float64, device=device)
    below = (head + 1.0) * (-8.0 / power)
    between = (2.0 * (head - power) + 1.0) * (-4.0 / power)
    return torch.where(head < power, below, between)


def working_dtype(dtype: torch.dtype | None) -> torch.dtype:
    """In which a result of `dtype` is computed: float32 or wider."""
    return torch.promote_types(dtype or torch.float32, torch.float32)


def _at_least_one(n_heads: int) -> int:
    if n_heads < 1:
        raise ValueError(f"n_heads is {n_heads}; expected 1 or more")
    return n_heads
