"""T5's bias whose backward pass is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.t5_bias import Bias, Functions, buckets_of, by_bias, kept
from attnspec.impls.faults.views import read_as_contiguous, used_up
from attnspec.impls.t5_bias import displacements, read

Rule = Callable[[Tensor, Tensor, Tensor], Tensor | None]
"""The gradient from the upstream one, `h t s`, the buckets, `t s`, and the table."""


class _Reading(torch.autograd.Function):
    """The right bias, and the gradient of some rule."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, buckets: Tensor, others: Tensor, rule: Rule) -> Tensor:
        ctx.save_for_backward(table, others)
        ctx.rule = rule
        return read(table, buckets)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        table, others = ctx.saved_tensors
        found = ctx.rule(upstream[0], others, table)
        return None if found is None else found.to(table.dtype), None, None, None


def reading(table: Tensor, buckets: Tensor, rule: Rule, others: Tensor | None = None) -> Tensor:
    """The right bias, with a gradient of some rule, which may be given other buckets."""
    given = buckets if others is None else others
    found: Tensor = _Reading.apply(table, buckets, given, rule)  # type: ignore[no-untyped-call]
    return found


def by_rule(rule: Rule) -> Functions:
    """A right bias with the gradient of some rule."""

    def bias(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
        buckets = buckets_of(table, displacements(table, t, s), both, longest)
        return reading(table, buckets, rule)

    return by_bias(bias)


def summed(upstream: Tensor, buckets: Tensor, table: Tensor) -> Tensor:
    """The right gradient, in float32 or wider: `num_buckets h`."""
    wide = upstream.to(torch.promote_types(upstream.dtype, torch.float32))
    sums = wide.new_zeros(table.shape)
    return sums.index_add_(0, buckets.flatten(), wide.permute(1, 2, 0).flatten(0, 1))


def _last_pair(upstream: Tensor, buckets: Tensor, table: Tensor) -> Tensor:
    places = torch.arange(buckets.numel(), device=buckets.device)
    last = places.new_full((table.shape[0],), -1)
    last = last.scatter_reduce(0, buckets.flatten(), places, "amax")
    values = upstream.permute(1, 2, 0).flatten(0, 1)
    if not values.numel():
        return torch.zeros_like(table)
    return values[last.clamp(min=0)] * (last >= 0)[:, None]


def _mean(upstream: Tensor, buckets: Tensor, table: Tensor) -> Tensor:
    pairs = summed(torch.ones_like(upstream), buckets, table)
    return summed(upstream, buckets, table) / pairs.clamp(min=1.0)


def _in_storage(upstream: Tensor, buckets: Tensor, table: Tensor) -> Tensor:
    sums = upstream.new_zeros(table.shape)
    rows = upstream.permute(1, 2, 0).flatten(0, 1)
    # a running sum for each row of pairs, and these in turn
    grid = rows.reshape(*buckets.shape, table.shape[1])
    for row, values in zip(buckets, grid, strict=True):
        sums = sums + sums.new_zeros(table.shape).index_add_(0, row, values)
    return sums


def _first_row_padding(upstream: Tensor, buckets: Tensor, table: Tensor) -> Tensor:
    rows = torch.arange(table.shape[0], device=table.device)
    return summed(upstream, buckets, table) * (rows > 0)[:, None]


def _as_contiguous(upstream: Tensor, buckets: Tensor, table: Tensor) -> Tensor:
    return summed(read_as_contiguous(upstream), buckets, table)


def _heads_reversed(upstream: Tensor, buckets: Tensor, table: Tensor) -> Tensor:
    return summed(upstream, buckets, table).flip(1)


def _first_head_for_all(upstream: Tensor, buckets: Tensor, table: Tensor) -> Tensor:
    return summed(upstream, buckets, table)[:, :1].expand(table.shape)


def _other_direction(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
    offsets = displacements(table, t, s)
    buckets = buckets_of(table, offsets, both, longest)
    # the bucket of one direction where both count, and of both where one does; a table of too few
    # rows has no such
    if table.shape[0] < 4:
        return reading(table, buckets, summed)
    return reading(table, buckets, summed, buckets_of(table, -offsets, both, longest))


def _buckets_of_latest_call() -> Bias:
    latest: list[Tensor] = []

    def rule(upstream: Tensor, _buckets: Tensor, table: Tensor) -> Tensor:
        kept = latest[0]
        t, s = upstream.shape[1:]
        # the buffer is as long as the longest call, and holds the buckets of the latest
        return summed(upstream, kept.flatten()[: t * s].reshape(t, s) % table.shape[0], table)

    def bias(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
        buckets = buckets_of(table, displacements(table, t, s), both, longest)
        if not latest or latest[0].numel() <= buckets.numel():
            latest[:] = [buckets.clone()]
        else:
            latest[0].flatten()[: buckets.numel()] = buckets.flatten()
        return reading(table, buckets, rule)

    return bias


FAULTS = (
    Fault(
        id="t5_bias.gradient_missing",
        component="t5_bias",
        kind="K21",
        reason="has no backward pass, so that the table is never trained, and no error",
        remedy="Add the upstream gradient up by bucket.",
        law="t5_bias.gradients_match_oracle",
        functions=by_rule(lambda upstream, buckets, table: None),
    ),
    Fault(
        id="t5_bias.gradient_of_last_pair",
        component="t5_bias",
        kind="K22",
        reason="writes the upstream gradient to the table's rows without adding up, so that only "
        "the last pair of a bucket counts",
        remedy="Accumulate: many pairs read one row.",
        law="t5_bias.gradient_counts",
        functions=by_rule(_last_pair),
    ),
    Fault(
        id="t5_bias.gradient_mean",
        component="t5_bias",
        kind="K22",
        reason="takes the mean over the pairs of a bucket; the gradient is their sum",
        remedy="Don't divide by the number of pairs.",
        law="t5_bias.gradient_counts",
        functions=by_rule(_mean),
    ),
    Fault(
        id="t5_bias.gradient_summed_in_storage",
        component="t5_bias",
        kind="K13",
        reason="keeps the running sums of the table's gradient in half precision, where they stop "
        "growing; sums run in float32",
        remedy="Accumulate in float32 and round once, or declare reductions: storage.",
        law="t5_bias.gradients_match_oracle",
        functions=by_rule(_in_storage),
        dtypes=("bfloat16", "float16"),
    ),
    Fault(
        id="t5_bias.gradient_of_first_row_zero",
        component="t5_bias",
        kind="K21",
        reason="gives bucket 0 no gradient, as an embedding with a padding index of 0 does",
        remedy="Read the table without a padding index.",
        law="t5_bias.gradients_adjoint",
        functions=by_rule(_first_row_padding),
    ),
    Fault(
        id="t5_bias.gradient_of_other_offsets",
        component="t5_bias",
        kind="K22",
        reason="computes the offsets again in the backward pass, with the other sign",
        remedy="Keep the buckets of the forward pass.",
        law="t5_bias.gradient_of_unread_rows",
        functions=by_bias(_other_direction),
    ),
    Fault(
        id="t5_bias.gradient_heads_reversed",
        component="t5_bias",
        kind="K22",
        reason="gives the gradient of each head to the head that many from the other end",
        remedy="Add up for each head apart, in its own column.",
        law="t5_bias.gradients_adjoint",
        functions=by_rule(_heads_reversed),
    ),
    Fault(
        id="t5_bias.gradient_of_first_head",
        component="t5_bias",
        kind="K22",
        reason="gives every head the gradient of the first one",
        remedy="Add up for each head apart.",
        law="t5_bias.gradients_match_oracle",
        functions=by_rule(_first_head_for_all),
    ),
    Fault(
        id="t5_bias.gradient_upstream_ignored",
        component="t5_bias",
        kind="K22",
        reason="starts from ones in place of the upstream gradient",
        remedy="Start from the gradient that is handed over.",
        law="t5_bias.zero_upstream",
        functions=by_rule(lambda g, buckets, table: summed(torch.ones_like(g), buckets, table)),
    ),
    Fault(
        id="t5_bias.gradient_upstream_as_contiguous",
        component="t5_bias",
        kind="K26",
        reason="takes the upstream gradient's strides for those of a fresh tensor",
        remedy="Use its strides, or copy what isn't contiguous.",
        law="t5_bias.gradients_of_views",
        functions=by_rule(_as_contiguous),
    ),
    Fault(
        id="t5_bias.gradient_overwrites_upstream",
        component="t5_bias",
        kind="K20",
        reason="uses the upstream gradient's memory as a buffer of its own",
        remedy="Write to a new tensor.",
        law="t5_bias.gradient_leaves_output",
        functions=by_rule(lambda g, buckets, table: summed(used_up(g), buckets, table)),
    ),
    Fault(
        id="t5_bias.gradient_of_latest_call",
        component="t5_bias",
        kind="K29",
        reason="keeps the buckets for the backward pass in a buffer that the next call overwrites",
        remedy="Keep them with the call, for its own backward pass.",
        law="t5_bias.gradients_between_calls",
        functions=kept(_buckets_of_latest_call),
    ),
)
