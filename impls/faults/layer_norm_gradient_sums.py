"""LayerNorm whose gradients of weight and bias are wrong, and backward passes that keep or read
something wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.faults.layer_norm import centred
from attnspec.impls.faults.layer_norm_gradients import (
    TILE,
    Saved,
    by_rules,
    mean,
    of_bias,
    of_weight,
    of_x,
    over_rows,
    row,
    weighted,
)
from attnspec.impls.faults.views import read_as_contiguous, used_up
from attnspec.impls.layer_norm import widened


def _entries_of_first(values: Tensor) -> Tensor:
    """Added up within the first entry of the leading axis alone."""
    return over_rows(values[:1] if values.ndim > 2 else values)


def _full_tiles(values: Tensor) -> Tensor:
    rows = values.reshape(-1, values.shape[-1])
    return rows[: len(rows) // TILE * TILE or len(rows)].sum(dim=0)


def _in_storage(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Row after row, each sum rounded."""
    total = torch.zeros_like(values.reshape(-1, values.shape[-1])[0]).to(dtype)
    for terms in values.reshape(-1, values.shape[-1]):
        total = (total + terms).to(dtype)
    return total


def _rows_of(values: Tensor) -> int:
    return max(values.reshape(-1, values.shape[-1]).shape[0], 1)


def _only_with_x() -> Mapping[str, Callable[..., Any]]:
    right = by_rules()()["layer_norm"]

    def layer_norm(
        x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
    ) -> Tensor:
        if not x.requires_grad:
            # as a kernel that skips its backward pass where the rows need none
            weight = None if weight is None else weight.detach() + 0.0 * weight
        found: Tensor = right(x, weight, bias, eps=eps)
        return found

    return {"layer_norm": layer_norm}


def _one_buffer() -> Mapping[str, Callable[..., Any]]:
    """Normalised rows are saved in one place, which the next call of the same shape overwrites."""
    kept: dict[tuple[object, ...], Tensor] = {}

    def from_buffer(s: Saved) -> Saved:
        hat = kept[s.hat.shape, s.hat.dtype, s.hat.device]
        return Saved(s.upstream, s.x, hat, s.inverse, s.weight, s.dtype)

    right = by_rules(lambda s: of_x(from_buffer(s)), lambda s: of_weight(from_buffer(s)))()[
        "layer_norm"
    ]

    def layer_norm(
        x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
    ) -> Tensor:
        c = centred(widened(x.detach()))
        hat = c * torch.rsqrt(mean(c.square()) + eps)
        kept[hat.shape, hat.dtype, hat.device] = hat
        found: Tensor = right(x, weight, bias, eps=eps)
        return found

    return {"layer_norm": layer_norm}


HALF = ("bfloat16", "float16")

FAULTS = (
    row(
        "missing", "K21",
        "gives the bias a gradient of zeros, so that it is never learned",
        "Add up the upstream gradient over all rows.",
        "gradients_match_oracle",
        by_rules(bias=lambda s: of_bias(s) * 0.0),
    ),
    row(
        "of_weight_by_input", "K22",
        "multiplies the upstream gradient by the rows as they came in, not as they were normalised",
        "Multiply by the normalised rows.",
        "gradients_adjoint",
        by_rules(weight=lambda s: over_rows(s.upstream * s.x)),
    ),
    row(
        "of_weight_by_weight", "K22",
        "multiplies the upstream gradient by the weight in place of the normalised rows",
        "Multiply by the normalised rows.",
        "gradients_adjoint",
        by_rules(weight=lambda s: over_rows(weighted(s))),
        report="pytorch/pytorch #18233",
    ),
    row(
        "of_weight_unnormalised", "K22",
        "multiplies by the rows less their mean, and forgets to divide them",
        "Multiply by the normalised rows.",
        "gradients_adjoint",
        by_rules(weight=lambda s: over_rows(s.upstream * s.hat / s.inverse)),
    ),
    row(
        "of_first_entry", "K22",
        "adds up the gradients of weight and bias over the tokens of the first batch entry only",
        "Add up over all leading axes.",
        "gradient_sums_over_rows",
        by_rules(
            weight=lambda s: _entries_of_first(s.upstream * s.hat),
            bias=lambda s: _entries_of_first(s.upstream),
        ),
    ),
    row(
        "mean_over_rows", "K22",
        "averages the gradients of weight and bias over the rows",
        "Add them up, and don't divide.",
        "gradient_sums_over_rows",
        by_rules(
            weight=lambda s: of_weight(s) / _rows_of(s.hat),
            bias=lambda s: of_bias(s) / _rows_of(s.hat),
        ),
    ),
    row(
        "partial_tile_of_rows", "K25",
        "adds up full tiles of sixteen rows only",
        "Round the number of tiles up, and mask the rows beyond the end.",
        "gradient_sums_over_rows",
        by_rules(
            weight=lambda s: _full_tiles(s.upstream * s.hat),
            bias=lambda s: _full_tiles(s.upstream),
        ),
    ),
    row(
        "summed_in_storage", "K13",
        "rounds the running sums of the gradients of weight and bias to half precision after each "
        "row, although it promises sums in float32",
        "Add up in float32 and round once, or declare the field reductions as storage.",
        "gradient_sums_over_rows",
        by_rules(
            weight=lambda s: _in_storage(s.upstream * s.hat, s.dtype),
            bias=lambda s: _in_storage(s.upstream, s.dtype),
        ),
        report="karpathy/llm.c #428",
        dtypes=HALF,
    ),
    row(
        "upstream_ignored", "K22",
        "starts from ones in place of the upstream gradient",
        "Start from the upstream gradient.",
        "zero_upstream",
        by_rules(read=torch.ones_like),
    ),
    row(
        "upstream_as_contiguous", "K26",
        "takes the strides of a fresh tensor for granted in the upstream gradient",
        "Use the upstream's strides, or copy it when it isn't contiguous.",
        "gradients_of_views",
        by_rules(read=read_as_contiguous),
    ),
    row(
        "overwrites_upstream", "K20",
        "uses the upstream gradient's memory as a buffer in its backward pass",
        "Leave the upstream gradient as it is.",
        "gradient_leaves_output",
        by_rules(read=used_up),
    ),
    row(
        "of_weight_only_with_x", "K21",
        "leaves the gradient of the weight out where the rows need none, as in training of the "
        "norms alone",
        "Decide for each argument by itself what it needs.",
        "gradients_of_some",
        _only_with_x,
    ),
    row(
        "saved_in_one_buffer", "K29",
        "saves the normalised rows in one buffer, which the next call of the shape overwrites",
        "Save them with the call that they belong to.",
        "gradients_between_calls",
        _one_buffer,
    ),
)  # fmt: skip
