"""T5's bias whose backward passes are right once and wrong then."""

from __future__ import annotations

from torch import Tensor

from attnspec.impls.faults import passes
from attnspec.impls.faults.passes import Run, fault
from attnspec.impls.t5_bias import t5_bias

TABLE = ("table",)


def _of_heads_reversed(run: Run) -> Run:
    """Reads every head's numbers from the head that many from the other end."""

    def other(table: Tensor) -> Tensor:
        return run(table.flip(1))

    return other


FAULTS = (
    fault("t5_bias", "added_to_grad", passes.ADDS, "gradients_accumulate",
          passes.adds_to_grad(t5_bias, TABLE)),
    fault(
        "t5_bias",
        "of_gradient_heads_reversed",
        (
            "K22",
            "reverses the heads in the second backward pass",
            "Read each head's own column.",
        ),
        "gradients_of_gradients",
        passes.derived_again(t5_bias, TABLE, _of_heads_reversed),
    ),
)  # fmt: skip
