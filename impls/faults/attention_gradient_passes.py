"""Attention whose backward passes are right once, or for one head, and wrong then."""

from __future__ import annotations

from torch import Tensor

from attnspec.impls.attention import attention
from attnspec.impls.faults import passes
from attnspec.impls.faults.passes import Run, fault

ALL = ("q", "k", "v", "bias")


def _of_opposite_scores(run: Run) -> Run:
    """Weighs with the queries' signs exchanged."""

    def other(q: Tensor, *others: Tensor) -> Tensor:
        return run(-q, *others)

    return other


FAULTS = (
    fault("attention", "added_to_grad", passes.ADDS, "gradients_accumulate",
          passes.adds_to_grad(attention, ALL)),
    fault("attention", "carried_over", passes.CARRIES, "gradients_stay_apart",
          passes.by_rule(attention, ALL, passes.carried)),
    fault(
        "attention",
        "of_gradient_with_opposite_scores",
        (
            "K22",
            "computes the scores again with the wrong sign in the second backward pass",
            "Use the weights of the forward pass.",
        ),
        "gradients_of_gradients",
        passes.derived_again(attention, ALL, _of_opposite_scores),
    ),
)  # fmt: skip
