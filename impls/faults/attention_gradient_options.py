"""Attention whose backward pass differentiates another function than the forward pass."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from attnspec.impls.faults.attention_backward import (
    Known,
    by_backward,
    of_keys,
    of_products,
    row_term,
)
from attnspec.impls.faults.attention_steps import (
    allowed,
    before,
    hidden,
    in_window,
    offsets,
    scores,
)
from attnspec.impls.faults.fault import Fault


def recomputed(known: Known, everything: Tensor, seen: Tensor) -> Tensor:
    """exp(score - saved log-sum-exp) where something is seen."""
    lse = known.lse.unsqueeze(-1)
    found = (everything - lse.masked_fill(lse == -torch.inf, 0.0)).exp()
    return found.masked_fill(~seen | (lse == -torch.inf), 0.0)


TILE = 64


def _row_term_unless_lse(known: Known, p: Tensor, dp: Tensor) -> Tensor:
    term = row_term(known, p, dp)
    return torch.zeros_like(term) if known.given.return_lse else term


def _keys_without_diagonal(known: Known, dc: Tensor) -> Tensor:
    t, s = known.given.lengths
    if not known.given.causal or min(t, s) <= TILE:
        return of_keys(known, dc)
    lost = (offsets(known.given) == 0) & (torch.arange(s, device=dc.device) >= TILE)
    return of_keys(known, dc.masked_fill(lost, 0.0))


def _without_mask(known: Known) -> Tensor:
    rest = allowed(replace(known.given, mask=None, bias=known.given.bias))
    distance = offsets(known.given)
    seen = rest & before(known.given, distance) & in_window(known.given, distance)
    return recomputed(known, scores(known.given), seen)


def _without_causal(known: Known) -> Tensor:
    seen = allowed(known.given) & in_window(known.given, offsets(known.given))
    return recomputed(known, scores(known.given), seen)


def _without_window(known: Known) -> Tensor:
    seen = allowed(known.given) & before(known.given, offsets(known.given))
    return recomputed(known, scores(known.given), seen)


def _top_left(known: Known) -> Tensor:
    distance = offsets(known.given, 0 if known.given.causal else None)
    seen = allowed(known.given) & before(known.given, distance)
    return recomputed(known, scores(known.given), seen & in_window(known.given, distance))


def _without_bias(known: Known) -> Tensor:
    return recomputed(known, scores(replace(known.given, bias=None)), known.seen)


def _with_default_scale(known: Known) -> Tensor:
    return recomputed(known, scores(replace(known.given, scale=None)), known.seen)


def _empty_rows(known: Known) -> Tensor:
    masked = hidden(scores(known.given), known.seen)
    return (masked - known.lse.unsqueeze(-1)).exp()


def _lse_in_bfloat16(known: Known) -> Tensor:
    lse = known.lse.to(torch.bfloat16).to(known.lse.dtype)
    return recomputed(replace(known, lse=lse), scores(known.given), known.seen)


def _of_first_width(known: Known) -> Tensor:
    width = min(known.given.q.shape[-1], known.given.v.shape[-1])
    return known.upstream[..., :width] @ known.values[..., :width].mT


def _bias_through_cap(known: Known, ds: Tensor) -> Tensor | None:
    bias = known.given.bias
    return None if bias is None else of_products(known, ds).sum_to_size(bias.shape)


FAULTS = (
    Fault(
        id="attention.gradient_without_mask",
        component="attention",
        kind="K23",
        reason="forms the weights of the backward pass without the mask, so that hidden keys get "
        "gradients",
        remedy="Mask the recomputed weights as in the forward pass.",
        law="attention.hidden_gradients_zero",
        functions=by_backward(weights=_without_mask),
    ),
    Fault(
        id="attention.gradient_without_causal",
        component="attention",
        kind="K23",
        reason="forgets `causal` in the backward pass, so that queries pull at keys of the future",
        remedy="Hide the future in the recomputed weights too.",
        law="attention.hidden_gradients_zero",
        functions=by_backward(weights=_without_causal),
    ),
    Fault(
        id="attention.gradient_without_window",
        component="attention",
        kind="K23",
        reason="forgets the window in the backward pass",
        remedy="Apply the window to the recomputed weights too.",
        law="attention.hidden_gradients_zero",
        functions=by_backward(weights=_without_window),
    ),
    Fault(
        id="attention.gradient_top_left",
        component="attention",
        kind="K23",
        reason="aligns the causal mask of the backward pass at the top left, that of the forward "
        "pass at the bottom right",
        remedy="Use the offset s - t in both passes.",
        law="attention.gradients_match_oracle",
        functions=by_backward(weights=_top_left),
    ),
    Fault(
        id="attention.gradient_without_bias",
        component="attention",
        kind="K23",
        reason="forms the weights of the backward pass without the bias, but with the log-sum-exp "
        "of the forward pass",
        remedy="Add the bias to the recomputed scores.",
        law="attention.gradients_match_oracle",
        functions=by_backward(weights=_without_bias),
    ),
    Fault(
        id="attention.gradient_with_default_scale",
        component="attention",
        kind="K23",
        reason="forms the weights of the backward pass with d ** -0.5, whatever scale was given",
        remedy="Save the scale for the backward pass.",
        law="attention.gradients_match_oracle",
        functions=by_backward(weights=_with_default_scale),
    ),
    Fault(
        id="attention.gradient_without_softcap",
        component="attention",
        kind="K23",
        reason="leaves the derivative of the softcap out, which is 1 - tanh ** 2",
        remedy="Multiply the gradient of the capped scores by 1 - tanh ** 2.",
        law="attention.gradients_match_oracle",
        functions=by_backward(of_products=lambda known, ds: ds),
    ),
    Fault(
        id="attention.gradient_of_bias_through_softcap",
        component="attention",
        kind="K22",
        reason="multiplies the gradient of the bias by the derivative of the softcap, which comes "
        "before the bias",
        remedy="Take the gradient of the bias before that of the softcap.",
        law="attention.gradients_match_oracle",
        functions=by_backward(of_bias=_bias_through_cap),
    ),
    Fault(
        id="attention.gradient_of_first_width",
        component="attention",
        kind="K23",
        reason="sums the product of upstream gradient and values over as many channels as queries "
        "have, though values may be wider",
        remedy="Take the width from the values.",
        law="attention.gradients_match_oracle",
        functions=by_backward(of_weights=_of_first_width),
        report="XunhaoLai/native-sparse-attention-triton #27",
    ),
    Fault(
        id="attention.gradient_without_row_term_with_lse",
        component="attention",
        kind="K23",
        reason="takes another backward pass where the log-sum-exp was asked for too, one without "
        "the row's sum of P dP",
        remedy="Subtract it on every path.",
        law="attention.gradients_match_oracle",
        functions=by_backward(row_term=_row_term_unless_lse),
    ),
    Fault(
        id="attention.gradient_of_keys_without_diagonal",
        component="attention",
        kind="K25",
        reason="starts the queries of a causal tile of keys one too late from the second tile on, "
        "so that keys there get nothing from their own position",
        remedy="Start at the first query that sees the tile's first key.",
        law="attention.gradients_of_tiles",
        functions=by_backward(of_keys=_keys_without_diagonal),
    ),
    Fault(
        id="attention.gradient_empty_row",
        component="attention",
        kind="K02",
        reason="forms exp(score - log-sum-exp) in a row that sees nothing, where both are -inf",
        remedy="Set the weights of such a row to zero in the backward pass too.",
        law="attention.gradients_of_empty_rows",
        functions=by_backward(weights=_empty_rows),
    ),
    Fault(
        id="attention.gradient_lse_in_bfloat16",
        component="attention",
        kind="K13",
        reason="saves the log-sum-exp in bfloat16, so that the recomputed weights are off by a "
        "common factor in each row",
        remedy="Save the log-sum-exp in float32.",
        law="attention.gradients_of_values_adjoint",
        functions=by_backward(weights=_lse_in_bfloat16),
        dtypes=("float64", "float32"),
    ),
)
