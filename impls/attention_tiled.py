"""Attention tile by tile, with a running softmax, and its gradients by recomputation.

Dao et al., *FlashAttention* (2022), algorithms 1 and 4, and *FlashAttention-2* (2023), algorithms
1 and 2: a pass over the keys keeps maximum, normaliser and weighted sum of every row; what it
saves for the backward pass is the output and the log-sum-exp, from which the weights come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnspec.impls.attention import (
    Grouped,
    Result,
    finished_scores,
    grouped,
    masked_scores,
    returned,
    widened,
)

QUERY_TILE = 16
KEY_TILE = 16
"""Rows and columns of a tile: few, so that short sequences have several."""


Forward = Callable[[Grouped], tuple[Tensor, Tensor]]
"""From a call to output, rounded to storage, and log-sum-exp."""


@dataclass(frozen=True)
class Tile:
    """The part of a call that one step sees, and where it lies."""

    call: Grouped
    rows: slice
    columns: slice


def attention_tiled(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    return_lse: bool = False,
) -> Result:
    """As `attention`, without ever holding the matrix of weights."""
    call = grouped(
        q, k, v, mask=mask, bias=bias, causal=causal, window=window, softcap=softcap, scale=scale
    )
    output, lse = recomputed(call, forward_pass)
    return returned(call, output, lse, return_lse=return_lse)


def recomputed(call: Grouped, forward: Forward) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp of a forward pass, with a backward pass that computes the weights
    again from the log-sum-exp."""
    tensors = call.q, call.k, call.v, call.bias
    return cast(tuple[Tensor, Tensor], _Recomputed.apply(*tensors, call, forward))  # type: ignore[no-untyped-call]


class _Recomputed(torch.autograd.Function):
    """Grouped `q`, `k`, `v`, `bias` to output, in storage, and log-sum-exp."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        call: Grouped,
        forward: Forward,
    ) -> tuple[Tensor, Tensor]:
        output, lse = forward(call)
        ctx.save_for_backward(q, k, v, bias, call.visible, output, lse)
        ctx.settings = (call.scale, call.softcap, call.rules)
        return output, lse

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_output: Tensor, grad_lse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, None, None]:
        q, k, v, bias, visible, output, lse = ctx.saved_tensors
        call = Grouped(q, k, v, visible, bias, *ctx.settings)
        return *backward_pass(call, output, lse, grad_output, grad_lse), None, None


def forward_pass(call: Grouped) -> tuple[Tensor, Tensor]:
    """Output `b g r t e`, rounded to storage, and log-sum-exp `b g r t`."""
    outputs = call.q.new_empty((*call.q.shape[:-1], call.v.shape[-1]))
    lses = widened(call.q.new_empty(call.q.shape[:-1]))
    for rows in _slices(call.q.shape[-2], QUERY_TILE):
        summed = widened(torch.zeros_like(outputs[..., rows, :]))
        normaliser = summed.new_zeros((*summed.shape[:-1], 1))
        maximum = torch.full_like(normaliser, -torch.inf)
        shift = torch.zeros_like(normaliser)
        for tile in _tiles_of(call, rows):
            scores = masked_scores(tile.call)
            maximum, previous = torch.maximum(maximum, scores.amax(-1, keepdim=True)), maximum
            # -inf - (-inf) is NaN: as long as no key was visible, nothing is shifted
            shift = maximum.masked_fill(maximum == -torch.inf, 0.0)
            kept, numerators = (previous - shift).exp(), (scores - shift).exp()
            normaliser = normaliser * kept + numerators.sum(-1, keepdim=True)
            summed = summed * kept + numerators @ widened(tile.call.v)
        empty = normaliser == 0.0
        normaliser = normaliser.masked_fill(empty, 1.0)
        outputs[..., rows, :] = summed / normaliser
        lses[..., rows] = (shift + normaliser.log()).masked_fill(empty, -torch.inf).squeeze(-1)
    return outputs, lses


def backward_pass(
    call: Grouped, output: Tensor, lse: Tensor, grad_output: Tensor, grad_lse: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of q, k, v and bias, each a running sum that is rounded to storage at the end."""
    dq, dk, dv = (torch.zeros_like(widened(x)) for x in (call.q, call.k, call.v))
    dbias = None if call.bias is None else torch.zeros_like(widened(call.bias))
    grad = widened(grad_output)
    # what the normaliser takes from every weight of a row; the log-sum-exp's gradient gives it
    delta = (grad * widened(output)).sum(-1) - grad_lse
    shift = lse.masked_fill(lse == -torch.inf, 0.0)
    for rows in _slices(call.q.shape[-2], QUERY_TILE):
        for tile in _tiles_of(call, rows):
            part, columns = tile.call, tile.columns
            products = widened(part.q) @ widened(part.k).mT
            weights = (finished_scores(part, products) - shift[..., rows, None]).exp()
            of_weights = grad[..., rows, :] @ widened(part.v).mT
            # a value that is hidden may be too large for this product
            of_weights = of_weights.masked_fill(~part.visible, 0.0)
            of_scores = weights * (of_weights - delta[..., rows, None])
            if dbias is not None and part.bias is not None:
                _tile_of(dbias, rows, columns).add_(of_scores.sum_to_size(part.bias.shape))
            of_products = of_scores * slope(part, products)
            dq[..., rows, :] += of_products @ widened(part.k)
            dk[..., columns, :] += (of_products.mT @ widened(part.q)).sum(2, keepdim=True)
            dv[..., columns, :] += (weights.mT @ grad[..., rows, :]).sum(2, keepdim=True)
    dtypes = call.q.dtype, call.k.dtype, call.v.dtype
    dq, dk, dv = (x.to(dtype) for x, dtype in zip((dq, dk, dv), dtypes, strict=True))
    return dq, dk, dv, None if dbias is None or call.bias is None else dbias.to(call.bias.dtype)


def slope(call: Grouped, products: Tensor) -> Tensor | float:
    """Derivative of the scores by `q k`."""
    if call.softcap is None:
        return call.scale
    capped = torch.tanh(products.masked_fill(~call.visible, 0.0) * call.scale / call.softcap)
    return call.scale * (1.0 - capped.square())


def _slices(length: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, length, size))


def _tiles_of(call: Grouped, rows: slice) -> Iterator[Tile]:
    """The tiles of some rows, from the first key to the last."""
    for columns in _slices(call.k.shape[-2], KEY_TILE):
        part = replace(
            call,
            q=call.q[..., rows, :],
            k=call.k[..., columns, :],
            v=call.v[..., columns, :],
            visible=call.visible[..., rows, columns],
            bias=None if call.bias is None else _tile_of(call.bias, rows, columns),
        )
        yield Tile(part, rows, columns)


def _tile_of(x: Tensor, rows: slice, columns: slice) -> Tensor:
    """A view of what belongs to a tile, of a tensor that broadcasts to `... t s`."""
    every = slice(None)
    return x[..., every if x.shape[-2] == 1 else rows, every if x.shape[-1] == 1 else columns]
