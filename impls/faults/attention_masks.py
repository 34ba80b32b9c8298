"""Attention that misreads its mask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attnspec.impls.faults.attention_steps import (
    Call,
    Functions,
    allowed,
    averaged,
    before,
    by_arguments,
    by_results,
    by_visible,
    hidden,
    in_window,
    offsets,
    scores,
    visible,
    weighted,
)
from attnspec.impls.faults.fault import Fault

TILE = 4


def by_mask(read: Callable[[Tensor, Call], Tensor]) -> Functions:
    """An attention that reads its mask in another way: four axes, of size one where it's the same
    for all."""

    def changed(given: Call) -> Call:
        if given.mask is None:
            return given
        mask = given.mask[(None,) * (4 - given.mask.ndim)]
        return replace(given, mask=read(mask, given))

    return by_arguments(changed)


def every_entry(mask: Tensor, given: Call) -> Tensor:
    """The mask, written out over batch entries and heads."""
    return mask.expand(*given.q.shape[:2], *mask.shape[2:])


def _added(given: Call) -> Tensor:
    return scores(given) if given.mask is None else scores(given) + given.mask


def _multiplied(given: Call) -> Tensor:
    return scores(given) if given.mask is None else scores(given) * given.mask


def _by_scores_alone(made: Callable[[Call], Tensor]) -> Functions:
    """An attention that knows its mask from other scores only."""
    return by_results(
        lambda given: averaged(
            given, *weighted(hidden(made(given), visible(replace(given, mask=None))))
        )
    )


def _of_other_order(mask: Tensor, given: Call) -> Tensor:
    batch, heads = given.q.shape[:2]
    written = every_entry(mask, given)
    return written.transpose(0, 1).reshape(batch, heads, *mask.shape[2:])


def _batch_for_heads(mask: Tensor, given: Call) -> Tensor:
    batch, heads = given.q.shape[:2]
    if mask.shape[0] == 1 or mask.shape[1] != 1 or heads % batch:
        return mask
    return mask.transpose(0, 1).repeat_interleave(heads // batch, 1)


def _queries_too(mask: Tensor, given: Call) -> Tensor:
    length, keys = given.lengths
    padding = mask.shape[-2] == 1 and mask.shape[-1] == length == keys
    return mask & mask.mT if padding else mask


def _first_columns(mask: Tensor, given: Call) -> Tensor:
    _, keys = given.lengths
    return mask | (torch.arange(keys, device=mask.device) >= 32)


def _corners_of_tiles(mask: Tensor, given: Call) -> Tensor:
    if mask.shape[-2] == 1 or mask.shape[-1] == 1:
        return mask
    seen = mask.clone()
    for row in range(0, mask.shape[-2], TILE):
        for key in range(0, mask.shape[-1], TILE):
            tile = seen[..., row : row + TILE, key : key + TILE]
            tile |= tile[..., :1, :1] & tile[..., -1:, -1:]
    return seen


def _first_of_two_rows(mask: Tensor, given: Call) -> Tensor:
    rows = torch.arange(mask.shape[-2], device=mask.device)
    return mask[..., rows // 2 * 2, :]


def _transposed(mask: Tensor, given: Call) -> Tensor:
    return mask.mT if mask.shape[-1] == mask.shape[-2] else mask


def _either(given: Call) -> Tensor:
    if given.mask is None or not given.causal:
        return visible(given)
    distance = offsets(given)
    part = given.mask | before(given, distance)
    return part & in_window(given, distance) & allowed(replace(given, mask=None))


FAULTS = (
    Fault(
        id="attention.mask_polarity",
        component="attention",
        kind="K03",
        reason="takes True for hidden; True means that the query may see the key",
        remedy="Negate the mask where it's turned into -inf.",
        law="attention.mask_eq_subset",
        functions=by_mask(lambda mask, given: ~mask),
    ),
    Fault(
        id="attention.mask_added",
        component="attention",
        kind="K03",
        reason="adds a bool mask to the scores as 0 and 1; False removes the key",
        remedy="Fill scores with -inf where a bool mask is False; add floats only.",
        law="attention.bool_mask_eq_infinite_bias",
        functions=_by_scores_alone(_added),
        report="mlverse/torch #1208",
    ),
    Fault(
        id="attention.mask_multiplied",
        component="attention",
        kind="K03",
        reason="multiplies the scores by the mask, so that hidden keys have the score 0 and not "
        "the weight 0",
        remedy="Fill scores with -inf where the mask is False.",
        law="attention.hidden_keys_change_nothing",
        functions=_by_scores_alone(_multiplied),
    ),
    Fault(
        id="attention.mask_of_first_entry",
        component="attention",
        kind="K26",
        reason="reads the mask of the first batch entry for all when its head axis has size 1",
        remedy="Step through the mask by its own batch stride, also when the heads share it.",
        law="attention.permutation_of_batch",
        functions=by_mask(lambda mask, given: mask[:1] if mask.shape[1] == 1 else mask),
        report="pytorch/pytorch #184180",
    ),
    Fault(
        id="attention.mask_of_first_head",
        component="attention",
        kind="K03",
        reason="reads the mask of the first head for all; a mask may differ from head to head",
        remedy="Index the mask by head unless that axis has size 1.",
        law="attention.permutation_of_heads",
        functions=by_mask(lambda mask, given: mask[:, :1]),
    ),
    Fault(
        id="attention.mask_head_major",
        component="attention",
        kind="K03",
        reason="joins batch and heads with the batch outside, but reads the mask with the heads "
        "outside, so that entries get each other's mask",
        remedy="Fold both axes of the mask in the order of those of the queries.",
        law="attention.permutation_of_batch",
        functions=by_mask(_of_other_order),
        report="lsdefine/attention-is-all-you-need-keras #36",
    ),
    Fault(
        id="attention.mask_batch_for_heads",
        component="attention",
        kind="K03",
        reason="takes the first axis of a mask per batch entry for that of the heads where the "
        "sizes allow it",
        remedy="Align the axes of the mask from the last, and take b h t s in this order.",
        law="attention.broadcast_eq_expanded",
        functions=by_mask(_batch_for_heads),
    ),
    Fault(
        id="attention.mask_blocks_queries",
        component="attention",
        kind="K03",
        reason="hides padding along the queries as well as along the keys, so that rows at "
        "padding see nothing",
        remedy="Apply a padding mask to keys only.",
        law="attention.broadcast_eq_expanded",
        functions=by_mask(_queries_too),
        report="pytorch/pytorch #63271",
    ),
    Fault(
        id="attention.mask_first_columns",
        component="attention",
        kind="K29",
        reason="reads the first 32 columns of the mask only, so that later keys are always seen",
        remedy="Load the mask for every tile of keys.",
        law="attention.hidden_keys_change_nothing",
        functions=by_mask(_first_columns),
        report="vllm-project/vllm-ascend #15503",
    ),
    Fault(
        id="attention.mask_corners_of_tiles",
        component="attention",
        kind="K03",
        reason="takes a tile for fully visible when its first and last entry are, so that what is "
        "hidden between them is seen",
        remedy="Test all entries of a tile before its mask is left out.",
        law="attention.hidden_keys_change_nothing",
        functions=by_mask(_corners_of_tiles),
        report="pytorch/pytorch #108503",
    ),
    Fault(
        id="attention.mask_first_of_two_rows",
        component="attention",
        kind="K03",
        reason="loads one row of the mask for two neighbouring queries",
        remedy="Load the mask of each query's own row.",
        law="attention.mask_eq_subset",
        functions=by_mask(_first_of_two_rows),
    ),
    Fault(
        id="attention.mask_transposed",
        component="attention",
        kind="K03",
        reason="indexes the mask by key and query where it should be query and key",
        remedy="Keep queries on the axis before the last.",
        law="attention.mask_eq_subset",
        functions=by_mask(_transposed),
    ),
    Fault(
        id="attention.mask_or_causal",
        component="attention",
        kind="K03",
        reason="shows a key that the mask or `causal` lets be seen; it takes both",
        remedy="Combine the two by `and`.",
        law="attention.matches_oracle",
        functions=by_visible(_either),
    ),
)
