"""RMSNorm whose backward pass is wrong about the gradient of the weight."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnspec.impls.faults.rms_norm import Functions
from attnspec.impls.faults.rms_norm_backward import (
    BLOCK,
    Saved,
    by_rule,
    fault,
    of_weight,
    of_x,
)


def by_weight(rule: Callable[[Saved], Tensor | None]) -> Functions:
    """A right gradient of x beside another one of the weight."""
    return by_rule(lambda saved: (of_x(saved), rule(saved)))


def products(saved: Saved) -> Tensor:
    """What is added up over the rows."""
    return saved.upstream * saved.normalised


def _running(saved: Saved) -> Tensor:
    total = torch.zeros_like(saved.gain, dtype=saved.storage)
    for row in products(saved).unbind(0):
        total = (total + row).to(saved.storage)
    return total


def _full_blocks(saved: Saved) -> Tensor:
    rows = products(saved)
    return rows[: len(rows) // BLOCK * BLOCK or None].sum(0)


def _one_of_several(saved: Saved) -> Tensor:
    rows = products(saved)
    # programs write their sums to the same place: the last of them stays
    return rows[(len(rows) - 1) // BLOCK * BLOCK :].sum(0)


FAULTS = (
    fault(
        "of_weight_from_x",
        "K22",
        "adds up upstream times x, before it was normalised",
        "Use the normalised value.",
        "weight_adjoint",
        by_weight(lambda saved: (saved.upstream * saved.x).sum(0)),
    ),
    fault(
        "of_weight_from_result",
        "K22",
        "adds up upstream times the result, in which the gain is already",
        "Use the normalised value, before the gain.",
        "weight_adjoint",
        by_weight(lambda saved: (products(saved) * saved.gain).sum(0)),
    ),
    fault(
        "of_weight_without_upstream",
        "K22",
        "adds up the normalised values without the upstream gradient",
        "Multiply by the upstream gradient.",
        "zero_upstream",
        by_weight(lambda saved: saved.normalised.sum(0)),
    ),
    fault(
        "of_weight_mean",
        "K22",
        "takes the mean over the rows in place of the sum",
        "Add up over the rows.",
        "weight_gradient_counts_rows",
        by_weight(lambda saved: of_weight(saved) / max(len(saved.x), 1)),
    ),
    fault(
        "of_weight_in_storage",
        "K13",
        "keeps the running sum over rows in half precision, where it stops growing",
        "Add up in float32 and round once, or declare the field reductions as storage.",
        "weight_gradient_counts_rows",
        by_weight(_running),
        dtypes=("bfloat16", "float16"),
    ),
    fault(
        "of_weight_partial_block",
        "K25",
        "leaves the rows past the last full block of 32 out",
        "Round the number of blocks up, and mask the rows beyond the end.",
        "weight_gradient_counts_rows",
        by_weight(_full_blocks),
    ),
    fault(
        "of_weight_last_block",
        "K22",
        "lets every block of 32 rows write its sum to the same place, so that that of the last "
        "block stays",
        "Add the blocks' sums up.",
        "weight_gradient_counts_rows",
        by_weight(_one_of_several),
    ),
    fault(
        "of_weight_missing",
        "K21",
        "has no gradient of the weight, which is then never trained",
        "Return the sum over the rows of upstream and normalised value.",
        "gradients_match_oracle",
        by_weight(lambda saved: None),
    ),
)
