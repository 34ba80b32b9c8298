"""Softmax, plain and in one pass over blocks.

Both subtract the row maximum, so that no logit can overflow the exponential: Milakov and
Gimelshein, *Online normalizer calculation for softmax* (2018), algorithms 2 and 3.
"""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 16
"""Length of the blocks of `softmax_online`. A rescaling costs up to six roundings, a block's sum
one for each of its entries, so that the order of the sum still dominates."""


def softmax(x: Tensor, *, dim: int = -1) -> Tensor:
    """Weights along `dim`: any shape to the same shape, in the dtype of `x`.

    Differences, exponentials and the sum are formed in float32, or in the dtype of `x` where
    that is wider, and rounded once. An entry of -inf gets exactly 0; a row of nothing but -inf
    gives NaN.
    """
    if x.numel() == 0:
        return x.clone()
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    # the value does not depend on the shift, so neither does the gradient
    numerators = (wide - wide.detach().amax(dim, keepdim=True)).exp()
    return (numerators / numerators.sum(dim, keepdim=True)).to(x.dtype)


def softmax_online(x: Tensor, *, dim: int = -1) -> Tensor:
    """As `softmax`, with maximum and normaliser found together in one pass over blocks.

    What has been summed so far is rescaled whenever a later block raises the maximum.
    """
    if x.numel() == 0:
        return x.clone()
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    maximum = torch.full_like(wide.detach().narrow(dim, 0, 1), -torch.inf)
    normaliser = torch.zeros_like(maximum)
    shift = maximum
    for block in torch.split(wide, BLOCK, dim):
        raised = torch.maximum(maximum, block.detach().amax(dim, keepdim=True))
        # -inf - (-inf) is NaN: as long as nothing finite has come, nothing is shifted
        shift = raised.masked_fill(raised == -torch.inf, 0.0)
        sum_of_block = (block - shift).exp().sum(dim, keepdim=True)
        normaliser = normaliser * (maximum - shift).exp() + sum_of_block
        maximum = raised
    return ((wide - shift).exp() / normaliser).to(x.dtype)
