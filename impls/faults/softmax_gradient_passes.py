"""Softmax whose backward passes are right once, or for one call, and wrong then."""

from __future__ import annotations

import torch
from torch import Tensor

from attnspec.impls.faults import passes
from attnspec.impls.faults.passes import Grads, Run, fault, pulled
from attnspec.impls.softmax import softmax

X = ("x",)
LONG = 512
"""Entries from which on a row is taken in one running sum."""


def _of_fixed_weights(run: Run) -> Run:
    """Linear in x, with weights that do not change."""

    def other(x: Tensor) -> Tensor:
        return run(x).detach() * x

    return other


def _row_term_in_storage(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: tuple[bool, ...]
) -> Grads:
    """Along the last axis, whichever the call has, where that is a long one."""
    (x,) = tensors
    if x.shape[-1] < LONG:
        return pulled(run, tensors, upstream)
    weights = run(x).detach()
    total = torch.zeros_like(weights[..., 0])
    for term in (weights * upstream).unbind(-1):
        total = total + term
    return (weights * (upstream - total.unsqueeze(-1)),)


FAULTS = (
    fault("softmax", "added_to_grad", passes.ADDS, "gradients_accumulate",
          passes.adds_to_grad(softmax, X)),
    fault("softmax", "of_latest_call", passes.LATEST, "gradients_between_calls",
          passes.of_latest(softmax, X)),
    fault("softmax", "carried_over", passes.CARRIES, "gradients_stay_apart",
          passes.by_rule(softmax, X, passes.carried)),
    fault(
        "softmax",
        "of_gradient_without_row_term",
        (
            "K22",
            "leaves the row's sum out of the second backward pass, which multiplies by the weights",
            "Derive the second backward pass from all of P (dP - sum of P dP).",
        ),
        "gradients_of_gradients",
        passes.derived_again(softmax, X, _of_fixed_weights),
    ),
    fault(
        "softmax",
        "row_term_in_storage",
        (
            "K13",
            "keeps the running sum of P dP of a long row in half precision, where it stops growing",
            "Add up in float32.",
        ),
        "gradients_long_sums",
        passes.by_rule(softmax, X, _row_term_in_storage),
        dtypes=("bfloat16",),
    ),
)  # fmt: skip
