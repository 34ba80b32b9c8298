"""Softmax whose backward passes are right once, or for one call, and wrong then."""

from __future__ import annotations

from torch import Tensor

from attnspec.impls.faults import passes
from attnspec.impls.faults.passes import Run, fault
from attnspec.impls.softmax import softmax

X = ("x",)


def _of_fixed_weights(run: Run) -> Run:
    """Linear in x, with weights that do not change."""

    def other(x: Tensor) -> Tensor:
        return run(x).detach() * x

    return other


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
)  # fmt: skip
