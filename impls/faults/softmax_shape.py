"""Softmax that is wrong along some axis, block, tile or tail."""

from __future__ import annotations

import torch
from torch import Tensor

from attnspec.impls import softmax as right
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.softmax import by_call, by_rows, normalised, shifted
from attnspec.impls.softmax import BLOCK

SHORT = 4
"""Length of a block in the faults of the one-pass form."""


def _query_axis(x: Tensor, *, dim: int = -1) -> Tensor:
    other = dim % x.ndim - 1 if x.ndim > 1 else dim
    return right.softmax(x, dim=other)


def _negative_from_front(x: Tensor, *, dim: int = -1) -> Tensor:
    return right.softmax(x, dim=min(abs(dim), x.ndim - 1))


def _dim_ignored(x: Tensor, *, dim: int = -1) -> Tensor:
    return right.softmax(x)


def _first_block_only(rows: Tensor) -> Tensor:
    weights = right.softmax(rows[..., :1024])
    return torch.cat((weights, torch.zeros_like(rows[..., 1024:])), -1)


def _last_dropped(rows: Tensor) -> Tensor:
    if rows.shape[-1] == 1:
        return torch.ones_like(rows)
    kept = normalised(shifted(rows[..., :-1]).exp())
    return torch.nn.functional.pad(kept, (0, 1))


def _padding_counted(rows: Tensor) -> Tensor:
    padded = torch.nn.functional.pad(rows, (0, -rows.shape[-1] % 8))
    return normalised(shifted(padded).exp())[..., : rows.shape[-1]]


def _partial_tile_of_rows(rows: Tensor) -> Tensor:
    weights = normalised(shifted(rows).exp()).reshape(-1, rows.shape[-1])
    full = len(weights) // BLOCK * BLOCK or len(weights)
    reached = torch.arange(len(weights), device=rows.device) < full
    return weights.masked_fill(~reached[:, None], 0.0).reshape(rows.shape)


def _first_row_of_tile(rows: Tensor) -> Tensor:
    numerators = shifted(rows).exp().reshape(-1, rows.shape[-1])
    sums = numerators.sum(-1, keepdim=True)
    first = torch.arange(len(sums), device=rows.device) // 2 * 2
    return (numerators / sums[first]).reshape(rows.shape)


def _empty_block(rows: Tensor) -> Tensor:
    maximum = torch.full_like(rows[..., :1].detach(), -torch.inf)
    total = torch.zeros_like(maximum)
    for block in torch.split(rows, SHORT, -1):
        raised = torch.maximum(maximum, block.detach().amax(-1, keepdim=True))
        sum_of_block = (block - raised).exp().sum(-1, keepdim=True)
        total = total * (maximum - raised).exp() + sum_of_block
        maximum = raised
    return (rows - maximum).exp() / total


def _finite_maximum(rows: Tensor, so_far: Tensor) -> Tensor:
    """The running maximum, with zero while there is none, as the reference has it."""
    raised = torch.maximum(so_far, rows.detach().amax(-1, keepdim=True))
    return raised.masked_fill(raised == -torch.inf, 0.0)


def _not_rescaled(rows: Tensor) -> Tensor:
    total = torch.zeros_like(rows[..., :1])
    maximum = torch.full_like(rows[..., :1].detach(), -torch.inf)
    for block in torch.split(rows, SHORT, -1):
        maximum = torch.maximum(maximum, block.detach().amax(-1, keepdim=True))
        shift = _finite_maximum(block, maximum)
        total = total + (block - shift).exp().sum(-1, keepdim=True)
    return (rows - maximum).exp() / total


def _small_steps_not_rescaled(rows: Tensor) -> Tensor:
    total = torch.zeros_like(rows[..., :1])
    maximum = torch.full_like(rows[..., :1].detach(), -torch.inf)
    for block in torch.split(rows, SHORT, -1):
        shift = _finite_maximum(block, maximum)
        step = maximum - shift
        kept = torch.where(step >= -1.0, torch.ones_like(step), step.exp())
        total = total * kept + (block - shift).exp().sum(-1, keepdim=True)
        maximum = torch.maximum(maximum, block.detach().amax(-1, keepdim=True))
    return (rows - maximum).exp() / total


def _last_block_only(rows: Tensor) -> Tensor:
    numerators = shifted(rows).exp()
    last = torch.split(numerators, SHORT, -1)[-1]
    # a block of nothing but zeros is passed over, as a kernel that skips masked blocks does
    total = last.sum(-1, keepdim=True)
    whole = numerators.sum(-1, keepdim=True)
    return numerators / torch.where(total > 0, total, whole)


def _partial_block_skipped(rows: Tensor) -> Tensor:
    numerators = shifted(rows).exp()
    full = rows.shape[-1] // SHORT * SHORT or rows.shape[-1]
    total = numerators[..., :full].sum(-1, keepdim=True)
    whole = numerators.sum(-1, keepdim=True)
    return numerators / torch.where(total > 0, total, whole)


