"""RMSNorm whose backward passes are right once, or for one row, and wrong then."""

from __future__ import annotations

from torch import Tensor

from attnspec.impls.faults import passes
from attnspec.impls.faults.passes import Run, fault
from attnspec.impls.rms_norm import rms_norm

ALL = ("x", "weight")


def _without_gain(run: Run) -> Run:
    """With weights of one, whose slopes are what they are."""

    def other(x: Tensor, *affine: Tensor) -> Tensor:
        ones = [1.0 + w - w.detach() for w in affine[:1]]
        return run(x, *ones, *affine[1:])

    return other


FAULTS = (
    fault("rms_norm", "added_to_grad", passes.ADDS, "gradients_accumulate",
          passes.adds_to_grad(rms_norm, ALL)),
    fault("rms_norm", "upstream_row_stride", passes.ROW_STRIDE, "gradients_of_views",
          passes.by_rule(rms_norm, ALL, passes.row_stride_alone)),
    fault("rms_norm", "carried_over", passes.CARRIES, "gradients_stay_apart",
          passes.by_rule(rms_norm, ALL, passes.carried)),
    fault(
        "rms_norm",
        "of_gradient_without_gain",
        (
            "K22",
            "leaves the gain out in the second backward pass",
            "Multiply by the gain wherever the first backward pass does.",
        ),
        "gradients_of_gradients",
        passes.derived_again(rms_norm, ALL, _without_gain),
    ),
)  # fmt: skip
