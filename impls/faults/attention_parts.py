"""Attention whose tiles or parts of the keys are put together wrongly."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnspec.impls.faults.attention_steps import (
    Call,
    Functions,
    Results,
    averaged,
    by_results,
    hidden,
    repeated,
    scores,
    visible,
    weighted,
)
from attnspec.impls.faults.fault import Fault

KEYS = 4
"""Keys of a tile, and of a part."""


def by_tiles(results: Callable[[Call, list[Tensor], list[Tensor]], Results]) -> Functions:
    """An attention in one pass: its results from the scores, -inf where hidden, and the values of
    each tile of keys."""

    def whole(given: Call) -> Results:
        masked = hidden(scores(given), visible(given))
        values = repeated(given.v, given.q.shape[1])
        return results(
            given, list(torch.split(masked, KEYS, -1)), list(torch.split(values, KEYS, -2))
        )

    return by_results(whole)


Part = tuple[Tensor, Tensor, Tensor]
"""Sum of weighted values `b h t e`, sum of weights and maximum `b h t 1`."""


def start(scores: Tensor, values: Tensor) -> Part:
    """Before any tile."""
    zeros = torch.zeros_like(scores[..., :1])
    output = zeros * torch.zeros_like(values[..., :1, :])
    return output, zeros, torch.full_like(zeros, -torch.inf)


def finite(maximum: Tensor) -> Tensor:
    """A maximum to subtract: 0 while there is none."""
    return maximum.masked_fill(maximum == -torch.inf, 0.0)


def finished(output: Tensor, total: Tensor, maximum: Tensor) -> Results:
    """Output and log-sum-exp of all tiles."""
    nothing = total == 0
    total = total.masked_fill(nothing, 1.0)
    lse = (finite(maximum) + total.log()).masked_fill(nothing, -torch.inf)
    return output / total, lse.squeeze(-1)


def by_steps(rescaled: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Functions:
    """An attention in one pass, in which `rescaled(old maximum, new one)` gives the factors of the
    output and of the sum so far. The old one is -inf before anything is seen."""

    def results(given: Call, tiles: list[Tensor], values: list[Tensor]) -> Results:
        output, total, maximum = start(tiles[0], values[0])
        for masked, value in zip(tiles, values, strict=True):
            raised = torch.maximum(maximum, masked.detach().amax(-1, keepdim=True))
            numerators = (masked - finite(raised)).exp()
            of_output, of_total = rescaled(maximum, finite(raised))
            output = output * of_output + numerators @ value
            total = total * of_total + numerators.sum(-1, keepdim=True)
            maximum = raised
        return finished(output, total, maximum)

    return by_tiles(results)


def by_parts(merged: Callable[[Tensor, Tensor], Tensor]) -> Functions:
    """An attention over parts of the keys, each with its own softmax. `merged` gives the weights
    of the parts from their log-sum-exps `parts b h t`, and the log-sum-exp of all."""

    def results(given: Call, tiles: list[Tensor], values: list[Tensor]) -> Results:
        parts = [weighted(masked) for masked in tiles]
        outputs = torch.stack(
            [weights @ value for (weights, _), value in zip(parts, values, strict=True)]
        )
        found = torch.stack([part for _, part in parts])
        whole = torch.logsumexp(found, 0)
        return (merged(found, whole).unsqueeze(-1) * outputs).sum(0), whole

    return by_tiles(results)


def shares(parts: Tensor, whole: Tensor) -> Tensor:
    """The weight of each part: exp of its log-sum-exp, over that of all."""
    return (parts - whole.masked_fill(whole == -torch.inf, 0.0)).exp()


def _exp_of_step(old: Tensor, new: Tensor) -> Tensor:
    return (old - new).exp()


def _equal_shares(parts: Tensor, whole: Tensor) -> Tensor:
    seen = parts > -torch.inf
    return seen / seen.sum(0).clamp_min(1)


def _powers_of_two(parts: Tensor, whole: Tensor) -> Tensor:
    largest_part = parts.amax(0)
    shifted = torch.exp2(parts - largest_part.masked_fill(largest_part == -torch.inf, 0.0))
    return shifted / shifted.sum(0).clamp_min(1e-30)


def _shares_of_first_head(parts: Tensor, whole: Tensor) -> Tensor:
    return shares(parts, whole)[:, :, :1].expand_as(parts)


def _lse_of_several_parts(given: Call, tiles: list[Tensor], values: list[Tensor]) -> Results:
    masked = torch.cat(tiles, -1)
    weights, whole = weighted(masked)
    # written by the step that puts parts together, which one part doesn't take
    return averaged(given, weights, whole if len(tiles) > 1 else torch.zeros_like(whole))


def _merged_by_two(parts: Tensor, whole: Tensor) -> Tensor:
    found = [torch.ones_like(whole)]
    so_far = parts[0]
    for part in parts[1:]:
        larger = torch.maximum(so_far, part)
        first, second = (so_far - larger).exp(), (part - larger).exp()
        total = first + second
        found = [share * first / total for share in found] + [second / total]
        so_far = larger + total.log()
    return torch.stack(found).masked_fill(whole == -torch.inf, 0.0)


def _small_steps_kept(old: Tensor, new: Tensor) -> Tensor:
    step = old - new
    return torch.where(step >= -1.0, torch.ones_like(step), step.exp())


FAULTS = (
    Fault(
        id="attention.output_not_rescaled",
        component="attention",
        kind="K24",
        reason="rescales the normaliser but not the output when a later tile raises the maximum",
        remedy="Multiply the output so far by exp(old maximum - new maximum) as well.",
        law="attention.permutation_of_keys",
        functions=by_steps(lambda old, new: (torch.ones_like(old), _exp_of_step(old, new))),
    ),
    Fault(
        id="attention.normaliser_not_rescaled",
        component="attention",
        kind="K24",
        reason="rescales the output but not the normaliser when a later tile raises the maximum",
        remedy="Multiply the sum so far by exp(old maximum - new maximum) as well.",
        law="attention.within_values",
        functions=by_steps(lambda old, new: (_exp_of_step(old, new), torch.ones_like(old))),
    ),
    Fault(
        id="attention.nothing_rescaled",
        component="attention",
        kind="K24",
        reason="adds tiles that were shifted by different maxima, so that weights of earlier tiles "
        "are too large",
        remedy="Rescale output and normaliser by exp(old maximum - new maximum).",
        law="attention.permutation_of_keys",
        functions=by_steps(lambda old, new: (torch.ones_like(old), torch.ones_like(old))),
    ),
    Fault(
        id="attention.small_steps_not_rescaled",
        component="attention",
        kind="K24",
        reason="skips the rescaling where the maximum rises by one or less, but uses the new "
        "maximum from there on",
        remedy="Keep the old maximum as the shift when nothing is rescaled.",
        law="attention.matches_oracle",
        functions=by_steps(
            lambda old, new: (_small_steps_kept(old, new), _small_steps_kept(old, new))
        ),
    ),
    Fault(
        id="attention.rescaled_in_base_two",
        component="attention",
        kind="K24",
        reason="rescales earlier tiles by a power of two of the step where scores are natural "
        "logarithms",
        remedy="Use one base for numerators and rescaling.",
        law="attention.permutation_of_keys",
        functions=by_steps(lambda old, new: (torch.exp2(old - new), torch.exp2(old - new))),
    ),
    Fault(
        id="attention.parts_in_base_two",
        component="attention",
        kind="K24",
        reason="merges parts of the keys by powers of two of natural log-sum-exps, so that the "
        "part with the larger one gets too little",
        remedy="Use exp for natural log-sum-exps.",
        law="attention.permutation_of_keys",
        functions=by_parts(_powers_of_two),
        report="sgl-project/sglang #33064",
    ),
    Fault(
        id="attention.parts_by_equal_shares",
        component="attention",
        kind="K24",
        reason="averages the parts of the keys, whatever weight each has",
        remedy="Weigh each part by exp(its log-sum-exp - that of all).",
        law="attention.permutation_of_keys",
        functions=by_parts(_equal_shares),
    ),
    Fault(
        id="attention.parts_of_first_head",
        component="attention",
        kind="K24",
        reason="stores the log-sum-exps of parts without a stride for the heads, so that all heads "
        "are merged by those of one",
        remedy="Give the partial log-sum-exps an axis for the heads.",
        law="attention.permutation_of_heads",
        functions=by_parts(_shares_of_first_head),
        report="Tencent/hpc-ops #6",
    ),
    Fault(
        id="attention.parts_empty_are_nan",
        component="attention",
        kind="K24",
        reason="merges two parts that a row doesn't see by the difference of -inf and -inf, so "
        "that the row is NaN although it sees later parts",
        remedy="Give a part with the log-sum-exp -inf the share zero.",
        law="attention.empty_rows",
        functions=by_parts(_merged_by_two),
        report="flashinfer-ai/flashinfer #440",
    ),
    Fault(
        id="attention.parts_lse_of_one_missing",
        component="attention",
        kind="K24",
        reason="writes the log-sum-exp in the step that merges parts, which is left out where "
        "there is only one",
        remedy="Write the log-sum-exp on the path without a merge too.",
        law="attention.lse_matches_oracle",
        functions=by_tiles(_lse_of_several_parts),
        report="ROCm/aiter #3606",
    ),
)
