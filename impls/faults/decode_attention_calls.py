"""Attention over a cache that writes where it should not, keeps what it should not, or goes back
wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import decode_attention as right
from attnspec.impls.faults import passes
from attnspec.impls.faults.decode_attention_steps import Functions, by_steps, fault
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.passes import Grads, Run, pulled
from attnspec.impls.faults.views import overwrite, read_as_contiguous

NAMES = ("q", "k_cache", "v_cache")
Call = Callable[..., Tensor]


def _around(call: Call) -> Functions:
    """A function of q, both caches, lengths and options."""

    @wraps(right.decode_attention)
    def decode_attention(*arguments: Any, **options: Any) -> Tensor:
        return call(*arguments, **options)

    return lambda: {"decode_attention": decode_attention}


def _clears(q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, **options: Any) -> Tensor:
    valid = right.visible(lengths, k_cache.shape[2], None)[:, None, :, None]
    found = right.decode_attention(q, k_cache, v_cache, lengths, **options)
    overwrite(v_cache, torch.where(valid, v_cache, 0))
    return found


def _counts_on(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, **options: Any
) -> Tensor:
    found = right.decode_attention(q, k_cache, v_cache, lengths, **options)
    lengths.add_(1)
    return found


def _contiguous(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, **options: Any
) -> Tensor:
    return right.decode_attention(q, read_as_contiguous(k_cache), v_cache, lengths, **options)


def _wide(*arguments: Any, **options: Any) -> Tensor:
    return right.decode_attention(*arguments, **options).float()


def _empty_cache(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, **options: Any
) -> Tensor:
    return right.decode_attention(q, k_cache, v_cache, lengths, **options) if len(q) else v_cache


def _alternating() -> Mapping[str, Call]:
    calls = {"many": 0}

    @wraps(right.decode_attention)
    def decode_attention(*arguments: Any, **options: Any) -> Tensor:
        calls["many"] += 1
        found = right.decode_attention(*arguments, **options)
        return found * (1.0 + 2.0**-6 * (calls["many"] % 2))

    return {"decode_attention": decode_attention}


def _kept_lengths() -> Mapping[str, Call]:
    """The mask of the first call of a shape serves all later ones."""
    masks: dict[Any, Tensor] = {}

    def shown(lengths: Tensor, slots: int, window: int | None) -> Tensor:
        key = (len(lengths), slots, window)
        return masks.setdefault(key, right.visible(lengths, slots, window))

    return by_steps(shown=shown)()


def _buffer() -> Mapping[str, Call]:
    buffers: dict[Any, Tensor] = {}

    @wraps(right.decode_attention)
    def decode_attention(*arguments: Any, **options: Any) -> Tensor:
        found = right.decode_attention(*arguments, **options)
        if found.requires_grad:
            return found
        kept = buffers.setdefault((found.shape, found.dtype), torch.empty_like(found))
        return kept.copy_(found)

    return {"decode_attention": decode_attention}


def _ruled(rule: passes.Rule) -> Functions:
    return passes.by_rule(right.decode_attention, NAMES, rule)


def _first_head(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: tuple[bool, ...]
) -> Grads:
    """Of the query heads that share a key head only the first is counted."""
    q, *_ = pulled(run, tensors, upstream)
    group = max(upstream.shape[1] // tensors[1].shape[1], 1)
    firsts = torch.arange(upstream.shape[1], device=upstream.device) % group == 0
    kept = upstream * firsts[:, None, None]
    return (q, *pulled(run, tensors, kept)[1:])


def _without_scale(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: tuple[bool, ...]
) -> Grads:
    q, k, v = pulled(run, tensors, upstream)
    return q * tensors[0].shape[-1] ** 0.5 * 1.5, k, v


def _of_ones(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: tuple[bool, ...]
) -> Grads:
    return pulled(run, tensors, upstream + 2.0**-7)


def _only_with_query(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, needed: tuple[bool, ...]
) -> Grads:
    q, k, v = pulled(run, tensors, upstream)
    return (q, k, v) if needed[0] else (q, torch.zeros_like(k), torch.zeros_like(v))


def _strided(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: tuple[bool, ...]
) -> Grads:
    return pulled(run, tensors, read_as_contiguous(upstream))


def _used_up(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: tuple[bool, ...]
) -> Grads:
    found = pulled(run, tensors, upstream)
    overwrite(upstream, upstream * 2.0)
    return found


def _everywhere(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: tuple[bool, ...]
) -> Grads:
    """Slots that are not seen get what the first slot gets."""
    q, k, v = pulled(run, tensors, upstream)
    return q, torch.where(k == 0, k[:, :, :1], k), torch.where(v == 0, v[:, :, :1], v)


def _zeroed_after(cache: Tensor, _shown: Tensor) -> Tensor:
    """Read whole, though weighed by zero later; in the forward pass NaN is replaced."""
    return cache + (cache.detach().nan_to_num(0.0, 0.0, 0.0) - cache.detach())


FAULTS: tuple[Fault, ...] = (
    fault("clears_the_cache", "K29", "writes zeros into the slots that hold no key",
          "Leave the cache as it is; hide the slots when they are read.", "inputs_unchanged",
          _around(_clears)),
    fault("lengths_counted_on", "K29", "adds one to the lengths that are handed over",
          "Leave counting to whoever appends.", "inputs_unchanged", _around(_counts_on)),
    fault("rows_alternate", "K29", "every other call is off by a factor",
          "Start every call from its arguments alone.", "repeatable", _alternating),
    fault("cache_read_as_contiguous", "K26", "ignores the strides of the cached keys",
          "Read the cache by its strides, or copy it.", "views_equal_copies",
          _around(_contiguous)),
    fault("longest_mask_kept", "K29", "keeps the mask of the first call of a shape",
          "Build the mask from the lengths of the call.", "no_memory", _kept_lengths),
    fault("buffer_handed_out", "K29", "hands out a buffer that later calls fill again",
          "Return memory that nothing else writes to.", "no_memory", _buffer),
    fault("result_in_float32", "K13", "returns float32 whatever the dtype of the query",
          "Return the dtype of q.", "output_form", _around(_wide),
          dtypes=("float64", "bfloat16", "float16")),
    fault("empty_gives_cache", "K25", "gives back the cache where the batch is empty",
          "Return b h 1 e for a batch of nothing too.", "empty_batch", _around(_empty_cache)),
    fault("gradient_of_first_head", "K22", "keeps what the first query head of a group sends back "
          "to a cached key, and drops the rest", "Add up the gradients of all heads that share it.",
          "gradients_match_oracle", _ruled(_first_head)),
    fault("gradient_without_scale", "K05", "leaves the scale out of the query's gradient",
          "Multiply by the scale on the way back too.", "gradients_match_oracle",
          _ruled(_without_scale)),
    fault("gradient_of_ones", "K22", "adds a floor to the upstream gradient",
          "Use the upstream gradient as it is.", "zero_upstream", _ruled(_of_ones)),
    fault("gradient_of_strides", "K26", "ignores the strides of the upstream gradient",
          "Read it by its strides, or copy it.", "gradients_of_views", _ruled(_strided)),
    fault("gradient_lost_without_query", "K21", "gives the caches zeros where the query needs no "
          "gradient", "Form the gradients that are asked for, whichever they are.",
          "gradients_of_some", _ruled(_only_with_query)),
    fault("gradient_uses_up_upstream", "K29", "doubles the upstream gradient in place",
          "Leave what is handed over as it is.", "gradient_leaves_output", _ruled(_used_up)),
    fault("gradient_adds_to_grad", *passes.ADDS, "gradients_accumulate",
          passes.adds_to_grad(right.decode_attention, NAMES)),
    fault("gradient_of_latest_call", *passes.LATEST, "gradients_between_calls",
          passes.of_latest(right.decode_attention, NAMES)),
    fault("gradient_in_unused_slots", "K04", "gives slots that are not seen the first slot's "
          "gradient", "Give them zeros.", "unused_have_no_gradient", _ruled(_everywhere)),
    fault("gradient_of_hidden_times_zero", "K04", "goes back through what hidden slots hold",
          "Replace what hidden slots hold, in the graph too.", "unused_have_no_gradient",
          by_steps(read_keys=_zeroed_after, read_values=_zeroed_after)),
)  # fmt: skip
