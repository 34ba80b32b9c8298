"""Attention that rounds more than it may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import attention as right
from attnspec.impls.faults.attention import by_lse, numerators_of, over_total
from attnspec.impls.faults.attention_steps import (
    Call,
    Functions,
    Results,
    by_arguments,
    by_call,
    by_means,
    by_products,
    by_results,
    by_scores,
    by_weights,
    hidden,
    mean,
    products,
    repeated,
    scores,
    visible,
    weighted,
)
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.softmax import LOG2_E

HALVES = ("bfloat16", "float16")
WIDE = {"scores": "accumulate"}
"""The promise that scores aren't rounded."""


class _Through(torch.autograd.Function):
    """Rounds, and lets gradients through as they are."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rounded: Callable[[Tensor], Tensor]) -> Tensor:
        return rounded(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def through(x: Tensor, rounded: Callable[[Tensor], Tensor]) -> Tensor:
    """`rounded(x)`, with the gradient of the identity."""
    found: Tensor = _Through.apply(x, rounded)  # type: ignore[no-untyped-call]
    return found


def rounded_to(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The nearest numbers of another dtype, in the dtype of `x`."""
    return x.to(dtype).to(x.dtype)


def in_tf32(x: Tensor) -> Tensor:
    """Float32 numbers with the thirteen lowest bits of the significand rounded off."""
    bits = x.detach().to(torch.float32).contiguous().view(torch.int32)
    kept = ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
    return torch.where(x.isfinite(), kept.to(x.dtype), x)


def _float32_inside(arguments: dict[str, Any]) -> Any:
    storage = arguments["q"].dtype
    narrow: dict[str, Any] = {
        name: x.to(torch.float32) if isinstance(x, Tensor) and x.is_floating_point() else x
        for name, x in arguments.items()
    }
    result = right.attention(**narrow)
    if isinstance(result, tuple):
        return result[0].to(storage), result[1].to(storage)
    return result.to(storage)


def _tf32(given: Call) -> Results:
    def narrow(x: Tensor) -> Tensor:
        return through(x, in_tf32)

    given = replace(given, q=narrow(given.q), k=narrow(given.k), v=narrow(given.v))
    weights, lse = weighted(hidden(scores(given), visible(given)))
    return mean(given, narrow(weights)), lse


def _scores_in(dtype: torch.dtype) -> Functions:
    return by_scores(lambda given: rounded_to(scores(given), dtype))


def _products_before_scale(given: Call) -> Tensor:
    plain = products(replace(given, scale=1.0))
    return rounded_to(plain, given.storage) * given.factor


def _channels_in_storage(given: Call) -> Tensor:
    keys = repeated(given.k, given.q.shape[1])
    total = torch.zeros_like(products(given), dtype=given.storage)
    for channel in range(given.q.shape[-1]):
        step = given.q[..., channel, None] * keys[..., None, :, channel]
        total = (total + step).to(given.storage)
    return total.to(given.q.dtype) * given.factor


def _weights_in(dtype: torch.dtype) -> Functions:
    return by_means(lambda given, weights: mean(given, rounded_to(weights, dtype)))


def _sum_in_storage(given: Call) -> Results:
    masked = hidden(scores(given), visible(given))
    numerators = numerators_of(masked)
    total = torch.zeros_like(numerators[..., :1], dtype=given.storage)
    for entry in torch.split(numerators, 1, -1):
        total = (total + entry).to(given.storage)
    weights, _ = over_total(numerators, total.to(numerators.dtype), masked)
    return mean(given, weights), weighted(masked)[1]


def _output_in_storage(given: Call, weights: Tensor) -> Tensor:
    values = repeated(given.v, given.q.shape[1])
    output = torch.zeros_like(mean(given, weights), dtype=given.storage)
    for key in range(values.shape[-2]):
        step = weights[..., key, None] * values[..., key, None, :]
        output = (output + step).to(given.storage)
    return output.to(given.q.dtype)


def _values_in_bfloat16(given: Call) -> Call:
    return replace(given, v=rounded_to(given.v, torch.bfloat16))


def _exp_interpolated(masked: Tensor) -> Results:
    steps, seen = 16, masked > -torch.inf
    largest = masked.masked_fill(~seen, -1e4).detach().amax(-1, keepdim=True)
    exponents = (masked - largest).masked_fill(~seen, -1e4) * LOG2_E
    below = (exponents.detach() * steps).floor() / steps
    slope = steps * (2.0 ** (1 / steps) - 1.0)
    numerators = torch.exp2(below) * (1.0 + slope * (exponents - below))
    numerators = numerators.masked_fill(~seen, 0.0)
    weights, _ = over_total(numerators, numerators.sum(-1, keepdim=True), masked)
    return weights, weighted(masked)[1]


def _weights_floored(masked: Tensor) -> Results:
    weights, lse = weighted(masked)
    return through(weights, lambda x: (x * 256.0).floor() / 256.0), lse


