"""Multi-head attention that changes what it is given, remembers, or returns something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import multi_head_attention as right
from attnspec.impls.faults import views
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.multi_head_attention_steps import Functions, fault, made_of

Way = Callable[[tuple[Tensor, ...], dict[str, Any]], Tensor]


def _around(way: Way) -> Functions:
    """Multi-head attention called in another way."""
    function = made_of(way)
    return lambda: {"multi_head_attention": function}


def _in_place(tensors: tuple[Tensor, ...], options: dict[str, Any]) -> Tensor:
    """Queries are scaled in the memory of w_q, where a cast gives it back."""
    found = right.multi_head_attention(*tensors, **options)
    if not tensors[1].requires_grad and tensors[1].dtype == torch.float32:
        tensors[1].mul_(0.5)
    return found


def _kept_weights() -> Mapping[str, Callable[..., Tensor]]:
    fused: dict[Any, Tensor] = {}

    def way(tensors: tuple[Tensor, ...], options: dict[str, Any]) -> Tensor:
        x, w_q, w_k, own, w_o = tensors
        kept = fused.setdefault((own.shape, own.dtype), own.detach().clone())
        first = (own + (kept - own).detach()).to(own.dtype)
        return right.multi_head_attention(x, w_q, w_k, first, w_o, **options)

    return {"multi_head_attention": made_of(way)}


def _buffer() -> Mapping[str, Callable[..., Tensor]]:
    buffers: dict[Any, Tensor] = {}

    def way(tensors: tuple[Tensor, ...], options: dict[str, Any]) -> Tensor:
        found = right.multi_head_attention(*tensors, **options)
        if found.requires_grad:
            return found
        kept = buffers.setdefault((found.shape, found.dtype), torch.empty_like(found))
        return kept.copy_(found)

    return {"multi_head_attention": made_of(way)}


def _running() -> Mapping[str, Callable[..., Tensor]]:
    calls: dict[str, int] = {"many": 0}

    def way(tensors: tuple[Tensor, ...], options: dict[str, Any]) -> Tensor:
        calls["many"] += 1
        found = right.multi_head_attention(*tensors, **options)
        return found * (1.0 + 2.0**-6 * (calls["many"] % 2))

    return {"multi_head_attention": made_of(way)}


def _as_contiguous(tensors: tuple[Tensor, ...], options: dict[str, Any]) -> Tensor:
    changed = (views.read_as_contiguous(tensors[0]), *tensors[1:])
    return right.multi_head_attention(*changed, **options)


def _weight_as_contiguous(tensors: tuple[Tensor, ...], options: dict[str, Any]) -> Tensor:
    changed = (*tensors[:4], views.read_as_contiguous(tensors[4]))
    return right.multi_head_attention(*changed, **options)


def _flattened(tensors: tuple[Tensor, ...], options: dict[str, Any]) -> Tensor:
    x = tensors[0]
    return right.multi_head_attention(*tensors, **options) if len(x) else x.new_zeros(0)


def _wide(tensors: tuple[Tensor, ...], options: dict[str, Any]) -> Tensor:
    return right.multi_head_attention(*tensors, **options).float()


FAULTS: tuple[Fault, ...] = (
    fault("scaled_in_place", "K29", "w_q in float32 is scaled in its own memory",
          "Scale a copy.", "inputs_unchanged", _around(_in_place)),
    fault("sum_not_cleared", "K29", "every other call is off by a factor",
          "Start every call from its arguments alone.", "repeatable", _running),
    fault("x_as_contiguous", "K26", "the strides of x are ignored",
          "Read x by its strides, or copy it.", "views_equal_copies", _around(_as_contiguous)),
    fault("weight_as_contiguous", "K26", "the strides of w_o are ignored",
          "Read w_o by its strides, or copy it.", "views_equal_copies",
          _around(_weight_as_contiguous)),
    fault("weights_of_first_call", "K29", "w_v is kept from the first call of its shape",
          "Use the weights of the call.", "no_memory", _kept_weights),
    fault("buffer_handed_out", "K29", "the result lies in a buffer that later calls of its shape "
          "fill again", "Return memory that nothing else writes to.", "no_memory", _buffer),
    fault("result_in_float32", "K13", "the result is float32 whatever the dtype of x",
          "Return the dtype of x.", "output_form", _around(_wide),
          dtypes=("float64", "bfloat16", "float16")),
    fault("empty_flattened", "K25", "an empty batch loses its axes",
          "Return b n m for a batch of nothing too.", "empty_batch", _around(_flattened)),
)  # fmt: skip
