"""Attention with a wrong softmax or a wrong log-sum-exp."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnspec.impls.faults.attention_steps import (
    Functions,
    Results,
    by_weights,
    largest,
    normalised,
    weighted,
)
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.softmax import LOG2_E


def by_lse(changed: Callable[[Tensor, Tensor], Tensor]) -> Functions:
    """An attention with right weights and another log-sum-exp, made of the scores and the right
    one."""

    def results(masked: Tensor) -> Results:
        weights, lse = weighted(masked)
        return weights, changed(masked, lse)

    return by_weights(results)


def over_total(
    numerators: Tensor, total: Tensor, masked: Tensor, shift: Tensor | None = None
) -> Results:
    """Numerators over a normaliser of their own, with the log-sum-exp of that normaliser."""
    total = total.expand_as(numerators[..., :1])
    nothing = total == 0
    total = total.masked_fill(nothing, 1.0)
    shift = largest(masked) if shift is None else shift
    lse = (shift + total.log()).masked_fill(nothing, -torch.inf)
    return numerators / total, lse.squeeze(-1)


def numerators_of(masked: Tensor) -> Tensor:
    """exp(score - maximum of the row)."""
    return (masked - largest(masked)).exp()


def _no_maximum(masked: Tensor) -> Results:
    return normalised(masked, torch.zeros_like(masked[..., :1]))


def _first_score(masked: Tensor) -> Results:
    first = masked[..., :1].detach()
    return normalised(masked, first.masked_fill(first == -torch.inf, 0.0))


def _clamped(masked: Tensor) -> Results:
    return weighted(torch.where(masked == -torch.inf, masked, masked.clamp(-30.0, 30.0)))


def _over_queries(masked: Tensor) -> Results:
    weights, _ = weighted(masked.mT)
    return weights.mT, weighted(masked)[1]


def _over_heads(masked: Tensor) -> Results:
    numerators = numerators_of(masked)
    return over_total(numerators, numerators.sum(-1, keepdim=True).mean(1, keepdim=True), masked)


def _extra_one(masked: Tensor) -> Results:
    numerators = numerators_of(masked)
    return over_total(numerators, 1.0 + numerators.sum(-1, keepdim=True), masked)


def _small_number(masked: Tensor) -> Results:
    numerators = numerators_of(masked)
    return over_total(numerators, 1e-3 + numerators.sum(-1, keepdim=True), masked)


def _smaller_base(masked: Tensor) -> Results:
    return weighted(masked * math.log(2.0))


def _dropped_out(masked: Tensor) -> Results:
    weights, lse = weighted(masked)
    rows, keys = masked.shape[-2:]
    places = torch.arange(rows, device=masked.device)[:, None] * 7
    kept = (places + 3 * torch.arange(keys, device=masked.device)) % 10 != 9
    return weights * kept / 0.9, lse


def _largest_only(masked: Tensor) -> Results:
    numerators = numerators_of(masked)
    numerators = numerators.masked_fill(numerators < 1e-3, 0.0)
    return over_total(numerators, numerators.sum(-1, keepdim=True), masked)


def _self_twice(masked: Tensor) -> Results:
    numerators = numerators_of(masked)
    total = numerators.sum(-1, keepdim=True)
    return over_total(numerators, total + numerators[..., -1:], masked)


FAULTS = (
    Fault(
        id="attention.no_maximum",
        component="attention",
        kind="K14",
        reason="exponentiates the scores as they are, so that large ones overflow and a row of "
        "very negative ones has the sum zero; the row maximum should be subtracted first",
        remedy="Subtract the maximum of each row before the exponential.",
        law="attention.matches_oracle",
        functions=by_weights(_no_maximum),
        report="deeplearning4j/deeplearning4j #6039",
    ),
    Fault(
        id="attention.first_score_for_maximum",
        component="attention",
        kind="K14",
        reason="subtracts the score of the first key in place of the maximum, so that one far "
        "above it overflows",
        remedy="Subtract the maximum of each row.",
        law="attention.matches_oracle",
        functions=by_weights(_first_score),
    ),
    Fault(
        id="attention.scores_clamped",
        component="attention",
        kind="K14",
        reason="clamps the scores to -30..30 against overflow, so that larger differences vanish",
        remedy="Subtract the row maximum in place of clamping.",
        law="attention.matches_oracle",
        functions=by_weights(_clamped),
    ),
    Fault(
        id="attention.normalised_over_queries",
        component="attention",
        kind="K30",
        reason="takes the softmax along the queries, so that the weights of a key sum to one and "
        "those of a query to anything",
        remedy="Normalise along the keys, the last axis of the scores.",
        law="attention.mask_read_off",
        functions=by_weights(_over_queries),
        report="labmlai/annotated_deep_learning_paper_implementations #146",
    ),
    Fault(
        id="attention.normaliser_of_all_heads",
        component="attention",
        kind="K30",
        reason="divides by the mean of the heads' normalisers; each head has its own",
        remedy="Keep the axis of the heads when the numerators are summed.",
        law="attention.within_values",
        functions=by_weights(_over_heads),
    ),
    Fault(
        id="attention.extra_one",
        component="attention",
        kind="K24",
        reason="adds one to the normaliser after the shift, so that the weights sum to less than "
        "one",
        remedy="Drop the one, or declare a sink and shift it by the maximum like the rest.",
        law="attention.within_values",
        functions=by_weights(_extra_one),
        report="kyegomez/AttentionIsOFFByOne #5",
    ),
    Fault(
        id="attention.small_number_added",
        component="attention",
        kind="K30",
        reason="adds 0.001 to the normaliser against a division by zero, which the largest "
        "numerator of one rules out",
        remedy="Divide by the plain sum, and treat rows that see nothing apart.",
        law="attention.within_values",
        functions=by_weights(_small_number),
        dtypes=("float64", "float32", "float16"),
    ),
    Fault(
        id="attention.last_key_counted_twice",
        component="attention",
        kind="K24",
        reason="counts the last key twice in the normaliser, once on its own and once with the "
        "rest",
        remedy="Count each key once.",
        law="attention.mask_read_off",
        functions=by_weights(_self_twice),
    ),
    Fault(
        id="attention.base_two",
        component="attention",
        kind="K05",
        reason="takes powers of two without a conversion of the scores; the base is e",
        remedy="Multiply the scale by log2(e) before exp2.",
        law="attention.scale_read",
        functions=by_weights(_smaller_base),
        report="flashinfer-ai/flashinfer #787",
    ),
    Fault(
        id="attention.dropout_left_on",
        component="attention",
        kind="K30",
        reason="drops a tenth of the weights and scales up the rest, as in training; nothing asks "
        "for it, and the weights no longer sum to one",
        remedy="Apply dropout only where it's asked for.",
        law="attention.within_values",
        functions=by_weights(_dropped_out),
        report="pytorch/pytorch #27968",
    ),
    Fault(
        id="attention.small_weights_dropped",
        component="attention",
        kind="K13",
        reason="sets numerators below 0.001 to zero; small weights keep their relative precision",
        remedy="Drop the threshold.",
        law="attention.scale_read",
        functions=by_weights(_largest_only),
        dtypes=("float64", "float32"),
    ),
    Fault(
        id="attention.lse_in_base_two",
        component="attention",
        kind="K24",
        reason="returns the log-sum-exp as a power of two; it's a natural logarithm",
        remedy="Divide by log2(e) where the log-sum-exp leaves.",
        law="attention.lse_matches_oracle",
        functions=by_lse(lambda masked, lse: lse * LOG2_E),
        report="sgl-project/sglang #33064",
    ),
    Fault(
        id="attention.lse_without_maximum",
        component="attention",
        kind="K24",
        reason="returns the logarithm of the sum of shifted numerators, without the maximum that "
        "was subtracted",
        remedy="Add the row maximum to the logarithm.",
        law="attention.lse_matches_oracle",
        functions=by_lse(lambda masked, lse: lse - largest(masked).squeeze(-1)),
    ),
    Fault(
        id="attention.lse_is_maximum",
        component="attention",
        kind="K24",
        reason="returns the row maximum where the log-sum-exp is asked for",
        remedy="Add the logarithm of the sum to the maximum.",
        law="attention.lse_matches_oracle",
        functions=by_lse(
            lambda masked, lse: torch.where(lse == -torch.inf, lse, largest(masked).squeeze(-1))
        ),
    ),
    Fault(
        id="attention.lse_of_mean",
        component="attention",
        kind="K24",
        reason="takes the logarithm of the mean of the numerators; it's that of their sum",
        remedy="Don't divide by the number of keys.",
        law="attention.mean_square_of_scores",
        functions=by_lse(lambda masked, lse: lse - math.log(max(masked.shape[-1], 1))),
    ),
)
