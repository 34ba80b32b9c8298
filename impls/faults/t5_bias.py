"""T5's bias that reads other entries of its table, or changes them on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.impls import t5_bias as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.t5_bias import displacements, read
from attnspec.impls.t5_bucket import t5_bucket

Functions = Callable[[], Mapping[str, Callable[..., Any]]]
Bias = Callable[[Tensor, int, int, bool, int], Tensor]
"""From the table, queries, keys, whether both directions count, and max_distance."""

TILE = 16
"""Queries of one tile."""


def by_bias(bias: Bias) -> Functions:
    """The wrong function under the contract's signature, beside the right buckets."""

    def t5_bias(
        table: Tensor, t: int, s: int, *, bidirectional: bool = True, max_distance: int = 128
    ) -> Tensor:
        return bias(table, t, s, bidirectional, max_distance)

    return lambda: {"t5_bias": t5_bias, "t5_bucket": t5_bucket}


def kept(made: Callable[[], Bias]) -> Functions:
    """A function with memory, which starts without it."""

    def functions() -> Mapping[str, Callable[..., Any]]:
        return by_bias(made())()

    return functions


def bias_of(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
    """The right bias."""
    return right.t5_bias(table, t, s, bidirectional=both, max_distance=longest)


def buckets_of(table: Tensor, offsets: Tensor, both: bool, longest: int) -> Tensor:
    """The right buckets of offsets, for a table with a row for each."""
    return t5_bucket(offsets, bidirectional=both, num_buckets=table.shape[0], max_distance=longest)


def at_offsets(offsets: Callable[[Tensor, int, int], Tensor]) -> Functions:
    """A bias that reads the right buckets of other offsets, `t s`, from table, t and s."""
    return by_bias(
        lambda table, t, s, both, longest: read(
            table, buckets_of(table, offsets(table, t, s), both, longest)
        )
    )


def with_rows(rows: Callable[[Tensor, Tensor, bool, int], Tensor]) -> Functions:
    """A bias that reads other rows, from table, offsets, directions and max_distance."""
    return by_bias(
        lambda table, t, s, both, longest: read(
            table, rows(table, displacements(table, t, s), both, longest)
        )
    )


def _from_first_key(table: Tensor, t: int, s: int) -> Tensor:
    keys = torch.arange(s, device=table.device)
    return keys - keys[:t, None]


def _over_queries(table: Tensor, t: int, s: int) -> Tensor:
    # what is computed for one query and one key fits any number of keys
    return displacements(table, t, s) if t > 1 else torch.zeros_like(displacements(table, t, s))


def _one_late(table: Tensor, t: int, s: int) -> Tensor:
    return displacements(table, t, s) - int(s > t)


def _in_tiles(table: Tensor, t: int, s: int) -> Tensor:
    queries = torch.arange(t, device=table.device)
    # every tile has the positions of the first one
    return displacements(table, t, s) + (queries // TILE * TILE)[:, None]


def _laid_out_by_keys(table: Tensor, t: int, s: int) -> Tensor:
    return displacements(table, t, s).transpose(0, 1).reshape(t, s)


def _every_offset_later(table: Tensor, offsets: Tensor, both: bool, longest: int) -> Tensor:
    found = buckets_of(table, offsets, both, longest)
    return torch.where(offsets == 0, table.shape[0] // 2, found) if both else found


def _as_32(table: Tensor, offsets: Tensor, both: bool, longest: int) -> Tensor:
    found = t5_bucket(offsets, bidirectional=both, num_buckets=32, max_distance=max(longest, 17))
    return found.clamp(max=table.shape[0] - 1)


def _fixed_distance(table: Tensor, offsets: Tensor, both: bool, longest: int) -> Tensor:
    return buckets_of(table, offsets, both, max(128, table.shape[0]))


def _heads_by_memory(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
    entries = bias_of(table, t, s, both, longest).permute(1, 2, 0)
    return entries.reshape(table.shape[1], t, s)


def _table_by_memory(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
    turned = table.reshape(table.shape[1], table.shape[0]).transpose(0, 1)
    return bias_of(turned, t, s, both, longest)


def _first_head(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
    return bias_of(table[:, :1], t, s, both, longest).expand(table.shape[1], t, s)


def _half_precision(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
    return bias_of(table.to(torch.bfloat16), t, s, both, longest).to(table.dtype)


def _scaled(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
    scale: float = table.shape[1] ** -0.5
    return bias_of(table, t, s, both, longest) * scale


def _zero_beyond(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
    near = displacements(table, t, s).abs() < longest
    return bias_of(table, t, s, both, longest) * near


def _later_hidden(table: Tensor, t: int, s: int, both: bool, longest: int) -> Tensor:
    found = bias_of(table, t, s, both, longest)
    if both:
        return found
    return found.masked_fill(displacements(table, t, s) > 0, float("-inf"))


FAULTS = (
    Fault(
        id="t5_bias.queries_from_first_key",
        component="t5_bias",
        kind="K17",
        reason="puts the first query at the first key, so that in decoding the new token has the "
        "bias of position 0; the last query sits at the last key",
        remedy="Add the number of earlier keys, s - t, to the position of each query.",
        law="t5_bias.decode_row",
        functions=at_offsets(_from_first_key),
        report="huggingface/candle #899",
    ),
    Fault(
        id="t5_bias.built_over_queries",
        component="t5_bias",
        kind="K17",
        reason="builds the bias over as many keys as queries: of one query it is one number, which "
        "fits every key of a cache",
        remedy="Build the bias over all keys, those of the cache included.",
        law="t5_bias.decode_row",
        functions=at_offsets(_over_queries),
        report="keras-team/keras-hub #2861",
    ),
    Fault(
        id="t5_bias.queries_one_late",
        component="t5_bias",
        kind="K17",
        reason="puts the queries one position further on where there are keys in a cache",
        remedy="Let the last query sit at the last key: position i + s - t.",
        law="t5_bias.decode_row",
        functions=at_offsets(_one_late),
    ),
    Fault(
        id="t5_bias.query_minus_key",
        component="t5_bias",
        kind="K17",
        reason="takes the offset for the query's position minus the key's; it is the key's minus "
        "the query's",
        remedy="Subtract the query's position from the key's.",
        law="t5_bias.reads_its_buckets",
        functions=at_offsets(lambda table, t, s: -displacements(table, t, s)),
    ),
    Fault(
        id="t5_bias.tiles_from_zero",
        component="t5_bias",
        kind="K25",
        reason="counts the queries of each tile of 16 from the start of the first tile",
        remedy="Add the tile's first query to the positions within it.",
        law="t5_bias.of_displacement",
        functions=at_offsets(_in_tiles),
    ),
    Fault(
        id="t5_bias.laid_out_by_keys",
        component="t5_bias",
        kind="K07",
        reason="computes offsets keys by queries and reads that memory as queries by keys",
        remedy="Transpose the two axes, don't reshape them.",
        law="t5_bias.of_displacement",
        functions=at_offsets(_laid_out_by_keys),
    ),
    Fault(
        id="t5_bias.zero_counts_as_later",
        component="t5_bias",
        kind="K17",
        reason="counts the query's own position as later, so that it reads the row "
        "num_buckets // 2, which no pair should",
        remedy="Compare with > 0, not with >= 0.",
        law="t5_bias.unread_rows_change_nothing",
        functions=with_rows(_every_offset_later),
    ),
    Fault(
        id="t5_bias.as_many_buckets_as_t5",
        component="t5_bias",
        kind="K29",
        reason="computes 32 buckets whatever the number of the table's rows",
        remedy="Take num_buckets from the table.",
        law="t5_bias.reads_its_buckets",
        functions=with_rows(_as_32),
    ),
    Fault(
        id="t5_bias.max_distance_ignored",
        component="t5_bias",
        kind="K29",
        reason="accepts `max_distance` and uses 128 whatever it says",
        remedy="Hand max_distance on to the buckets, or refuse other values.",
        law="t5_bias.matches_oracle",
        functions=with_rows(_fixed_distance),
    ),
    Fault(
        id="t5_bias.one_direction_ignored",
        component="t5_bias",
        kind="K29",
        reason="accepts `bidirectional` and computes buckets of both directions whatever it says",
        remedy="Hand bidirectional on to the buckets: False for a decoder.",
        law="t5_bias.reads_its_buckets",
        functions=with_rows(lambda table, x, both, longest: buckets_of(table, x, True, longest)),
    ),
    Fault(
        id="t5_bias.heads_by_memory",
        component="t5_bias",
        kind="K07",
        reason="reads memory of queries by keys by heads as heads by queries by keys",
        remedy="Permute the axes, don't reshape them.",
        law="t5_bias.head_alone",
        functions=by_bias(_heads_by_memory),
    ),
    Fault(
        id="t5_bias.table_by_memory",
        component="t5_bias",
        kind="K07",
        reason="reads the table as heads by buckets; it is buckets by heads",
        remedy="Take the bucket as the index of the first axis.",
        law="t5_bias.matches_oracle",
        functions=by_bias(_table_by_memory),
    ),
    Fault(
        id="t5_bias.first_head_for_all",
        component="t5_bias",
        kind="K17",
        reason="gives every head the bias of the first one",
        remedy="Read one column of the table for each head.",
        law="t5_bias.head_alone",
        functions=by_bias(_first_head),
    ),
    Fault(
        id="t5_bias.table_in_bfloat16",
        component="t5_bias",
        kind="K12",
        reason="rounds the table to bfloat16 before it is read; entries come back as they are",
        remedy="Read the table in its own dtype.",
        law="t5_bias.matches_oracle",
        functions=by_bias(_half_precision),
        dtypes=("float64", "float32", "float16"),
    ),
    Fault(
        id="t5_bias.scaled_by_heads",
        component="t5_bias",
        kind="K05",
        reason="multiplies the bias by a scale; entries come back as they are",
        remedy="Leave the bias as it is read; T5 scales neither it nor the scores.",
        law="t5_bias.matches_oracle",
        functions=by_bias(_scaled),
    ),
    Fault(
        id="t5_bias.nothing_beyond_max_distance",
        component="t5_bias",
        kind="K17",
        reason="gives keys from max_distance on a bias of 0; they are in the last bucket",
        remedy="Let the last bucket hold every distance beyond it.",
        law="t5_bias.matches_oracle",
        functions=by_bias(_zero_beyond),
    ),
    Fault(
        id="t5_bias.later_keys_hidden",
        component="t5_bias",
        kind="K01",
        reason="hides later keys in one direction; that is the mask's to do, the bias of later "
        "keys is that of bucket 0",
        remedy="Leave causality to the mask.",
        law="t5_bias.matches_oracle",
        functions=by_bias(_later_hidden),
    ),
)
