"""Attention whose backward pass has a wrong formula."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from attnspec.impls.faults.attention_backward import (
    Known,
    by_backward,
    of_keys,
    of_queries,
    of_weights,
    row_term,
    weights,
)
from attnspec.impls.faults.attention_steps import (
    Call,
    hidden,
    scores,
    weighted,
)
from attnspec.impls.faults.fault import Fault


def _numerators(known: Known) -> Tensor:
    p, lse = weighted(hidden(scores(known.given), known.seen))
    largest = hidden(scores(known.given), known.seen).amax(-1)
    total = (lse - largest).masked_fill(lse == -torch.inf, 0.0).exp()
    return p * total.unsqueeze(-1)


def _row_term_with_numerators(known: Known, p: Tensor, dp: Tensor) -> Tensor:
    return row_term(known, weights(known), dp)


def _next_rows(known: Known, p: Tensor, dp: Tensor) -> Tensor:
    return row_term(known, p, dp).roll(-1, -2)


def _first_heads(known: Known, p: Tensor, dp: Tensor) -> Tensor:
    term = row_term(known, p, dp)
    return term[:, :1].expand_as(term)


def _mean(known: Known, p: Tensor, dp: Tensor) -> Tensor:
    return dp.mean(-1, keepdim=True)


def _scaled_bias(known: Known, ds: Tensor) -> Tensor | None:
    bias = known.given.bias
    return None if bias is None else (ds * known.given.factor).sum_to_size(bias.shape)


def _unscaled(known: Known) -> Call:
    return replace(known.given, scale=1.0)


def _from_scores(known: Known, p: Tensor) -> Tensor:
    return (p * of_weights(known)).mT @ known.upstream


def _keys_by_view(known: Known, dc: Tensor) -> Tensor:
    found = of_keys(known, dc)
    return found.transpose(1, 2).reshape(found.shape)


FAULTS = (
    Fault(
        id="attention.gradient_without_row_term",
        component="attention",
        kind="K22",
        reason="takes P dP for the gradient of the scores and leaves the row's sum of P dP out",
        remedy="Subtract the sum over the keys of P dP from dP.",
        law="attention.bias_gradient_rows_vanish",
        functions=by_backward(row_term=lambda known, p, dp: 0.0),
        report="HomericIntelligence/Odyssey #2134",
    ),
    Fault(
        id="attention.gradient_row_term_added",
        component="attention",
        kind="K22",
        reason="adds the row's sum of P dP to dP where it should be subtracted",
        remedy="Subtract it.",
        law="attention.bias_gradient_rows_vanish",
        functions=by_backward(row_term=lambda known, p, dp: -row_term(known, p, dp)),
    ),
    Fault(
        id="attention.gradient_row_term_of_next_row",
        component="attention",
        kind="K22",
        reason="subtracts the sum of P dP of the next query",
        remedy="Index the row terms by the query's own row.",
        law="attention.bias_gradient_rows_vanish",
        functions=by_backward(row_term=_next_rows),
        report="BobMcDear/attorch #17",
    ),
    Fault(
        id="attention.gradient_row_term_of_first_head",
        component="attention",
        kind="K22",
        reason="stores the row terms without an axis for the heads, so that all subtract those of "
        "the first",
        remedy="Give the row terms the axes b h t.",
        law="attention.gradients_match_oracle",
        functions=by_backward(row_term=_first_heads),
    ),
    Fault(
        id="attention.gradient_row_term_is_mean",
        component="attention",
        kind="K22",
        reason="subtracts the plain mean of dP; the mean is weighted by P",
        remedy="Subtract the sum of P dP.",
        law="attention.gradients_match_oracle",
        functions=by_backward(row_term=_mean),
    ),
    Fault(
        id="attention.gradient_of_numerators",
        component="attention",
        kind="K22",
        reason="multiplies by exp(score - maximum) in the backward pass and forgets the normaliser",
        remedy="Save the log-sum-exp, not the maximum, and form exp(score - log-sum-exp).",
        law="attention.gradients_of_values_adjoint",
        functions=by_backward(weights=_numerators, row_term=_row_term_with_numerators),
    ),
    Fault(
        id="attention.gradient_of_queries_unscaled",
        component="attention",
        kind="K22",
        reason="leaves the scale out of the gradient of the queries",
        remedy="Multiply dS K by the scale.",
        law="attention.gradients_of_scores_adjoint",
        functions=by_backward(
            of_queries=lambda known, dc: of_queries(replace(known, given=_unscaled(known)), dc)
        ),
    ),
    Fault(
        id="attention.gradient_of_keys_unscaled",
        component="attention",
        kind="K22",
        reason="leaves the scale out of the gradient of the keys",
        remedy="Multiply the transposed dS times Q by the scale.",
        law="attention.gradients_of_scores_adjoint",
        functions=by_backward(
            of_keys=lambda known, dc: of_keys(replace(known, given=_unscaled(known)), dc)
        ),
    ),
    Fault(
        id="attention.gradient_of_values_from_scores",
        component="attention",
        kind="K22",
        reason="multiplies the upstream gradient by P dP where the gradient of the values takes P",
        remedy="Use the weights for the gradient of the values.",
        law="attention.gradients_of_values_adjoint",
        functions=by_backward(
            of_values=lambda known, p: (p * of_weights(known)).mT @ known.upstream
        ),
    ),
    Fault(
        id="attention.gradient_of_bias_scaled",
        component="attention",
        kind="K22",
        reason="multiplies the gradient of the bias by the scale of the scores",
        remedy="Return dS itself for the bias.",
        law="attention.gradients_match_oracle",
        functions=by_backward(of_bias=_scaled_bias),
    ),
    Fault(
        id="attention.gradient_of_keys_by_view",
        component="attention",
        kind="K23",
        reason="stores the gradient of the keys as b s g d and returns it as b g s d by a view",
        remedy="Transpose heads and keys; a view doesn't.",
        law="attention.gradients_match_oracle",
        functions=by_backward(of_keys=_keys_by_view),
        report="huggingface/diffusers #14338",
    ),
)
