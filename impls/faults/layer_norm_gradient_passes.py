"""LayerNorm whose backward passes are right once, or for one row, and wrong then."""

from __future__ import annotations

from torch import Tensor

from attnspec.impls.faults import passes
from attnspec.impls.faults.passes import Run, fault
from attnspec.impls.layer_norm import layer_norm

ALL = ("x", "weight", "bias")


def _without_gain(run: Run) -> Run:
    """With weights of one, whose slopes are what they are."""

    def other(x: Tensor, *affine: Tensor) -> Tensor:
        ones = [1.0 + w - w.detach() for w in affine[:1]]
        return run(x, *ones, *affine[1:])

    return other


FAULTS = (
    fault("layer_norm", "added_to_grad", passes.ADDS, "gradients_accumulate",
          passes.adds_to_grad(layer_norm, ALL)),
    fault("layer_norm", "upstream_row_stride", passes.ROW_STRIDE, "gradients_of_views",
          passes.by_rule(layer_norm, ALL, passes.row_stride_alone)),
    fault("layer_norm", "carried_over", passes.CARRIES, "gradients_stay_apart",
          passes.by_rule(layer_norm, ALL, passes.carried)),
    fault(
        "layer_norm",
        "of_gradient_without_gain",
        (
            "K22",
            "leaves the gain out in the second backward pass",
            "Multiply by the gain wherever the first backward pass does.",
        ),
        "gradients_of_gradients",
        passes.derived_again(layer_norm, ALL, _without_gain),
    ),
)  # fmt: skip
