"""Attention whose backward pass is wrong about memory, or about the upstream gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import attention as right
from attnspec.impls.faults.attention_backward import (
    Gradients,
    Known,
    Steps,
    by_backward,
    of_keys,
    of_values,
    row_term,
    with_steps,
)
from attnspec.impls.faults.attention_memory import by_reading
from attnspec.impls.faults.attention_steps import Call, by_call, hidden, scores
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.softmax import LOG2_E
from attnspec.impls.faults.views import overwrite, read_as_contiguous


class _Overwrites(torch.autograd.Function):
    """The identity, whose backward pass leaves something else in the tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.place = x
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        with torch.no_grad():
            overwrite(ctx.place, 2.0 * ctx.place)
        return upstream[0]


def _scaled_with_queries(known: Known, dc: Tensor) -> Tensor:
    found = of_keys(known, dc)
    return found if known.needed[0] else found / known.given.factor


def _converts_lse(known: Known) -> Tensor:
    # the log-sum-exp is the saved one, and stays in base two
    lse = known.lse.mul_(LOG2_E)
    logits = hidden(scores(known.given), known.seen) * LOG2_E
    return (logits - lse.masked_fill(lse == -torch.inf, 0.0).unsqueeze(-1)).exp2()


def _row_term_of_latest_call() -> Mapping[str, Callable[..., Any]]:
    latest: list[Tensor] = []

    def saved(known: Known, p: Tensor, dp: Tensor) -> Tensor:
        output = latest[-1]
        if output.shape != known.upstream.shape:
            return row_term(known, p, dp)
        return (known.upstream * output).sum(-1, keepdim=True)

    def made(arguments: dict[str, Any]) -> Any:
        result = with_steps(arguments, Steps(row_term=saved))
        latest[:] = [(result[0] if arguments["return_lse"] else result).detach()]
        return result

    return by_call(made)()


