"""Attention that drops, scales, misplaces or replaces its bias."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attnspec.impls.faults.attention_steps import (
    Call,
    Functions,
    biased,
    by_arguments,
    by_scores,
    capped,
    products,
    scores,
)
from attnspec.impls.faults.fault import Fault


def by_bias(read: Callable[[Tensor, Call], Tensor]) -> Functions:
    """An attention that reads its bias in another way: four axes, of size one where it's the same
    for all. Which keys it hides, it knows from the bias itself."""

    def made(given: Call) -> Tensor:
        if given.bias is None:
            return scores(given)
        bias = given.bias[(None,) * (4 - given.bias.ndim)]
        return scores(replace(given, bias=read(bias, given)))

    return by_scores(made)


def _not_when_causal(given: Call) -> Tensor:
    return scores(replace(given, bias=None) if given.causal else given)


def _not_with_mask(given: Call) -> Tensor:
    return scores(given if given.mask is None else replace(given, bias=None))


def _before_softcap(given: Call) -> Tensor:
    return capped(given, biased(given, products(given)))


def _as_flag(given: Call) -> Call:
    if given.bias is None:
        return given
    seen = given.bias >= 0 if given.mask is None else given.mask & (given.bias >= 0)
    return replace(given, mask=seen, bias=None)


def _with_finite_bias(given: Call) -> Call:
    return replace(given, bias=None if given.bias is None else given.bias.clamp_min(-1e4))


def _lowest_hides(given: Call) -> Call:
    if given.bias is None:
        return given
    lowest = torch.finfo(given.storage).min
    return replace(given, bias=given.bias.masked_fill(given.bias <= lowest, -torch.inf))


def _first_rows(bias: Tensor, given: Call) -> Tensor:
    return bias[..., :1, :]


def _not_of_rows(bias: Tensor, given: Call) -> Tensor:
    return bias.clamp(max=0.0).clamp_min(0.0) if bias.shape[-1] < given.k.shape[-2] else bias


FAULTS = (
    Fault(
        id="attention.bias_subtracted",
        component="attention",
        kind="K17",
        reason="subtracts the bias; it's added to the scaled scores",
        remedy="Add the bias, and keep its sign where it's made.",
        law="attention.matches_oracle",
        functions=by_bias(lambda bias, given: -bias),
    ),
    Fault(
        id="attention.bias_scaled",
        component="attention",
        kind="K17",
        reason="scales the bias along with the product of query and key; it's added afterwards",
        remedy="Scale the scores before the bias is added.",
        law="attention.matches_oracle",
        functions=by_bias(lambda bias, given: bias * given.factor),
    ),
    Fault(
        id="attention.bias_in_base_two",
        component="attention",
        kind="K17",
        reason="converts the scores for exp2 but not the bias, which counts ln 2 times as much",
        remedy="Multiply the bias by log2(e) too, or add it before the conversion.",
        law="attention.matches_oracle",
        functions=by_bias(lambda bias, given: bias * math.log(2.0)),
    ),
    Fault(
        id="attention.bias_before_softcap",
        component="attention",
        kind="K17",
        reason="caps the sum of score and bias; the cap comes before the bias",
        remedy="Add the bias to the capped scores.",
        law="attention.row_constant_of_bias",
        functions=by_scores(_before_softcap),
    ),
    Fault(
        id="attention.bias_dropped_when_causal",
        component="attention",
        kind="K29",
        reason="accepts a bias and ignores it on the causal path",
        remedy="Add the bias on every path, or refuse it with `causal`.",
        law="attention.causal_eq_mask",
        functions=by_scores(_not_when_causal),
    ),
    Fault(
        id="attention.bias_dropped_with_mask",
        component="attention",
        kind="K29",
        reason="has one place for mask or bias and fills it with the mask when both are passed",
        remedy="Put -inf into the bias where the mask is False.",
        law="attention.bool_mask_eq_infinite_bias",
        functions=by_scores(_not_with_mask),
    ),
    Fault(
        id="attention.bias_of_first_head",
        component="attention",
        kind="K17",
        reason="adds the bias of the first head to all; slopes differ from head to head",
        remedy="Index the bias by head unless that axis has size 1.",
        law="attention.permutation_of_heads",
        functions=by_bias(lambda bias, given: bias[:, :1]),
    ),
    Fault(
        id="attention.bias_of_first_entry",
        component="attention",
        kind="K26",
        reason="adds the bias of the first batch entry to all",
        remedy="Step through the bias by its own batch stride.",
        law="attention.permutation_of_batch",
        functions=by_bias(lambda bias, given: bias[:1]),
    ),
    Fault(
        id="attention.bias_of_first_query",
        component="attention",
        kind="K17",
        reason="adds the bias of the first query to all, as a cached decoding that starts over "
        "at position 0 does",
        remedy="Index the bias by the query's own row.",
        law="attention.permutation_of_queries",
        functions=by_bias(_first_rows),
        report="huggingface/candle #899",
    ),
    Fault(
        id="attention.bias_as_flag",
        component="attention",
        kind="K03",
        reason="takes a float mask for a flag: negative numbers hide the key and others do nothing",
        remedy="Add floats, and treat bool masks only as flags.",
        law="attention.matches_oracle",
        functions=by_arguments(_as_flag),
        report="pytorch/pytorch #136816",
    ),
    Fault(
        id="attention.bias_infinity_made_finite",
        component="attention",
        kind="K03",
        reason="raises biases of -inf to -10000, so that a row of nothing but -inf averages the "
        "values that it hides",
        remedy="Treat -inf in a bias as False in a mask.",
        law="attention.empty_rows",
        functions=by_arguments(_with_finite_bias),
    ),
    Fault(
        id="attention.bias_lowest_hides",
        component="attention",
        kind="K02",
        reason="takes the lowest finite number in a bias for a mask, so that a row of nothing else "
        "is zero; it's a number, and such a row has weights",
        remedy="Hide keys with a bias of -inf only.",
        law="attention.mask_read_off",
        functions=by_arguments(_lowest_hides),
    ),
    Fault(
        id="attention.bias_of_rows_dropped",
        component="attention",
        kind="K17",
        reason="leaves out a bias that is the same for all keys, since no weight depends on it; "
        "the log-sum-exp does",
        remedy="Add the bias before the log-sum-exp is taken.",
        law="attention.lse_matches_oracle",
        functions=by_bias(_not_of_rows),
    ),
)
