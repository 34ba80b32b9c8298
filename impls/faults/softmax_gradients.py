"""Softmax whose backward pass is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import softmax as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.softmax import Functions
from attnspec.impls.faults.views import overwrite, read_as_contiguous, used_up

Rule = Callable[[Tensor, Tensor, Tensor], Tensor | None]
"""The gradient of the logits from the weights, the upstream gradient and the logits, rows along
the last axis, all in the dtype of the computation."""

BLOCK = 4


class _Softmax(torch.autograd.Function):
    """The right weights, and the gradient of some rule."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, rule: Rule, read: Callable[[Tensor], Tensor]) -> Any:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        weights = right.softmax(wide, dim=dim)
        ctx.save_for_backward(wide, weights)
        ctx.rest = (dim, rule, read, x.dtype)
        return weights.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, None, None, None]:
        wide, weights = ctx.saved_tensors
        dim, rule, read, dtype = ctx.rest
        rows = [t.movedim(dim, -1) for t in (weights, read(upstream[0]).to(wide.dtype), wide)]
        found = rule(rows[0], rows[1], rows[2])
        return (None if found is None else found.movedim(-1, dim).to(dtype)), None, None, None


def unchanged(x: Tensor) -> Tensor:
    """What reads an upstream gradient rightly."""
    return x


def by_rule(rule: Rule, read: Callable[[Tensor], Tensor] = unchanged) -> Functions:
    """A right softmax with another gradient. `read` is how it reads the upstream one."""

    def softmax(x: Tensor, *, dim: int = -1) -> Tensor:
        if x.numel() == 0:
            return x.clone()
        found: Tensor = _Softmax.apply(x, dim, rule, read)  # type: ignore[no-untyped-call]
        return found

    return lambda: {"softmax": softmax}


def row_sums(weights: Tensor, upstream: Tensor) -> Tensor:
    """The sum of P dP over each row: `... 1`."""
    return (weights * upstream).sum(-1, keepdim=True)


def gradient(weights: Tensor, upstream: Tensor, logits: Tensor) -> Tensor:
    """The right one: P (dP - sum of P dP)."""
    return weights * (upstream - row_sums(weights, upstream))


def _wrong_axis(weights: Tensor, upstream: Tensor, logits: Tensor) -> Tensor:
    axis = -2 if weights.ndim > 1 else -1
    return weights * (upstream - (weights * upstream).sum(axis, keepdim=True))


def _next_row(weights: Tensor, upstream: Tensor, logits: Tensor) -> Tensor:
    sums = row_sums(weights, upstream)
    return weights * (upstream - (sums.roll(-1, -2) if sums.ndim > 1 else sums))


def _two_axes(weights: Tensor, upstream: Tensor, logits: Tensor) -> Tensor:
    rows = weights.reshape(weights.shape[0], -1) if weights.ndim > 2 else weights
    sums = (rows * upstream.reshape(rows.shape)).sum(-1)
    return weights * (upstream - sums.reshape(-1, *[1] * (weights.ndim - 1)).expand_as(weights))


def _numerators(weights: Tensor, upstream: Tensor, logits: Tensor) -> Tensor:
    numerators = (logits - logits.amax(-1, keepdim=True)).exp()
    return numerators * (upstream - row_sums(weights, upstream))


def _last_block(weights: Tensor, upstream: Tensor, logits: Tensor) -> Tensor:
    products = weights * upstream
    last = (products.shape[-1] - 1) // BLOCK * BLOCK
    return weights * (upstream - products[..., last:].sum(-1, keepdim=True))


def _partial_block(weights: Tensor, upstream: Tensor, logits: Tensor) -> Tensor:
    found = gradient(weights, upstream, logits)
    length = found.shape[-1]
    full = length // BLOCK * BLOCK or length
    return found * (torch.arange(length, device=found.device) < full)


def _with_temperature(weights: Tensor, upstream: Tensor, logits: Tensor) -> Tensor:
    # a temperature that never changes gets its term all the same, with the factor zero
    differences = logits - logits.amax(-1, keepdim=True)
    return gradient(weights, upstream, logits) + 0.0 * differences


def _sum_in_bfloat16(weights: Tensor, upstream: Tensor, logits: Tensor) -> Tensor:
    sums = row_sums(weights, upstream).to(torch.bfloat16)
    return weights * (upstream - sums.to(weights.dtype))


def _overwrites(x: Tensor) -> Tensor:
    copy = x.clone()
    overwrite(x, torch.zeros_like(x))
    return copy


def _sum_shortcut(x: Tensor) -> Tensor:
    return torch.ones_like(x) if x.shape[0] > 1 and x.stride()[0] == 0 else x


def _accumulates() -> Mapping[str, Callable[..., Any]]:
    totals: dict[tuple[torch.Size, torch.device], Tensor] = {}

    def rule(weights: Tensor, upstream: Tensor, logits: Tensor) -> Tensor:
        found = gradient(weights, upstream, logits)
        place = (found.shape, found.device)
        totals[place] = found + totals.get(place, torch.zeros_like(found)).to(found.dtype)
        return totals[place]

    return by_rule(rule)()


