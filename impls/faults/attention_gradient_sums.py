"""Attention whose gradients are missing, or not summed over all that they come from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnspec.impls.faults.attention_backward import (
    Gradients,
    Known,
    by_backward,
    members,
    of_bias,
    of_keys,
    of_queries,
    of_values,
    weights,
)
from attnspec.impls.faults.fault import Fault

QUERIES = 16
"""Queries of a tile."""
HALVES = ("bfloat16", "float16")


def without(*missing: int) -> Callable[[Known, Gradients], Gradients]:
    """No gradient for some of q, k, v and bias."""

    def finished(known: Known, gradients: Gradients) -> Gradients:
        q, k, v, bias = (None if i in missing else x for i, x in enumerate(gradients))
        return q, k, v, bias

    return finished


def by_member(chosen: Callable[[Tensor], Tensor]) -> Callable[[Tensor, int], Tensor]:
    """Something else than the sum over the query heads that share a key head: `b g r s x` to
    `b g s x`."""

    def over_members(x: Tensor, groups: int) -> Tensor:
        split = members(x, groups)
        return chosen(split) if split.shape[2] else split.sum(2)

    return over_members


def _tiled(x: Tensor, groups: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1] // max(groups, 1), groups, *x.shape[2:]).sum(1)


def _tiles_in_storage(known: Known, gradients: Gradients) -> Gradients:
    q, k, _, bias = gradients
    p, storage = weights(known), known.given.storage
    total = torch.zeros_like(known.given.v, dtype=storage)
    tiles = zip(torch.split(p, QUERIES, -2), torch.split(known.upstream, QUERIES, -2), strict=True)
    for of_tile, upstream in tiles:
        for member in members(of_tile.mT @ upstream, known.given.v.shape[1]).unbind(2):
            total = (total + member).to(storage)
    return q, k, total.to(p.dtype), bias


def _zero_keys(known: Known, dc: Tensor) -> Tensor:
    return torch.zeros_like(of_keys(known, dc))


def _without_last_key(known: Known, dc: Tensor) -> Tensor:
    keys = torch.arange(dc.shape[-1], device=dc.device)
    kept = (keys < dc.shape[-1] - 1) | torch.tensor(dc.shape[-1] < 2, device=dc.device)
    return of_queries(known, dc * kept)


def full_tiles(x: Tensor) -> Tensor:
    """Gradients of the scores `b h t s`, zero past the last full tile of queries."""
    length = x.shape[-2]
    rows = torch.arange(length, device=x.device)
    return x * (rows < (length // QUERIES * QUERIES or length))[:, None]


def last_tile(x: Tensor) -> Tensor:
    """Gradients of the scores `b h t s`, zero before the last tile of queries."""
    length = x.shape[-2]
    rows = torch.arange(length, device=x.device)
    return x * (rows >= max(length - 1, 0) // QUERIES * QUERIES)[:, None]


def last_row_that_sees(x: Tensor) -> Tensor:
    """`b h t s`, each key's last entry that isn't zero alone."""
    later = (x != 0).flip(-2).cumsum(-2).flip(-2)
    return x * (later == 1)


def _values_in_storage(known: Known, p: Tensor) -> Tensor:
    storage = known.given.storage
    total = torch.zeros_like(of_values(known, p), dtype=storage)
    for row in range(p.shape[-2]):
        step = p[..., row, :, None] * known.upstream[..., row, None, :]
        total = (total + step).to(storage)
    return total.to(p.dtype)


def _bias_of_last(known: Known, ds: Tensor) -> Tensor | None:
    bias = known.given.bias
    if bias is None or ds.numel() == 0:
        return of_bias(known, ds)
    for axis, size in enumerate(bias.shape[-3:-1][::-1]):
        if size == 1:
            ds = ds.narrow(-2 - axis, ds.shape[-2 - axis] - 1, 1)
    return ds.sum_to_size(bias.shape)


def _bias_of_first_entry(known: Known, ds: Tensor) -> Tensor | None:
    bias = known.given.bias
    shared = bias is not None and (bias.ndim < 4 or bias.shape[0] == 1)
    if not shared or ds.numel() == 0:
        return of_bias(known, ds)
    first = torch.arange(ds.shape[0], device=ds.device) == 0
    return of_bias(known, ds * first[:, None, None, None])


def _bias_mean(known: Known, ds: Tensor) -> Tensor | None:
    found = of_bias(known, ds)
    if found is None or ds.numel() == 0:
        return found
    return found * (found.numel() / ds.numel())


FAULTS = (
    Fault(
        id="attention.gradient_of_values_missing",
        component="attention",
        kind="K21",
        reason="gives no gradient for the values, as a fused kernel that was written for the "
        "scores alone",
        remedy="Return the transposed weights times the upstream gradient.",
        law="attention.gradients_match_oracle",
        functions=by_backward(finished=without(2)),
        report="huggingface/candle #3591",
    ),
    Fault(
        id="attention.gradient_of_keys_zero",
        component="attention",
        kind="K21",
        reason="returns the buffer of the keys' gradient without having written to it: zeros",
        remedy="Return the transposed dS times Q.",
        law="attention.gradients_of_scores_adjoint",
        functions=by_backward(of_keys=_zero_keys),
    ),
    Fault(
        id="attention.gradient_of_bias_missing",
        component="attention",
        kind="K21",
        reason="takes the bias for a constant and gives it no gradient",
        remedy="Return dS, summed over the axes that the bias shares.",
        law="attention.gradients_match_oracle",
        functions=by_backward(finished=without(3)),
    ),
    Fault(
        id="attention.gradient_of_bias_of_last",
        component="attention",
        kind="K22",
        reason="writes the gradient of a shared bias where it should add, so that the last query "
        "and the last head win",
        remedy="Sum dS over the axes that the bias shares.",
        law="attention.gradients_match_oracle",
        functions=by_backward(of_bias=_bias_of_last),
    ),
    Fault(
        id="attention.gradient_of_bias_of_first_entry",
        component="attention",
        kind="K22",
        reason="gives a bias that all batch entries share the gradient of the first",
        remedy="Sum dS over the batch where the bias has one entry.",
        law="attention.gradients_match_oracle",
        functions=by_backward(of_bias=_bias_of_first_entry),
    ),
    Fault(
        id="attention.gradient_of_bias_mean",
        component="attention",
        kind="K22",
        reason="averages dS over the axes that the bias shares; its gradient is their sum",
        remedy="Sum dS over those axes.",
        law="attention.gradients_match_oracle",
        functions=by_backward(of_bias=_bias_mean),
    ),
    Fault(
        id="attention.gradient_of_keys_last_of_group",
        component="attention",
        kind="K22",
        reason="writes the gradient of a key head once for each query head of its group, so that "
        "the last one wins",
        remedy="Sum over the query heads of the group.",
        law="attention.gradients_of_scores_adjoint",
        functions=by_backward(keys_over_group=by_member(lambda split: split[:, :, -1])),
        report="marin-community/levanter #449",
    ),
    Fault(
        id="attention.gradient_of_values_first_of_group",
        component="attention",
        kind="K22",
        reason="takes the gradient of a value head from the first query head of its group alone",
        remedy="Sum over the query heads of the group.",
        law="attention.gradients_of_values_adjoint",
        functions=by_backward(values_over_group=by_member(lambda split: split[:, :, 0])),
    ),
    Fault(
        id="attention.gradient_group_mean",
        component="attention",
        kind="K22",
        reason="averages the gradients of a group's query heads; those of keys and values are "
        "their sums",
        remedy="Sum over the query heads of the group.",
        law="attention.gradients_of_values_adjoint",
        functions=by_backward(
            keys_over_group=by_member(lambda split: split.mean(2)),
            values_over_group=by_member(lambda split: split.mean(2)),
        ),
    ),
    Fault(
        id="attention.gradient_heads_tiled",
        component="attention",
        kind="K06",
        reason="takes group and member apart in the other order in the backward pass, which is "
        "right only when there are as many of both",
        remedy="Use one map of heads in both passes.",
        law="attention.gradients_match_oracle",
        functions=by_backward(keys_over_group=_tiled, values_over_group=_tiled),
    ),
    Fault(
        id="attention.gradient_writes_shared_keys",
        component="attention",
        kind="K22",
        reason="writes the gradients of keys and values where it should add, so that of all "
        "queries that see a key the last one wins",
        remedy="Sum over all queries that see the key.",
        law="attention.gradients_of_values_adjoint",
        functions=by_backward(
            of_keys=lambda known, dc: of_keys(known, last_row_that_sees(dc)),
            of_values=lambda known, p: of_values(known, last_row_that_sees(p)),
        ),
        report="NVIDIA/cudnn-frontend #385",
    ),
    Fault(
        id="attention.gradient_without_last_key",
        component="attention",
        kind="K25",
        reason="stops one key early in the gradient of the queries",
        remedy="Let the loop run up to and including the last key.",
        law="attention.gradients_of_scores_adjoint",
        functions=by_backward(of_queries=_without_last_key),
    ),
    Fault(
        id="attention.gradient_query_tail_lost",
        component="attention",
        kind="K25",
        reason="counts tiles of sixteen queries by rounding down in the gradients of keys and "
        "values",
        remedy="Round the number of tiles up, and mask the rows beyond the end.",
        law="attention.gradients_of_values_adjoint",
        functions=by_backward(
            of_keys=lambda known, dc: of_keys(known, full_tiles(dc)),
            of_values=lambda known, p: of_values(known, full_tiles(p)),
        ),
    ),
    Fault(
        id="attention.gradient_last_tile_only",
        component="attention",
        kind="K22",
        reason="starts the gradients of keys and values anew in every tile of sixteen queries, so "
        "that the last tile's is all that is left",
        remedy="Clear them before the loop over tiles.",
        law="attention.long_sums",
        functions=by_backward(
            of_keys=lambda known, dc: of_keys(known, last_tile(dc)),
            of_values=lambda known, p: of_values(known, last_tile(p)),
        ),
        report="tenstorrent/tt-metal #53215",
    ),
    Fault(
        id="attention.gradient_of_values_in_storage",
        component="attention",
        kind="K13",
        reason="adds up the gradient of the values over the queries in half precision, where it "
        "stops growing",
        remedy="Accumulate in float32, or declare reductions in storage.",
        law="attention.long_sums",
        functions=by_backward(of_values=_values_in_storage),
        dtypes=HALVES,
    ),
    Fault(
        id="attention.gradient_group_in_storage",
        component="attention",
        kind="K13",
        reason="adds tile after tile of a group's query heads to a gradient of the values that is "
        "kept in bfloat16",
        remedy="Accumulate in float32, or declare reductions in storage.",
        law="attention.long_sums",
        functions=by_backward(finished=_tiles_in_storage),
        dtypes=("bfloat16",),
    ),
)
