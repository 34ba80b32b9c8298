"""RMSNorm whose backward pass is wrong about the gradient of x."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import rms_norm
from attnspec.impls.faults.rms_norm import Functions
from attnspec.impls.faults.rms_norm_backward import (
    BLOCK,
    Grads,
    Saved,
    by_rule,
    by_x,
    fault,
    mean_of,
    of_weight,
    of_x,
)
from attnspec.impls.faults.views import read_as_contiguous, used_up


def with_term(term: Callable[[Saved, Tensor], Tensor]) -> Functions:
    """A gradient of x with another term beside g: that which is subtracted, from g."""

    def rule(saved: Saved) -> Tensor:
        g = saved.upstream * saved.gain
        return saved.factor * (g - term(saved, g))

    return by_x(rule)


def _of_next_row(saved: Saved, g: Tensor) -> Tensor:
    return saved.normalised * mean_of(g * saved.normalised).roll(-1, 0)


def _weight_left_out(saved: Saved) -> Tensor:
    return of_x(saved._replace(gain=torch.ones_like(saved.gain)))


def _first_block(saved: Saved, g: Tensor) -> Tensor:
    products = g * saved.normalised
    return saved.normalised * products[:, :BLOCK].sum(-1, keepdim=True) / products.shape[-1]


def _without_eps(saved: Saved) -> Tensor:
    # a row of zeros is left to eps, all others are taken for rows without it
    square = rms_norm.mean_square(saved.x)
    factor = torch.where(square > 0, square, square + saved.eps).rsqrt()
    return of_x(saved._replace(factor=factor, normalised=saved.x * factor))


def _mean_in_bfloat16(saved: Saved, g: Tensor) -> Tensor:
    return saved.normalised * mean_of(g * saved.normalised).to(torch.bfloat16).to(g.dtype)


def _centred(saved: Saved) -> Tensor:
    found = of_x(saved)
    return found - found.mean(-1, keepdim=True)


def _ones_for_upstream(saved: Saved) -> Grads:
    saved = saved._replace(upstream=torch.ones_like(saved.upstream))
    return of_x(saved), of_weight(saved)


def _without_wanting(saved: Saved) -> Grads:
    return of_x(saved), of_weight(saved) * float(saved.wanted[0])


def right(saved: Saved) -> Grads:
    """Both right."""
    return of_x(saved), of_weight(saved)


def _strided_input_detached() -> Mapping[str, Callable[..., Any]]:
    def function(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
        if x.is_contiguous():
            return rms_norm.rms_norm(x, weight, eps=eps)
        # a copy that autograd does not know of: x gets a gradient of zeros
        copied = torch.empty_like(x, memory_format=torch.contiguous_format).copy_(x.detach())
        return rms_norm.rms_norm(copied, weight, eps=eps) + 0.0 * x

    return {"rms_norm": function}


def _factor_of_latest_call() -> Mapping[str, Callable[..., Any]]:
    latest: dict[str, Tensor] = {}

    def rule(saved: Saved) -> Grads:
        factor = latest["factor"]
        if factor.shape == saved.factor.shape and factor.dtype == saved.factor.dtype:
            saved = saved._replace(factor=factor)
        return right(saved)

    made = by_rule(rule)()["rms_norm"]

    def function(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
        rows = rms_norm.widened(x.detach()).reshape(-1, x.shape[-1])
        latest["factor"] = torch.rsqrt(rms_norm.mean_square(rows) + eps)
        found: Tensor = made(x, weight, eps=eps)
        return found

    return {"rms_norm": function}


FAULTS = (
    fault(
        "without_row_term",
        "K22",
        "takes the row's factor for a constant: dx is the upstream times gain and factor, and the "
        "term along the row is missing",
        "Subtract x_hat times the mean of g x_hat.",
        "gradient_orthogonal_to_x",
        with_term(lambda saved, g: torch.zeros_like(g)),
    ),
    fault(
        "sum_for_mean",
        "K22",
        "subtracts x_hat times the sum of g x_hat, in place of the mean",
        "Divide the sum by the number of channels.",
        "gradient_orthogonal_to_x",
        with_term(lambda saved, g: saved.normalised * (g * saved.normalised).sum(-1, keepdim=True)),
    ),
    fault(
        "row_term_without_gain",
        "K22",
        "forms the row's mean from the upstream as it comes, without the gain",
        "Multiply by the gain before the mean is taken.",
        "gradient_orthogonal_to_x",
        with_term(lambda saved, g: saved.normalised * mean_of(saved.upstream * saved.normalised)),
        report="karpathy/llm.c #763",
    ),
    fault(
        "row_term_of_x",
        "K22",
        "subtracts x times the mean of g x, not normalised: the square of the factor is missing",
        "Use the normalised row in both places.",
        "gradient_orthogonal_to_x",
        with_term(lambda saved, g: saved.x * mean_of(g * saved.x)),
    ),
    fault(
        "row_term_of_next_row",
        "K22",
        "gives each row the correction of the next, as a broadcast along the wrong axis of a "
        "block does",
        "Broadcast each row's own mean along its channels.",
        "gradient_row_alone",
        with_term(_of_next_row),
        report="BobMcDear/attorch #17",
    ),
    fault(
        "row_term_of_first_block",
        "K25",
        "forms the row's mean from the first 32 channels alone",
        "Add up over all blocks of the row.",
        "gradient_orthogonal_to_x",
        with_term(_first_block),
    ),
    fault(
        "without_gain",
        "K22",
        "leaves the gain out of dx",
        "Multiply the upstream by the gain first.",
        "gradients_match_oracle",
        by_x(_weight_left_out),
    ),
    fault(
        "of_weight_not_one_plus",
        "K23",
        "multiplies by 1 + weight in the forward pass and by the weight in the backward pass",
        "Use the same gain in both.",
        "gradients_match_oracle",
        by_x(lambda saved: of_x(saved._replace(gain=saved.gain - 1.0)), plus=1.0),
        conventions={"rms_norm.gain": "one-plus"},
    ),
    fault(
        "centred",
        "K23",
        "subtracts the mean of dx, as LayerNorm's gradient has it",
        "Leave the mean of dx where it is.",
        "gradients_match_oracle",
        by_x(_centred),
    ),
    fault(
        "factor_missing",
        "K22",
        "does not divide dx by what the row was divided by",
        "Multiply by the row's factor.",
        "gradients_match_oracle",
        by_x(lambda saved: of_x(saved._replace(factor=torch.ones_like(saved.factor)))),
    ),
    fault(
        "without_eps",
        "K23",
        "forms the factor anew in the backward pass, without eps",
        "Save the factor, or form it with the eps of the call.",
        "gradients_at_eps",
        by_x(_without_eps),
    ),
    fault(
        "row_term_in_bfloat16",
        "K13",
        "rounds the row's mean of g x_hat to bfloat16",
        "Keep it in float32.",
        "gradients_match_oracle",
        with_term(_mean_in_bfloat16),
        dtypes=("float64", "float32"),
    ),
    fault(
        "missing",
        "K21",
        "has no backward pass for x, so that what comes before it gets no gradient and no error",
        "Return the gradient of x.",
        "gradients_match_oracle",
        by_x(lambda saved: None),
    ),
    fault(
        "of_views_zero",
        "K21",
        "copies an input that isn't contiguous in a way that autograd does not see, so that x has "
        "a gradient of zeros",
        "Copy with contiguous(), through which gradients flow.",
        "gradients_of_views",
        _strided_input_detached,
    ),
    fault(
        "upstream_as_contiguous",
        "K26",
        "takes the strides of a fresh tensor for granted in the upstream gradient",
        "Use the strides of the upstream gradient, or copy it.",
        "gradients_of_views",
        by_rule(right, read_as_contiguous),
    ),
    fault(
        "overwrites_upstream",
        "K20",
        "uses the upstream gradient's memory as a buffer",
        "Write to a tensor of your own.",
        "gradient_leaves_output",
        by_rule(right, used_up),
    ),
    fault(
        "upstream_ignored",
        "K22",
        "gives the gradients of the sum of the result, whatever comes in",
        "Multiply by the upstream gradient.",
        "zero_upstream",
        by_rule(_ones_for_upstream),
    ),
    fault(
        "of_weight_only_with_x",
        "K21",
        "skips the gradient of the weight where x needs none, as in the first layer of a model "
        "whose embedding is frozen",
        "Ask for each argument by itself whether it needs a gradient.",
        "gradients_of_some",
        by_rule(_without_wanting),
    ),
    fault(
        "factor_of_latest_call",
        "K29",
        "keeps the rows' factors in a buffer that the next forward pass of the same shape "
        "overwrites",
        "Save what the backward pass needs with each call.",
        "gradients_between_calls",
        _factor_of_latest_call,
    ),
)