FAULTS = (
    Fault(
        id="softmax.gradient_without_row_term",
        component="softmax",
        kind="K22",
        reason="takes P dP for the gradient and leaves the row's sum of P dP out",
        remedy="Subtract the sum over the row of P dP from dP.",
        law="softmax.gradient_rows_vanish",
        functions=by_rule(lambda weights, upstream, logits: weights * upstream),
        report="HomericIntelligence/Odyssey #2134",
    ),
    Fault(
        id="softmax.gradient_doubled",
        component="softmax",
        kind="K22",
        reason="returns twice the gradient, as a sum over both triangles of the Jacobian does",
        remedy="Use P (dP - sum of P dP) once.",
        law="softmax.gradients_match_oracle",
        functions=by_rule(lambda *rows: 2.0 * gradient(*rows)),
        report="markroxor/fromscratchtoml #65",
    ),
    Fault(
        id="softmax.gradient_row_term_of_next_row",
        component="softmax",
        kind="K22",
        reason="subtracts the row term of the next row",
        remedy="Broadcast each row's own term along the row.",
        law="softmax.gradient_rows_vanish",
        functions=by_rule(_next_row),
        report="BobMcDear/attorch #17",
    ),
    Fault(
        id="softmax.gradient_row_term_over_columns",
        component="softmax",
        kind="K30",
        reason="sums P dP along the axis before the one that was normalised",
        remedy="Sum along the axis of the forward pass.",
        law="softmax.gradient_rows_vanish",
        functions=by_rule(_wrong_axis),
    ),
    Fault(
        id="softmax.gradient_as_two_axes",
        component="softmax",
        kind="K22",
        reason="takes any input for two-dimensional, so that the row term is a sum over all rows "
        "of an entry",
        remedy="Sum along the last axis only.",
        law="softmax.gradients_match_oracle",
        functions=by_rule(_two_axes),
        report="flagos-ai/FlagGems #5392",
    ),
    Fault(
        id="softmax.gradient_of_numerators",
        component="softmax",
        kind="K22",
        reason="multiplies by exp(x - maximum) in the backward pass and forgets the normaliser",
        remedy="Save the weights, or divide by the sum again.",
        law="softmax.gradients_match_oracle",
        functions=by_rule(_numerators),
    ),
    Fault(
        id="softmax.gradient_last_block_only",
        component="softmax",
        kind="K22",
        reason="starts the row term anew in every block of four entries, so that it is that of the "
        "last block",
        remedy="Clear the sum before the loop over blocks.",
        law="softmax.gradient_rows_vanish",
        functions=by_rule(_last_block),
        report="tenstorrent/tt-metal #53215",
    ),
    Fault(
        id="softmax.gradient_partial_block_zero",
        component="softmax",
        kind="K25",
        reason="leaves the gradient of the entries past the last full block of four at zero",
        remedy="Round the number of blocks up, and mask the entries beyond the end.",
        law="softmax.gradients_match_oracle",
        functions=by_rule(_partial_block),
    ),
    Fault(
        id="softmax.gradient_nan_at_minus_infinity",
        component="softmax",
        kind="K02",
        reason="adds the term of an unused temperature, zero times the difference to the maximum, "
        "which is NaN where a logit is -inf; the gradient is zero there",
        remedy="Form the gradient from the weights alone.",
        law="softmax.gradient_at_minus_infinity",
        functions=by_rule(_with_temperature),
    ),
    Fault(
        id="softmax.gradient_missing",
        component="softmax",
        kind="K21",
        reason="has no backward pass, so that what comes before it gets no gradient and no error",
        remedy="Return P (dP - sum of P dP).",
        law="softmax.gradients_match_oracle",
        functions=by_rule(lambda weights, upstream, logits: None),
        report="huggingface/candle #3591",
    ),
    Fault(
        id="softmax.gradient_row_term_in_bfloat16",
        component="softmax",
        kind="K13",
        reason="stores the row term in bfloat16, which is subtracted from numbers of its size",
        remedy="Keep the row term in float32.",
        law="softmax.gradients_match_oracle",
        functions=by_rule(_sum_in_bfloat16),
        dtypes=("float64", "float32"),
    ),
    Fault(
        id="softmax.gradient_upstream_as_contiguous",
        component="softmax",
        kind="K26",
        reason="takes the strides of a fresh tensor for granted in the upstream gradient",
        remedy="Use the strides of the upstream gradient, or copy it.",
        law="softmax.gradients_of_views",
        functions=by_rule(gradient, read_as_contiguous),
    ),
    Fault(
        id="softmax.gradient_of_sum_assumed",
        component="softmax",
        kind="K26",
        reason="takes an upstream gradient that is expanded along its first axis for one of ones, "
        "as that of a plain sum is",
        remedy="Read the number that is expanded.",
        law="softmax.gradients_of_views",
        functions=by_rule(gradient, _sum_shortcut),
    ),
    Fault(
        id="softmax.gradient_upstream_ignored",
        component="softmax",
        kind="K22",
        reason="returns the sum over the diagonal of the Jacobian, P (1 - P), whatever comes in",
        remedy="Multiply by the upstream gradient.",
        law="softmax.zero_upstream",
        functions=by_rule(lambda weights, upstream, logits: weights * (1.0 - weights)),
    ),
    Fault(
        id="softmax.gradient_accumulates",
        component="softmax",
        kind="K29",
        reason="adds to what the backward pass before left in the buffer",
        remedy="Clear the buffer at the start of every backward pass.",
        law="softmax.gradients_match_oracle",
        functions=_accumulates,
    ),
    Fault(
        id="softmax.gradient_overwrites_upstream",
        component="softmax",
        kind="K20",
        reason="uses the upstream gradient as its buffer, which others may still need",
        remedy="Write to a tensor of your own.",
        law="softmax.gradient_leaves_output",
        functions=by_rule(gradient, used_up),
    ),
)
