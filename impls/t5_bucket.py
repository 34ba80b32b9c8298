"""T5's buckets of relative positions, counted in whole numbers and by a logarithm.

Raffel et al., *Exploring the limits of transfer learning with a unified text-to-text transformer*
(2020), section 2.1 and its code: the first half of a side's buckets holds one distance each, the
others widen geometrically up to `max_distance`, and the last one has no end.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor


def t5_bucket(
    relative_position: Tensor,
    *,
    bidirectional: bool = True,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> Tensor:
    """Integers of any shape (a key's position minus its query's) to int64 of that shape.

    In both directions later keys have the second half of the buckets; in one they share bucket 0.
    Raises ValueError for sizes without a wide bucket to count from.
    """
    distance, later, side = sides(relative_position, bidirectional, num_buckets)
    firsts = torch.tensor(
        first_distances(side, max_distance), dtype=torch.int64, device=distance.device
    )
    return later + torch.bucketize(distance, firsts, right=True)


def t5_bucket_by_logarithm(
    relative_position: Tensor,
    *,
    bidirectional: bool = True,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> Tensor:
    """As `t5_bucket`, by a logarithm in float32: where a distance lies on a threshold, or just
    below one, the bucket may be one off. At the default sizes no distance does."""
    distance, later, side = sides(relative_position, bidirectional, num_buckets)
    single = single_distances(side, max_distance)
    # kept from log 0; such distances are their own bucket
    quotient = distance.clamp(min=single).to(torch.float32) / single
    share = torch.log(quotient) / math.log(max_distance / single)
    wide = single + (share * (side - single)).to(torch.int64)
    return later + torch.where(distance < single, distance, wide.clamp(max=side - 1))


def sides(
    relative_position: Tensor, bidirectional: bool, num_buckets: int
) -> tuple[Tensor, Tensor, int]:
    """Distance from the query, the first bucket of the key's side, and the buckets of a side."""
    offset = relative_position.to(torch.int64)
    if not bidirectional:
        return (-offset).clamp(min=0), torch.zeros_like(offset), num_buckets
    side = num_buckets // 2
    return offset.abs(), side * (offset > 0), side


def single_distances(side: int, max_distance: int) -> int:
    """How many buckets of a side hold one distance. Raises ValueError where nothing is left to
    start a logarithm from, or to end it at."""
    single = side // 2
    if not 1 <= single < max_distance:
        raise ValueError(
            f"{side} buckets a side and max_distance {max_distance}: expected at least 2 buckets "
            f"and a distance beyond the single ones, of which there are {single}"
        )
    return single


@lru_cache(maxsize=256)
def first_distances(side: int, max_distance: int) -> tuple[int, ...]:
    """The first distance of each bucket of a side but the first."""
    single = single_distances(side, max_distance)
    wide = side - single
    # of a wide one the first a with (a / single)^wide >= (max_distance / single)^above
    powers = (max_distance**above * single ** (wide - above) for above in range(1, wide))
    return (*range(1, single + 1), *(_root(power, wide) for power in powers))


def _root(power: int, degree: int) -> int:
    """The least whole number whose power is no less."""
    low, high = 0, 1
    while high**degree < power:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if middle**degree < power:
            low = middle
        else:
            high = middle
    return high
