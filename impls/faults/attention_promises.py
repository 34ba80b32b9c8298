"""Attention that breaks what is promised beyond the defaults: NaN, and bits of gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.faults.attention_backward import Known, by_backward
from attnspec.impls.faults.attention_steps import (
    Results,
    attended,
    by_results,
    by_weights,
    normalised,
)
from attnspec.impls.faults.fault import Fault


def _nan_is_empty(masked: Tensor) -> Results:
    maximum = masked.detach().amax(-1, keepdim=True)
    # a row whose maximum compares to nothing is taken for one without keys
    seen = maximum > -torch.inf
    weights, lse = normalised(masked, maximum.masked_fill(~seen, 0.0))
    return weights.masked_fill(~seen, 0.0), lse.masked_fill(~seen.squeeze(-1), -torch.inf)


def _order_alternates() -> Mapping[str, Callable[..., Any]]:
    calls = 0

    def of_values(known: Known, p: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        total = torch.zeros_like(p.mT[..., :1]) * torch.zeros_like(known.upstream[..., :1, :])
        rows = list(range(p.shape[-2]))
        for row in rows if calls % 2 else reversed(rows):
            total = total + p[..., row, :, None] * known.upstream[..., row, None, :]
        return total

    return by_backward(of_values=of_values)()


FAULTS = (
    Fault(
        id="attention.hidden_nan_times_zero",
        component="attention",
        kind="K04",
        reason="multiplies hidden values by a weight of zero, which is NaN where they hold NaN or "
        "infinity, although it promises to ignore them",
        remedy="Set hidden values to zero, or leave them out of the sum, or drop the promise.",
        law="attention.hidden_nan_ignored",
        functions=by_results(attended),
        conventions={"attention.masked_nan": "ignored"},
    ),
    Fault(
        id="attention.nan_taken_for_empty_row",
        component="attention",
        kind="K02",
        reason="tests for rows that see nothing by a comparison that NaN fails as well, so that a "
        "row of NaN is zero although it promises to let NaN through",
        remedy="Find rows that see nothing from the mask, not from their scores.",
        law="attention.visible_nan_propagates",
        functions=by_weights(_nan_is_empty),
        report="pytorch/pytorch #141128",
        conventions={"attention.visible_nan": "propagates"},
    ),
    Fault(
        id="attention.gradient_order_alternates",
        component="attention",
        kind="K04",
        reason="adds rows into the gradient of the values in an order that changes from call to "
        "call, as atomics do, although it promises repeatable gradients",
        remedy="Fix the order of the sum, or drop the promise.",
        law="attention.gradients_repeatable",
        functions=_order_alternates,
        guarantees=("mask-exact", "repeatable", "repeatable-backward"),
    ),
)