class _Contiguous(torch.autograd.Function):
    """The identity, whose gradient has the strides of a fresh tensor read in the order of the
    input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.order = sorted(range(x.ndim), key=lambda axis: -x.stride()[axis])
        ctx.plain = all(step or size <= 1 for size, step in zip(x.shape, x.stride(), strict=True))
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        gradient = upstream[0]
        if not ctx.plain:
            return gradient
        stored = gradient.permute(ctx.order).contiguous()
        return stored.reshape(gradient.shape)


def _as_contiguous(upstream: Tensor, given: Call) -> Tensor:
    return read_as_contiguous(upstream).to(given.q.dtype)


def _ones(upstream: Tensor, given: Call) -> Tensor:
    return torch.ones_like(upstream, dtype=given.q.dtype)


def _sum_shortcut(upstream: Tensor, given: Call) -> Tensor:
    expanded = upstream.shape[0] > 1 and upstream.stride()[0] == 0
    return _ones(upstream, given) if expanded else upstream.to(given.q.dtype)


def _first_row_when_expanded(upstream: Tensor, given: Call) -> Tensor:
    wide = upstream.to(given.q.dtype)
    shared = [
        axis
        for axis, (size, step) in enumerate(zip(upstream.shape, upstream.stride(), strict=True))
        if step == 0 and size > 1
    ]
    for axis in shared:
        first = torch.arange(upstream.shape[axis], device=upstream.device) == 0
        wide = wide * first.reshape([-1 if i == axis else 1 for i in range(upstream.ndim)])
    return wide


def _overwrites_upstream(upstream: Tensor, given: Call) -> Tensor:
    wide = upstream.to(given.q.dtype).clone()
    overwrite(upstream, upstream.detach() * given.factor)
    return wide


def _clipped(known: Known, gradients: Gradients) -> Gradients:
    q, k, v, bias = (None if x is None else x.clamp(-1.0, 1.0) for x in gradients)
    return q, k, v, bias


def _overwritten(x: Tensor) -> Tensor:
    found: Tensor = _Overwrites.apply(x)  # type: ignore[no-untyped-call]
    return found


def _queries_overwritten(arguments: dict[str, Any]) -> Any:
    return right.attention(**{**arguments, "q": _overwritten(arguments["q"])})


def _accumulated_over_calls() -> Mapping[str, Callable[..., Any]]:
    totals: dict[tuple[torch.Size, torch.device], Tensor] = {}

    def of_values_so_far(known: Known, p: Tensor) -> Tensor:
        found = of_values(known, p)
        place = (found.shape, found.device)
        total = found + totals.get(place, torch.zeros_like(found)).to(found.dtype)
        totals[place] = total
        return total

    return by_backward(of_values=of_values_so_far)()


FAULTS = (
    Fault(
        id="attention.gradient_accumulates",
        component="attention",
        kind="K29",
        reason="adds the gradient of the values to what the backward pass before left in the "
        "buffer",
        remedy="Clear the buffer at the start of every backward pass.",
        law="attention.gradients_match_oracle",
        functions=_accumulated_over_calls,
    ),
    Fault(
        id="attention.gradient_upstream_as_contiguous",
        component="attention",
        kind="K26",
        reason="takes the strides of a fresh tensor for granted in the upstream gradient, which is "
        "often a transposed view",
        remedy="Use the strides of the upstream gradient, or copy it.",
        law="attention.gradients_of_views",
        functions=by_backward(upstream=_as_contiguous),
    ),
    Fault(
        id="attention.gradient_of_sum_assumed",
        component="attention",
        kind="K26",
        reason="takes an upstream gradient that is expanded over the batch for one of ones, as "
        "that of a plain sum is",
        remedy="Read the number that is expanded.",
        law="attention.gradients_of_views",
        functions=by_backward(upstream=_sum_shortcut),
    ),
    Fault(
        id="attention.gradient_first_of_expanded",
        component="attention",
        kind="K26",
        reason="reads the first row of an expanded upstream gradient, and zeros for the others",
        remedy="Read an expanded tensor with its strides of 0.",
        law="attention.gradients_of_views",
        functions=by_backward(upstream=_first_row_when_expanded),
    ),
    Fault(
        id="attention.gradient_in_order_of_memory",
        component="attention",
        kind="K26",
        reason="writes the gradients of inputs that are transposed views in the order of their "
        "memory, but with the shape of the view",
        remedy="Write gradients with the strides of what they belong to.",
        law="attention.gradients_of_views",
        functions=by_reading("q k v", _Contiguous.apply),
    ),
    Fault(
        id="attention.gradient_upstream_ignored",
        component="attention",
        kind="K22",
        reason="takes the upstream gradient for ones, whatever comes in",
        remedy="Multiply by the upstream gradient.",
        law="attention.zero_upstream",
        functions=by_backward(upstream=_ones),
    ),
    Fault(
        id="attention.gradient_overwrites_upstream",
        component="attention",
        kind="K20",
        reason="scales the upstream gradient in place, which others may still need",
        remedy="Scale into a new tensor.",
        law="attention.gradient_leaves_output",
        functions=by_backward(upstream=_overwrites_upstream),
    ),
    Fault(
        id="attention.gradient_overwrites_queries",
        component="attention",
        kind="K20",
        reason="uses the caller's queries as a buffer in the backward pass",
        remedy="Write to a tensor of your own.",
        law="attention.gradient_leaves_output",
        functions=by_call(_queries_overwritten),
    ),
    Fault(
        id="attention.gradient_scaled_with_queries",
        component="attention",
        kind="K21",
        reason="scales dS on the way to the queries, and skips that with the rest where only keys "
        "need a gradient",
        remedy="Scale dS before it's shared, whatever needs a gradient.",
        law="attention.gradients_of_some",
        functions=by_backward(of_keys=_scaled_with_queries),
    ),
    Fault(
        id="attention.gradient_converts_saved_lse",
        component="attention",
        kind="K29",
        reason="converts the saved log-sum-exp to base two in place, so that a second backward "
        "pass of the same call converts it again",
        remedy="Convert a copy.",
        law="attention.gradients_between_calls",
        functions=by_backward(weights=_converts_lse),
    ),
    Fault(
        id="attention.gradient_row_term_of_latest_call",
        component="attention",
        kind="K29",
        reason="keeps the output for the row's sum on the module, where a later call replaces it "
        "before the backward pass",
        remedy="Save what the backward pass needs with the call itself.",
        law="attention.gradients_between_calls",
        functions=_row_term_of_latest_call,
    ),
    Fault(
        id="attention.gradient_clipped",
        component="attention",
        kind="K22",
        reason="clips gradients to -1..1 inside of the backward pass; that's the optimiser's to do",
        remedy="Return gradients as they are.",
        law="attention.gradients_match_oracle",
        functions=by_backward(finished=_clipped),
    ),
)
