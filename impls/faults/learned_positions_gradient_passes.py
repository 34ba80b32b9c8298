"""Learned positions whose backward passes are right once, or for one call, and wrong then."""

from __future__ import annotations

from torch import Tensor

from attnspec.impls.faults import passes
from attnspec.impls.faults.passes import Run, fault
from attnspec.impls.learned_positions import learned_positions

TABLE = ("table",)


def _of_rows_reversed(run: Run) -> Run:
    """Reads the rows from the other end."""

    def other(table: Tensor) -> Tensor:
        return run(table.flip(0))

    return other


FAULTS = (
    fault("learned_positions", "added_to_grad", passes.ADDS, "gradients_accumulate",
          passes.adds_to_grad(learned_positions, TABLE)),
    fault("learned_positions", "of_latest_call", passes.LATEST, "gradients_between_calls",
          passes.of_latest(learned_positions, TABLE)),
    fault(
        "learned_positions",
        "of_gradient_rows_reversed",
        (
            "K22",
            "counts the rows from the end of the table in the second backward pass",
            "Read the rows by the positions of the forward pass.",
        ),
        "gradients_of_gradients",
        passes.derived_again(learned_positions, TABLE, _of_rows_reversed),
    ),
)  # fmt: skip
