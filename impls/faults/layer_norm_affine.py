"""Wrong implementations of layer_norm with the right statistics: weight and bias, roundings,
memory, shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import layer_norm as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.layer_norm import Functions, centred
from attnspec.impls.faults.views import overwrite, read_as_contiguous
from attnspec.impls.layer_norm import affine, widened

Applied = Callable[[Tensor, Tensor | None, Tensor | None], Tensor]
"""Of the normalised rows, weight and bias."""
Whole = Callable[[Tensor, Tensor | None, Tensor | None, float], Tensor]
"""All of it: of rows, weight, bias and eps."""


def by_whole(whole: Whole) -> Functions:
    """A function of rows, weight, bias and eps."""

    def layer_norm(
        x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
    ) -> Tensor:
        return whole(x, weight, bias, eps)

    return lambda: {"layer_norm": layer_norm}


def by_affine(applied: Applied) -> Functions:
    """The right normalised rows, and one rounding at the end."""

    def whole(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
        return applied(right.layer_norm(widened(x), eps=eps), weight, bias).to(x.dtype)

    return by_whole(whole)


def _bias_first(hat: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return affine(affine(hat, None, bias), weight, None)


def _weight_or_bias(hat: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return affine(hat, weight, bias if weight is None else None)


def _weight_of_first_channel(hat: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return affine(hat, None if weight is None else weight[:1], bias)


def _before(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    weighted = affine(widened(x), weight, None)
    return affine(right.layer_norm(weighted, eps=eps), None, bias).to(x.dtype)


def _eps_in_storage(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    c = centred(widened(x))
    small = torch.full((), eps, dtype=x.dtype, device=x.device)
    hat = c * torch.rsqrt(c.square().mean(dim=-1, keepdim=True) + small)
    return affine(hat, weight, bias).to(x.dtype)


def _squares_in_storage(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    c = centred(widened(x))
    squares = c.to(x.dtype).square().to(c.dtype)
    hat = c * torch.rsqrt(squares.mean(dim=-1, keepdim=True) + eps)
    return affine(hat, weight, bias).to(x.dtype)


def _hat_in_storage(hat: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return affine(hat.to(torch.bfloat16).to(hat.dtype), weight, bias)


def _float32_inside(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    given = [None if t is None else t.to(torch.float32) for t in (weight, bias)]
    return right.layer_norm(x.to(torch.float32), *given, eps=eps).to(x.dtype)


def _result_in_float32(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    return right.layer_norm(widened(x), weight, bias, eps=eps).to(widened(x).dtype)


def _writes_over_input(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    found = right.layer_norm(x, weight, bias, eps=eps)
    overwrite(x, right.layer_norm(x.detach(), eps=eps))
    return found


def _reads_as_contiguous(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    return right.layer_norm(read_as_contiguous(x), weight, bias, eps=eps)


def _weight_as_contiguous(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    given = [None if t is None else read_as_contiguous(t) for t in (weight, bias)]
    return right.layer_norm(x, *given, eps=eps)


def _empty_flattened(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    return right.layer_norm(x, weight, bias, eps=eps) if x.numel() else x.reshape(-1)


def _first_weight_kept() -> Mapping[str, Callable[..., Any]]:
    kept: dict[tuple[object, ...], Tensor] = {}

    def layer_norm(
        x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
    ) -> Tensor:
        if weight is not None:
            weight = kept.setdefault((weight.shape, weight.dtype, weight.device), weight.clone())
        return right.layer_norm(x, weight, bias, eps=eps)

    return {"layer_norm": layer_norm}


def _running_mean() -> Mapping[str, Callable[..., Any]]:
    seen: dict[tuple[object, ...], Tensor] = {}

    def layer_norm(
        x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
    ) -> Tensor:
        c = centred(widened(x))
        variance = c.square().mean(dim=-1, keepdim=True)
        key = (x.shape, x.dtype, x.device)
        seen[key] = variance + 0.1 * (seen.get(key, variance * 0.0) - variance)
        return affine(c * torch.rsqrt(seen[key] + eps), weight, bias).to(x.dtype)

    return {"layer_norm": layer_norm}


FAULTS = (
    Fault(
        id="layer_norm.bias_before_weight",
        component="layer_norm",
        kind="K19",
        reason="adds the bias first and multiplies both by the weight",
        remedy="Multiply by the weight, then add the bias.",
        law="layer_norm.affine_is_last",
        functions=by_affine(_bias_first),
    ),
    Fault(
        id="layer_norm.bias_forgotten",
        component="layer_norm",
        kind="K29",
        reason="adds no bias where there is a weight",
        remedy="Add the bias in either case.",
        law="layer_norm.affine_is_last",
        functions=by_affine(_weight_or_bias),
    ),
    Fault(
        id="layer_norm.weight_ignored",
        component="layer_norm",
        kind="K29",
        reason="accepts a weight and doesn't multiply by it",
        remedy="Multiply the normalised rows by the weight.",
        law="layer_norm.affine_is_last",
        functions=by_affine(lambda hat, weight, bias: affine(hat, None, bias)),
    ),
    Fault(
        id="layer_norm.one_plus_weight",
        component="layer_norm",
        kind="K19",
        reason="multiplies by one plus the weight, for a weight that is stored less one",
        remedy="Multiply by the weight as it is given.",
        law="layer_norm.affine_is_last",
        functions=by_affine(
            lambda hat, weight, bias: affine(hat, None if weight is None else 1.0 + weight, bias)
        ),
    ),
    Fault(
        id="layer_norm.weight_of_first_channel",
        component="layer_norm",
        kind="K26",
        reason="multiplies all channels by the weight of the first",
        remedy="Step through the weight along the row.",
        law="layer_norm.channels_permuted",
        functions=by_affine(_weight_of_first_channel),
    ),
    Fault(
        id="layer_norm.weight_before_statistics",
        component="layer_norm",
        kind="K19",
        reason="multiplies the row by the weight before it takes mean and variance",
        remedy="Normalise first, then multiply.",
        law="layer_norm.affine_is_last",
        functions=by_whole(_before),
    ),
    Fault(
        id="layer_norm.eps_in_storage",
        component="layer_norm",
        kind="K13",
        reason="rounds eps to float16, where anything below 3e-8 becomes 0, so that a constant row "
        "is 0 / 0",
        remedy="Add eps in float32.",
        law="layer_norm.constant_gives_bias",
        functions=by_whole(_eps_in_storage),
        report="tensorflow/tensorflow #24979",
        dtypes=("float16",),
    ),
    Fault(
        id="layer_norm.squares_in_storage",
        component="layer_norm",
        kind="K13",
        reason="squares the differences in half precision: in float16 those from 256 on overflow, "
        "and small ones vanish",
        remedy="Square in float32.",
        law="layer_norm.matches_oracle",
        functions=by_whole(_squares_in_storage),
        dtypes=("float16",),
    ),
    Fault(
        id="layer_norm.normalised_in_bfloat16",
        component="layer_norm",
        kind="K13",
        reason="rounds the normalised row to bfloat16 before weight and bias, although it promises "
        "float32 up to the end",
        remedy="Apply weight and bias in float32, or declare the field normalised as storage.",
        law="layer_norm.matches_oracle",
        functions=by_affine(_hat_in_storage),
        precision={"normalised": "accumulate"},
    ),
    Fault(
        id="layer_norm.float32_inside",
        component="layer_norm",
        kind="K13",
        reason="computes in float32 for float64 too",
        remedy="Compute in the dtype of the rows where that is wider than float32.",
        law="layer_norm.matches_oracle",
        functions=by_whole(_float32_inside),
        dtypes=("float64",),
    ),
    Fault(
        id="layer_norm.result_in_float32",
        component="layer_norm",
        kind="K13",
        reason="returns float32 for rows in half precision",
        remedy="Return the dtype of the rows.",
        law="layer_norm.output_form",
        functions=by_whole(_result_in_float32),
        dtypes=("bfloat16", "float16"),
    ),
    Fault(
        id="layer_norm.writes_over_input",
        component="layer_norm",
        kind="K20",
        reason="writes the normalised rows over its input, which a residual connection still reads",
        remedy="Write to a tensor of your own.",
        law="layer_norm.inputs_unchanged",
        functions=by_whole(_writes_over_input),
    ),
    Fault(
        id="layer_norm.reads_as_contiguous",
        component="layer_norm",
        kind="K26",
        reason="takes the strides of a fresh tensor for granted, so that a view is read in the "
        "wrong order",
        remedy="Use the strides of the rows, or copy them when they aren't contiguous.",
        law="layer_norm.views_equal_copies",
        functions=by_whole(_reads_as_contiguous),
    ),
    Fault(
        id="layer_norm.weight_read_as_contiguous",
        component="layer_norm",
        kind="K26",
        reason="takes a stride of 1 for granted in weight and bias",
        remedy="Use their strides, or copy them when they aren't contiguous.",
        law="layer_norm.views_equal_copies",
        functions=by_whole(_weight_as_contiguous),
    ),
    Fault(
        id="layer_norm.first_weight_kept",
        component="layer_norm",
        kind="K29",
        reason="keeps the weight of the first call, whatever weight later calls bring",
        remedy="Read the weight that is passed.",
        law="layer_norm.no_memory",
        functions=_first_weight_kept,
    ),
    Fault(
        id="layer_norm.running_variance",
        component="layer_norm",
        kind="K29",
        reason="mixes a tenth of the variance of earlier calls into that of the row, as batch "
        "normalisation does for evaluation",
        remedy="Use the variance of the row alone.",
        law="layer_norm.repeatable",
        functions=_running_mean,
    ),
    Fault(
        id="layer_norm.empty_batch_flattened",
        component="layer_norm",
        kind="K25",
        reason="returns early where there is no row, without the axes",
        remedy="Return an empty tensor of the shape of the input.",
        law="layer_norm.empty_batch",
        functions=by_whole(_empty_flattened),
    ),
)
