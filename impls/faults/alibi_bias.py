"""Wrong implementations of alibi_bias: distances, signs, alignment, slopes and heads."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.alibi_bias import alibi_bias as right
from attnspec.impls.alibi_bias import offsets
from attnspec.impls.alibi_slopes import alibi_slopes, alibi_slopes_geometric, working_dtype
from attnspec.impls.attention import attention
from attnspec.impls.faults.fault import Fault

Device = torch.device | str | None
Functions = Callable[[], Mapping[str, Callable[..., Any]]]
Slopes = Callable[..., Tensor]


def by_offsets(
    cost: Callable[[Tensor], Tensor], *, slopes: Slopes = alibi_slopes, **more: Any
) -> Functions:
    """Slopes times what is made of the offsets of keys from queries, t s, in the dtype of the
    computation; `more` are right functions to go with it."""

    def alibi_bias(
        n_heads: int, t: int, s: int, *, dtype: torch.dtype | None = None, device: Device = None
    ) -> Tensor:
        wide = working_dtype(dtype)
        slope = slopes(n_heads, dtype=wide, device=device).to(wide)
        steps = cost(offsets(t, s, device=device).to(wide))
        return (slope[:, None, None] * steps).to(dtype or torch.float32)

    return lambda: {"alibi_bias": alibi_bias, **more}


def by_slopes(change: Callable[[Tensor], Tensor], **more: Any) -> Functions:
    """Right distances, and slopes with one thing done to them."""

    def slopes(n_heads: int, *, dtype: torch.dtype, device: Device) -> Tensor:
        return change(alibi_slopes(n_heads, dtype=dtype, device=device))

    return by_offsets(lambda steps: -steps.abs(), slopes=slopes, **more)


def by_change(change: Callable[[Tensor], Tensor]) -> Functions:
    """A right bias with one thing done to it: h t s."""

    def alibi_bias(
        n_heads: int, t: int, s: int, *, dtype: torch.dtype | None = None, device: Device = None
    ) -> Tensor:
        return change(right(n_heads, t, s, dtype=dtype, device=device))

    return lambda: {"alibi_bias": alibi_bias}


def _from_query_index(steps: Tensor) -> Tensor:
    t, s = steps.shape
    return -(steps + (s - t)).abs()


def _over_queries_alone(bias: Tensor) -> Tensor:
    h, t, s = bias.shape
    return torch.cat((bias.new_zeros(h, t, s - t), bias[..., s - t :]), -1)


def _positions_in_storage(
    n_heads: int, t: int, s: int, *, dtype: torch.dtype | None = None, device: Device = None
) -> Tensor:
    stored = dtype or torch.float32
    keys = torch.arange(s, device=device).to(stored)
    slope = alibi_slopes(n_heads, dtype=working_dtype(dtype), device=device)
    steps = (keys - keys[s - t :, None]).abs().to(slope.dtype)
    return (-slope[:, None, None] * steps).to(stored)


def _running_sum_in_storage(
    n_heads: int, t: int, s: int, *, dtype: torch.dtype | None = None, device: Device = None
) -> Tensor:
    slope = alibi_slopes(n_heads, dtype=dtype, device=device)
    costs, cost = [], torch.zeros_like(slope)
    for _ in range(s):
        costs.append(cost)
        cost = cost - slope
    return torch.stack(costs, -1)[:, offsets(t, s, device=device).abs()]


def _rounded(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    return lambda steps: -steps.abs().to(dtype).to(steps.dtype)


def _fault(name: str, kind: str, law: str, functions: Functions, **more: Any) -> Fault:
    return Fault(
        id=f"alibi_bias.{name}",
        component="alibi_bias",
        kind=kind,
        law=f"alibi_bias.{law}",
        functions=functions,
        **more,
    )


FAULTS = (
    _fault(
        "bonus", "K17", "falls_with_distance",
        by_offsets(lambda steps: steps.abs()),
        reason="adds slope times distance in place of subtracting it, so that the farthest key is "
        "favored",
        remedy="Return minus slope times distance.",
    ),
    _fault(
        "future_bonus", "K17", "mirrored",
        by_offsets(lambda steps: steps),
        reason="lacks the absolute value, so that keys after the query get a bonus where nothing "
        "hides them, as in an encoder",
        remedy="Take the absolute value, or declare alibi.future=unspecified if keys after the "
        "query are always masked.",
    ),
    _fault(
        "future_hidden", "K17", "mirrored",
        by_change(lambda bias: bias.masked_fill(
            offsets(*bias.shape[1:], device=bias.device) > 0, -math.inf)),
        reason="hides the keys after the query by minus infinity; a bias is no mask",
        remedy="Leave causality to the mask, or declare alibi.future=unspecified.",
    ),
    _fault(
        "by_key_position", "K17", "zero_diagonal",
        by_offsets(lambda steps: steps[-1:] + (steps.shape[1] - 1) + steps * 0),
        reason="takes slope times the position of the key, which does the same under a causal mask "
        "alone",
        remedy="Take the distance from the query, or declare alibi.row_constant=free and "
        "alibi.future=unspecified.",
        report="ofirpress/attention_with_linear_biases #5",
    ),
    _fault(
        "one_step_off", "K17", "zero_diagonal",
        by_offsets(lambda steps: -(steps - 1).abs()),
        reason="counts a query's own key as one step away",
        remedy="Subtract positions that both count from 0.",
    ),
    _fault(
        "squared_distance", "K17", "linear_in_distance",
        by_offsets(lambda steps: -steps * steps),
        reason="takes the square of the distance",
        remedy="Take its absolute value.",
    ),
    _fault(
        "distance_clipped", "K17", "falls_with_distance",
        by_offsets(lambda steps: -steps.abs().clamp(max=16)),
        reason="clips the distance at 16, as a table of relative positions does; ALiBi's penalty "
        "goes on",
        remedy="Leave the distance as it is.",
    ),
    _fault(
        "from_query_index", "K17", "last_rows",
        by_offsets(_from_query_index),
        reason="places query i at position i; with a cache of s - t keys it is at i + s - t",
        remedy="Add the length of the cache to the positions of the queries.",
    ),
    _fault(
        "over_queries_alone", "K17", "last_rows",
        by_change(_over_queries_alone),
        reason="builds the bias over the new tokens and gives the keys of the cache 0, so that one "
        "query at a time has no bias at all",
        remedy="Build it over the positions of all keys.",
        report="keras-team/keras-hub #2861",
    ),
    _fault(
        "divided_by_length", "K17", "longer_text",
        by_offsets(lambda steps: -steps.abs() / steps.shape[1]),
        reason="divides distances by the number of keys",
        remedy="Count distances in tokens.",
    ),
    _fault(
        "read_as_keys_by_queries", "K17", "moved_together",
        by_change(lambda bias: bias.transpose(1, 2).reshape(bias.shape)),
        reason="writes keys by queries and reads queries by keys",
        remedy="Have the keys on the last axis.",
    ),
    _fault(
        "heads_reversed", "K17", "slope_a_step",
        by_slopes(lambda slopes: slopes.flip(0), alibi_slopes=alibi_slopes),
        reason="gives the first head the slope of the last one",
        remedy="Keep the order of the slopes.",
    ),
    _fault(
        "one_slope_for_all", "K17", "slope_a_step",
        by_slopes(lambda slopes: slopes[:1].expand_as(slopes), alibi_slopes=alibi_slopes),
        reason="gives every head the slope of the first one",
        remedy="Index the slopes by the head.",
    ),
    _fault(
        "slopes_geometric", "K17", "matches_oracle",
        by_offsets(lambda steps: -steps.abs(), slopes=alibi_slopes_geometric),
        reason="takes the slopes 2^(-8k/h) at head counts that are no power of two too",
        remedy="Follow the paper's rule, or declare alibi.slopes=geometric.",
        report="baichuan-inc/Baichuan2 #225",
    ),
    _fault(
        "in_base_two", "K17", "attention_by_key",
        by_offsets(lambda steps: -steps.abs() * math.log2(math.e), attention=attention),
        reason="has the factor log2(e) of a kernel that takes powers of two, where the scores have "
        "none",
        remedy="Multiply scores and bias alike, after they are added.",
    ),
    _fault(
        "slopes_in_bfloat16", "K12", "matches_oracle",
        by_slopes(lambda slopes: slopes.to(torch.bfloat16)),
        reason="keeps the slopes in bfloat16 whatever the dtype of the bias",
        remedy="Keep the slopes in float32 and cast the bias.",
        dtypes=("float64", "float32", "float16"),
    ),
    _fault(
        "distances_in_bfloat16", "K12", "matches_oracle",
        by_offsets(_rounded(torch.bfloat16)),
        reason="rounds distances to bfloat16, where neighbours beyond 256 become the same number",
        remedy="Keep distances as integers or in float32 until they meet the slopes.",
        dtypes=("float64", "float32", "float16"),
    ),
    _fault(
        "distances_in_float16", "K12", "matches_oracle",
        by_offsets(_rounded(torch.float16)),
        reason="rounds distances to float16, where neighbours beyond 2048 become the same number",
        remedy="Keep distances as integers or in float32 until they meet the slopes.",
        dtypes=("float64", "float32"),
    ),
    _fault(
        "positions_in_storage", "K12", "moved_together",
        lambda: {"alibi_bias": _positions_in_storage},
        reason="rounds positions to half precision before it subtracts them, so that near keys of "
        "late queries are off by several steps",
        remedy="Subtract positions as integers.",
        dtypes=("bfloat16", "float16"),
    ),
    _fault(
        "running_sum_in_storage", "K13", "matches_oracle",
        lambda: {"alibi_bias": _running_sum_in_storage},
        reason="subtracts the slope step by step in half precision, so that roundings add up and "
        "far penalties stop to grow",
        remedy="Multiply the slope by the distance in float32.",
        dtypes=("bfloat16", "float16"),
    ),
)  # fmt: skip