FAULTS = (
    Fault(
        id="softmax.query_axis",
        component="softmax",
        kind="K30",
        reason="normalises along the axis before the one asked for, so that columns sum to one "
        "and rows to anything; the weights of each query sum to one over its keys",
        remedy="Reduce maximum and sum along the axis that `dim` names.",
        law="softmax.rows_sum_to_one",
        functions=by_call(_query_axis),
        report="labmlai/annotated_deep_learning_paper_implementations #146",
    ),
    Fault(
        id="softmax.negative_axis_from_front",
        component="softmax",
        kind="K30",
        reason="takes a negative axis for its absolute value; -1 is the last axis, not the second",
        remedy="Add the number of axes to a negative `dim`.",
        law="softmax.any_axis",
        functions=by_call(_negative_from_front),
    ),
    Fault(
        id="softmax.dim_ignored",
        component="softmax",
        kind="K29",
        reason="accepts `dim` and works along the last axis whatever it says",
        remedy="Move the axis that `dim` names to the end first, or refuse other axes.",
        law="softmax.any_axis",
        functions=by_call(_dim_ignored),
    ),
    Fault(
        id="softmax.last_entry_dropped",
        component="softmax",
        kind="K25",
        reason="stops one entry before the end of a row, which gets weight zero",
        remedy="Let the loop run up to and including the last entry.",
        law="softmax.matches_oracle",
        functions=by_rows(_last_dropped),
    ),
    Fault(
        id="softmax.long_rows_cut",
        component="softmax",
        kind="K25",
        reason="holds a row in one block of 1024 entries; those beyond get weight zero and are "
        "missing from the sum",
        remedy="Loop over blocks of the row, or refuse rows that are longer.",
        law="softmax.matches_oracle",
        functions=by_rows(_first_block_only),
    ),
    Fault(
        id="softmax.padding_counted",
        component="softmax",
        kind="K25",
        reason="pads rows with zeros to a multiple of eight and counts them in the normaliser; "
        "padding has the weight zero, so it's -inf before the exponential",
        remedy="Pad with -inf, or mask the lanes beyond the end of the row.",
        law="softmax.rows_sum_to_one",
        functions=by_rows(_padding_counted),
    ),
    Fault(
        id="softmax.partial_tile_of_rows",
        component="softmax",
        kind="K25",
        reason="counts tiles of sixteen rows by rounding down, so that rows past the last full "
        "tile are never computed",
        remedy="Round the number of tiles up, and mask the rows beyond the end.",
        law="softmax.rows_sum_to_one",
        functions=by_rows(_partial_tile_of_rows),
        report="tenstorrent/tt-metal #53208",
    ),
    Fault(
        id="softmax.first_row_of_tile",
        component="softmax",
        kind="K25",
        reason="divides the two rows of a tile by the normaliser of the first; each row has its "
        "own",
        remedy="Keep one normaliser a row, and broadcast it along the row.",
        law="softmax.row_alone",
        functions=by_rows(_first_row_of_tile),
    ),
    Fault(
        id="softmax.empty_block",
        component="softmax",
        kind="K02",
        reason="starts from a maximum of -inf and meets a block of nothing but -inf, where the "
        "difference of both is NaN; such a block adds nothing",
        remedy="Shift by zero as long as the running maximum is -inf.",
        law="softmax.minus_infinity_gets_zero",
        functions=by_rows(_empty_block),
    ),
    Fault(
        id="softmax.not_rescaled",
        component="softmax",
        kind="K24",
        reason="adds blocks that were shifted by different maxima; what has been summed so far "
        "must be rescaled when a later block raises the maximum",
        remedy="Multiply the running sum by exp(old maximum - new maximum).",
        law="softmax.rows_sum_to_one",
        functions=by_rows(_not_rescaled),
    ),
    Fault(
        id="softmax.small_steps_not_rescaled",
        component="softmax",
        kind="K24",
        reason="leaves the running sum as it is where the maximum rises by one or less, but uses "
        "the new maximum from there on",
        remedy="Rescale on every rise, or keep the old maximum as the shift when not rescaling.",
        law="softmax.matches_oracle",
        functions=by_rows(_small_steps_not_rescaled),
    ),
    Fault(
        id="softmax.last_block_only",
        component="softmax",
        kind="K24",
        reason="starts the sum anew in every block, so that the normaliser is that of the last "
        "one and weights exceed one",
        remedy="Initialise the running sum before the loop over blocks.",
        law="softmax.positive_and_at_most_one",
        functions=by_rows(_last_block_only),
    ),
    Fault(
        id="softmax.partial_block_skipped",
        component="softmax",
        kind="K25",
        reason="leaves the entries past the last full block of four out of the normaliser",
        remedy="Round the number of blocks up, and mask the entries beyond the end.",
        law="softmax.rows_sum_to_one",
        functions=by_rows(_partial_block_skipped),
    ),
)
