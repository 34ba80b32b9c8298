"""Attention in which what is hidden leaves a trace, and rows that see nothing."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from attnspec.impls.faults.attention_steps import (
    Call,
    Results,
    averaged,
    by_results,
    by_visible,
    by_weights,
    hidden,
    largest,
    mean,
    normalised,
    scores,
    visible,
    weighted,
)
from attnspec.impls.faults.fault import Fault

TILE = 4


def _not_renormalised(given: Call) -> Results:
    if given.mask is None:
        return averaged(given, *weighted(hidden(scores(given), visible(given))))
    rest = replace(given, mask=None)
    weights, lse = weighted(hidden(scores(given), visible(rest)))
    return averaged(given, weights * given.mask, lse)


def _maximum_of_all_keys(given: Call) -> Results:
    everything = scores(given)
    return averaged(given, *normalised(hidden(everything, visible(given)), largest(everything)))


def _maximum_of_all_rows(masked: Tensor) -> Results:
    return normalised(masked, largest(masked.flatten()).reshape(1, 1, 1, 1))


def _ten_thousand(given: Call) -> Results:
    everything = hidden(scores(given), visible(replace(given, mask=None)))
    if given.mask is not None:
        everything = everything.masked_fill(~given.mask, -1e4)
    return averaged(given, *weighted(everything))


def _exponent_clamped(masked: Tensor) -> Results:
    seen = (masked > -torch.inf).any(-1)
    weights, lse = weighted(torch.maximum(masked, largest(masked) - 80.0))
    return weights * seen.unsqueeze(-1), lse.masked_fill(~seen, -torch.inf)


def _not_a_number(masked: Tensor) -> Results:
    if masked.shape[-1] == 0:
        return weighted(masked)
    shift = masked.detach().amax(-1, keepdim=True)
    numerators = (masked - shift).exp()
    total = numerators.sum(-1, keepdim=True)
    return numerators / total, (shift + total.log()).squeeze(-1)


def _zeroed_afterwards(given: Call) -> Results:
    seen = visible(given)
    weights, lse = _not_a_number(hidden(scores(given), seen))
    nothing = ~seen.any(-1)
    output = mean(given, weights).masked_fill(nothing.unsqueeze(-1), 0.0)
    return output, lse.masked_fill(nothing, -torch.inf)


def _first_key_instead(given: Call) -> Tensor:
    seen = visible(given)
    first = torch.arange(seen.shape[-1], device=seen.device) == 0
    return seen | (~seen.any(-1, keepdim=True) & first)


def _tile_skipped(given: Call) -> Tensor:
    seen = visible(given)
    if seen.shape[-2] == 1:
        return seen
    rows = torch.arange(seen.shape[-2], device=seen.device) // TILE * TILE
    return seen & seen.any(-1, keepdim=True)[..., rows, :]


def _zero_lse(masked: Tensor) -> Results:
    weights, lse = weighted(masked)
    return weights, lse.masked_fill(lse == -torch.inf, 0.0)


def _finite_lse(masked: Tensor) -> Results:
    weights, lse = weighted(masked)
    return weights, lse.clamp_min(-1e4)


FAULTS = (
    Fault(
        id="attention.mask_not_renormalised",
        component="attention",
        kind="K30",
        reason="sets hidden weights to zero after the softmax, so that the others sum to less than "
        "one",
        remedy="Mask before the softmax, or divide by the sum of what is left.",
        law="attention.mask_read_off",
        functions=by_results(_not_renormalised),
    ),
    Fault(
        id="attention.mask_is_ten_thousand",
        component="attention",
        kind="K02",
        reason="fills hidden scores with -10000, which is the largest there is where a row sees "
        "nothing, so that it averages hidden values; such a row is zero",
        remedy="Fill with -inf, and set rows that see nothing to zero.",
        law="attention.empty_rows",
        functions=by_results(_ten_thousand),
        report="ml-explore/mlx #2395",
    ),
    Fault(
        id="attention.mask_exponent_clamped",
        component="attention",
        kind="K04",
        reason="clamps the exponent at -80, so that hidden keys keep a weight of 1e-35; theirs is "
        "exactly zero",
        remedy="Set hidden weights to zero after the exponential, or don't clamp.",
        law="attention.mask_read_off",
        functions=by_weights(_exponent_clamped),
        dtypes=("float64", "float32", "bfloat16"),
    ),
    Fault(
        id="attention.maximum_of_hidden_keys",
        component="attention",
        kind="K04",
        reason="takes the maximum over hidden keys too, so that a large hidden score pushes the "
        "visible ones into underflow",
        remedy="Mask before the maximum is taken.",
        law="attention.hidden_keys_change_nothing",
        functions=by_results(_maximum_of_all_keys),
    ),
    Fault(
        id="attention.maximum_of_all_rows",
        component="attention",
        kind="K04",
        reason="subtracts the maximum of all rows, heads and batch entries, so that each depends "
        "on what the others hold",
        remedy="Take the maximum along the keys only.",
        law="attention.others_change_nothing",
        functions=by_weights(_maximum_of_all_rows),
    ),
    Fault(
        id="attention.empty_row_nan",
        component="attention",
        kind="K02",
        reason="divides zero by zero in a row that sees nothing, without declaring it; such a row "
        "is zero",
        remedy="Set the weights of such a row to zero, or declare that it is NaN.",
        law="attention.empty_rows",
        functions=by_weights(_not_a_number),
        report="pytorch/pytorch #103963",
    ),
    Fault(
        id="attention.empty_row_nan_gradient",
        component="attention",
        kind="K02",
        reason="sets a row that sees nothing to zero after a softmax that gave NaN there, so that "
        "its gradient is NaN and spreads to every key",
        remedy="Make the scores of such a row finite before the softmax, and zero its weights.",
        law="attention.gradients_of_empty_rows",
        functions=by_results(_zeroed_afterwards),
        report="Xilinx/brevitas #1591",
    ),
    Fault(
        id="attention.empty_row_sees_first_key",
        component="attention",
        kind="K02",
        reason="shows the first key to a row that sees nothing, against NaN; such a row is zero",
        remedy="Keep the key hidden, and set the weights of such a row to zero.",
        law="attention.empty_rows",
        functions=by_visible(_first_key_instead),
    ),
    Fault(
        id="attention.empty_row_skips_tile",
        component="attention",
        kind="K02",
        reason="skips four rows when the first of them sees nothing; the others may see keys",
        remedy="Skip a tile only when none of its rows sees a key.",
        law="attention.empty_rows",
        functions=by_visible(_tile_skipped),
    ),
    Fault(
        id="attention.empty_row_lse_zero",
        component="attention",
        kind="K02",
        reason="gives a row that sees nothing the log-sum-exp 0, that of one key with the score "
        "0; a sum over nothing has the logarithm -inf",
        remedy="Write -inf where the row sees nothing.",
        law="attention.empty_rows",
        functions=by_weights(_zero_lse),
        report="flashinfer-ai/flashinfer #363",
    ),
    Fault(
        id="attention.empty_row_lse_finite",
        component="attention",
        kind="K02",
        reason="starts the running maximum at -10000 in place of -inf and gives it out as the "
        "log-sum-exp of a row that sees nothing",
        remedy="Write -inf where the row sees nothing.",
        law="attention.empty_rows",
        functions=by_weights(_finite_lse),
    ),
)
