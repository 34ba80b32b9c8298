"""Learned positions with the right rows, and a wrong gradient of their table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import learned_positions as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.learned_positions import Functions, by_lookup
from attnspec.impls.faults.views import read_as_contiguous, used_up

Rule = Callable[[Tensor, Tensor, Tensor], Tensor]
"""The gradient of the table from the upstream one, positions and table."""


class _Lookup(torch.autograd.Function):
    """The right rows, and the gradient of some rule."""

    @staticmethod
    def forward(ctx: Any, positions: Tensor, table: Tensor, rule: Rule) -> Tensor:
        ctx.save_for_backward(positions, table)
        ctx.rule = rule
        return right.learned_positions(positions, table)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        positions, table = ctx.saved_tensors
        return None, ctx.rule(upstream[0], positions, table).to(table.dtype), None


def by_gradient(rule: Rule) -> Functions:
    """A right lookup whose gradient follows a rule."""

    def lookup(positions: Tensor, table: Tensor) -> Tensor:
        found: Tensor = _Lookup.apply(positions, table, rule)  # type: ignore[no-untyped-call]
        return found

    return by_lookup(lookup)


def added_up(upstream: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    """The right gradient."""
    wide = torch.promote_types(table.dtype, torch.float32)
    total = torch.zeros(table.shape, dtype=wide, device=table.device)
    return total.index_add(0, positions, upstream.to(wide)).to(table.dtype)


def _read(positions: Tensor, table: Tensor) -> Tensor:
    """How often each row was read, as a column."""
    return torch.bincount(positions, minlength=len(table)).unsqueeze(-1)


def _last_reader(upstream: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    total = torch.zeros_like(table)
    total[positions] = upstream
    return total


def _mean(upstream: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    return added_up(upstream, positions, table) / _read(positions, table).clamp_min(1)


def _first_row_zero(upstream: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    rows = torch.arange(len(table), device=table.device).unsqueeze(-1)
    return added_up(upstream, positions, table).where(rows > 0, 0.0)


def _last_reader_left_out(upstream: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    kept = max(len(positions) - 1, 1)
    return added_up(upstream[:kept], positions[:kept], table)


def _by_index(upstream: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    counted = torch.arange(len(positions), device=positions.device) % len(table)
    return added_up(upstream, counted, table)


def _on_every_row(upstream: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    total = added_up(upstream, positions, table)
    spread = total.mean(dim=0, keepdim=True)
    return total.where(_read(positions, table) > 0, spread)


def _decayed(upstream: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    return added_up(upstream, positions, table) + 0.01 * table


def _summed_in_storage(upstream: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    total = torch.zeros_like(table)
    for token in range(len(positions)):
        total = total.index_add(0, positions[token : token + 1], upstream[token : token + 1])
    return total


FAULTS = (
    Fault(
        id="learned_positions.gradient_missing",
        component="learned_positions",
        kind="K21",
        reason="gives the table a gradient of zeros, so that it is never learned",
        remedy="Add the upstream gradient to the rows that were read.",
        law="learned_positions.gradients_match_oracle",
        functions=by_gradient(lambda upstream, positions, table: torch.zeros_like(table)),
    ),
    Fault(
        id="learned_positions.gradient_of_last_reader",
        component="learned_positions",
        kind="K22",
        reason="assigns to the rows in place of adding, so that of several tokens at one position "
        "only the last counts",
        remedy="Accumulate: index_add, or atomic additions.",
        law="learned_positions.gradient_counts_readers",
        functions=by_gradient(_last_reader),
    ),
    Fault(
        id="learned_positions.gradient_mean",
        component="learned_positions",
        kind="K22",
        reason="divides each row's gradient by the number of tokens that read it",
        remedy="Add the upstream gradients up, and don't divide.",
        law="learned_positions.gradient_counts_readers",
        functions=by_gradient(_mean),
    ),
    Fault(
        id="learned_positions.gradient_last_token_left_out",
        component="learned_positions",
        kind="K25",
        reason="stops one token before the end when it adds up",
        remedy="Let the loop run over all tokens.",
        law="learned_positions.gradient_counts_readers",
        functions=by_gradient(_last_reader_left_out),
    ),
    Fault(
        id="learned_positions.gradient_of_first_row_zero",
        component="learned_positions",
        kind="K21",
        reason="takes row 0 for padding, which has no gradient; position 0 is a position",
        remedy="Leave padding_idx out, or reserve rows that no position reads.",
        law="learned_positions.gradients_match_oracle",
        functions=by_gradient(_first_row_zero),
        report="huggingface/transformers #36537",
    ),
    Fault(
        id="learned_positions.gradient_by_index",
        component="learned_positions",
        kind="K09",
        reason="adds the upstream of token i to row i, whatever row it read",
        remedy="Scatter by the positions that the forward pass read.",
        law="learned_positions.gradient_of_unread_rows",
        functions=by_gradient(_by_index),
    ),
    Fault(
        id="learned_positions.gradient_on_every_row",
        component="learned_positions",
        kind="K23",
        reason="gives rows that no token read the mean gradient of all; theirs is exactly zero",
        remedy="Leave the gradient of other rows at zero.",
        law="learned_positions.gradient_of_unread_rows",
        functions=by_gradient(_on_every_row),
    ),
    Fault(
        id="learned_positions.gradient_decayed",
        component="learned_positions",
        kind="K20",
        reason="adds a hundredth of the table to its gradient",
        remedy="Leave weight decay to the optimizer.",
        law="learned_positions.zero_upstream",
        functions=by_gradient(_decayed),
    ),
    Fault(
        id="learned_positions.gradient_summed_in_storage",
        component="learned_positions",
        kind="K13",
        reason="rounds the running sum of a row's gradient to half precision after each token, "
        "although it promises sums in float32",
        remedy="Add up in float32 and round once, or declare the field reductions as storage.",
        law="learned_positions.gradients_match_oracle",
        functions=by_gradient(_summed_in_storage),
        dtypes=("bfloat16", "float16"),
    ),
    Fault(
        id="learned_positions.gradient_upstream_as_contiguous",
        component="learned_positions",
        kind="K26",
        reason="takes the strides of a fresh tensor for granted in the upstream gradient",
        remedy="Use the upstream's strides, or copy it when it isn't contiguous.",
        law="learned_positions.gradients_of_views",
        functions=by_gradient(
            lambda upstream, positions, table: added_up(
                read_as_contiguous(upstream), positions, table
            )
        ),
    ),
    Fault(
        id="learned_positions.gradient_overwrites_upstream",
        component="learned_positions",
        kind="K20",
        reason="uses the upstream gradient's memory as a buffer in its backward pass",
        remedy="Leave the upstream gradient as it is.",
        law="learned_positions.gradient_leaves_output",
        functions=by_gradient(
            lambda upstream, positions, table: added_up(used_up(upstream), positions, table)
        ),
    ),
)
