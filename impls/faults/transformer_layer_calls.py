"""A Llama-style layer that changes what it is given, remembers, or returns something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import transformer_layer as right
from attnspec.impls.faults import views
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.transformer_layer_steps import Functions, fault

Layer = Callable[..., Tensor]


def _around(way: Callable[[Tensor, Any, Mapping[str, Any]], Tensor]) -> Functions:
    """The layer called in another way."""

    @wraps(right.transformer_layer)
    def transformer_layer(x: Tensor, weights: Any, **options: Any) -> Tensor:
        return way(x, weights, options)

    return lambda: {"transformer_layer": transformer_layer}


def _in_place(x: Tensor, weights: Any, options: Mapping[str, Any]) -> Tensor:
    """A norm that works in place where a cast gives the same memory back."""
    found = right.transformer_layer(x, weights, **options)
    if not x.requires_grad and x.dtype == torch.float32:
        x.mul_(torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6))
    return found


def _more_keys(x: Tensor, weights: Any, options: Mapping[str, Any]) -> Tensor:
    """A fused weight put into the dict that was handed over."""
    found = right.transformer_layer(x, weights, **options)
    weights["w_gate_up"] = torch.cat((weights["w_gate"], weights["w_up"]), 1)
    return found


def _kept_weights() -> Mapping[str, Layer]:
    fused: dict[Any, Tensor] = {}

    @wraps(right.transformer_layer)
    def transformer_layer(x: Tensor, weights: Any, **options: Any) -> Tensor:
        own = weights["w_up"]
        kept = fused.setdefault((own.shape, own.dtype), own.detach().clone())
        first = own + (kept - own).detach()
        return right.transformer_layer(x, {**weights, "w_up": first.to(own.dtype)}, **options)

    return {"transformer_layer": transformer_layer}


def _kept_base() -> Mapping[str, Layer]:
    bases: dict[int, Any] = {}

    @wraps(right.transformer_layer)
    def transformer_layer(x: Tensor, weights: Any, **options: Any) -> Tensor:
        width = weights["w_q"].shape[1] // options["n_heads"]
        if options.get("rope_base", 10000.0) is not None:
            options["rope_base"] = bases.setdefault(width, options.get("rope_base", 10000.0))
        return right.transformer_layer(x, weights, **options)

    return {"transformer_layer": transformer_layer}


def _buffer() -> Mapping[str, Layer]:
    buffers: dict[Any, Tensor] = {}

    @wraps(right.transformer_layer)
    def transformer_layer(x: Tensor, weights: Any, **options: Any) -> Tensor:
        found = right.transformer_layer(x, weights, **options)
        if found.requires_grad:
            return found
        kept = buffers.setdefault((found.shape, found.dtype), torch.empty_like(found))
        return kept.copy_(found)

    return {"transformer_layer": transformer_layer}


def _running() -> Mapping[str, Layer]:
    calls: dict[str, int] = {"many": 0}

    @wraps(right.transformer_layer)
    def transformer_layer(x: Tensor, weights: Any, **options: Any) -> Tensor:
        found = right.transformer_layer(x, weights, **options)
        calls["many"] += 1
        return found * (1.0 + 2.0**-6 * (calls["many"] % 2))

    return {"transformer_layer": transformer_layer}


def _as_contiguous(x: Tensor, weights: Any, options: Mapping[str, Any]) -> Tensor:
    return right.transformer_layer(views.read_as_contiguous(x), weights, **options)


def _flattened(x: Tensor, weights: Any, options: Mapping[str, Any]) -> Tensor:
    return right.transformer_layer(x, weights, **options) if len(x) else x.new_zeros(0)


def _wide(x: Tensor, weights: Any, options: Mapping[str, Any]) -> Tensor:
    return right.transformer_layer(x, weights, **options).float()


FAULTS: tuple[Fault, ...] = (
    fault("normed_in_place", "K20", "x in float32 is normalised in place",
          "Copy x before a norm that works in place.", "inputs_unchanged", _around(_in_place),
          report="GeeeekExplorer/nano-vllm #170"),
    fault("weights_gain_a_key", "K29", "a fused weight is put into the dict that was handed over",
          "Keep fused weights elsewhere.", "inputs_unchanged", _around(_more_keys)),
    fault("sum_not_cleared", "K29", "every other call is off by a factor",
          "Start every call from its arguments alone.", "repeatable", _running),
    fault("x_as_contiguous", "K26", "the strides of x are ignored",
          "Read x by its strides, or copy it.", "views_equal_copies", _around(_as_contiguous)),
    fault("weights_of_first_call", "K29", "w_up is kept from the first call of its shape",
          "Use the weights of the call.", "no_memory", _kept_weights),
    fault("buffer_handed_out", "K29", "the result lies in a buffer that later calls of its shape "
          "fill again", "Return memory that nothing else writes to.", "no_memory", _buffer),
    fault("base_of_first_call", "K29", "tables of sine and cosine are kept by the width alone",
          "Keep tables by the base too.", "no_memory", _kept_base),
    fault("result_in_float32", "K13", "the result is float32 whatever the dtype of x",
          "Return the dtype of x.", "output_form", _around(_wide),
          dtypes=("float64", "bfloat16", "float16")),
    fault("empty_flattened", "K25", "an empty batch loses its axes",
          "Return b n m for a batch of nothing too.", "empty_batch", _around(_flattened)),
)  # fmt: skip