FAULTS = (
    Fault(
        id="attention.float32_inside",
        component="attention",
        kind="K13",
        reason="casts float64 to float32; accumulation is never narrower than the storage",
        remedy="Accumulate in the wider of float32 and the inputs' dtype.",
        law="attention.matches_oracle",
        functions=by_call(_float32_inside),
        dtypes=("float64",),
    ),
    Fault(
        id="attention.products_in_tf32",
        component="attention",
        kind="K13",
        reason="rounds the operands of both products to the ten bits of TF32 without declaring it",
        remedy="Switch TF32 off, or declare the precision of products.",
        law="attention.matches_oracle",
        functions=by_results(_tf32),
        dtypes=("float32",),
    ),
    Fault(
        id="attention.scores_in_bfloat16",
        component="attention",
        kind="K13",
        reason="stores scores in bfloat16 whatever the dtype of the inputs; they may be rounded to "
        "storage, not further",
        remedy="Keep scores in float32.",
        law="attention.matches_oracle",
        functions=_scores_in(torch.bfloat16),
        dtypes=("float64", "float32", "float16"),
    ),
    Fault(
        id="attention.weights_in_float16",
        component="attention",
        kind="K13",
        reason="casts weights to float16 before they meet the values, also where the inputs are "
        "float32",
        remedy="Round weights to the dtype of the values at most.",
        law="attention.matches_oracle",
        functions=_weights_in(torch.float16),
        dtypes=("float64", "float32"),
    ),
    Fault(
        id="attention.weights_in_eight_bits",
        component="attention",
        kind="K13",
        reason="stores weights in an eight-bit float format without declaring it",
        remedy="Keep weights in the storage dtype, or declare the format.",
        law="attention.matches_oracle",
        functions=_weights_in(torch.float8_e4m3fn),
    ),
    Fault(
        id="attention.weights_rounded_down",
        component="attention",
        kind="K13",
        reason="rounds weights down to multiples of 1/256, so that they sum to less than one",
        remedy="Keep weights in floating point, or divide by the sum of what was kept.",
        law="attention.within_values",
        functions=by_weights(_weights_floored),
    ),
    Fault(
        id="attention.values_in_bfloat16",
        component="attention",
        kind="K13",
        reason="converts the values to bfloat16 for a product that has no other form",
        remedy="Multiply in the dtype of the values, or declare the precision of products.",
        law="attention.needle_returns_its_value",
        functions=by_arguments(_values_in_bfloat16),
        dtypes=("float64", "float32", "float16"),
    ),
    Fault(
        id="attention.exp_interpolated",
        component="attention",
        kind="K13",
        reason="interpolates the exponential between sixteen points an octave, with a relative "
        "error of up to 2**-12",
        remedy="Use an exponential that is right to a few ulp, or declare a narrower dtype.",
        law="attention.scale_read",
        functions=by_weights(_exp_interpolated),
        dtypes=("float64", "float32"),
    ),
    Fault(
        id="attention.sum_in_storage",
        component="attention",
        kind="K13",
        reason="keeps the running normaliser in half precision, where it stops growing; sums "
        "belong in float32",
        remedy="Accumulate the normaliser in float32.",
        law="attention.long_rows",
        functions=by_results(_sum_in_storage),
        dtypes=HALVES,
    ),
    Fault(
        id="attention.output_in_storage",
        component="attention",
        kind="K13",
        reason="adds weighted values in half precision, key after key; the sum belongs in float32",
        remedy="Accumulate the output in float32, and round once.",
        law="attention.long_rows",
        functions=by_means(_output_in_storage),
        dtypes=HALVES,
    ),
    Fault(
        id="attention.channels_in_storage",
        component="attention",
        kind="K13",
        reason="adds the channels of a dot product in half precision, although it promises scores "
        "in float32",
        remedy="Accumulate dot products in float32.",
        law="attention.matches_oracle",
        functions=by_products(_channels_in_storage),
        precision=WIDE,
        dtypes=HALVES,
    ),
    Fault(
        id="attention.scores_in_storage",
        component="attention",
        kind="K13",
        reason="rounds scores to half precision, although it promises them in float32",
        remedy="Keep scores in float32 up to the weights, or drop the promise.",
        law="attention.matches_oracle",
        functions=by_scores(lambda given: rounded_to(scores(given), given.storage)),
        precision=WIDE,
        dtypes=HALVES,
    ),
    Fault(
        id="attention.scores_overflow",
        component="attention",
        kind="K14",
        reason="stores the product of query and key in half precision before it's scaled, where "
        "it overflows in float16, although it promises scores in float32",
        remedy="Scale the queries first, or keep the product in float32.",
        law="attention.matches_oracle",
        functions=by_products(_products_before_scale),
        precision=WIDE,
        dtypes=("float16",),
    ),
    Fault(
        id="attention.lse_rounded",
        component="attention",
        kind="K13",
        reason="rounds the log-sum-exp to half precision on the way and returns it as float32, "
        "which is what a backward pass recomputes weights from",
        remedy="Keep the log-sum-exp in float32 throughout.",
        law="attention.lse_matches_oracle",
        functions=by_lse(lambda masked, lse: rounded_to(lse, torch.bfloat16)),
        precision=WIDE,
    ),
)
