"""A Llama-style layer that returns what is right, and goes back through a wrong step."""

from __future__ import annotations

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.transformer_layer_steps import (
    RIGHT,
    Call,
    fault,
    graded,
    graded_at,
    layer_by,
    only_at,
    weighed,
)
from attnspec.impls.rope import rope

silu = torch.nn.functional.silu
NARROW = ("float32", "float64")


def with_slope_of(value: Tensor, other: Tensor) -> Tensor:
    """A value that has another number's gradient."""
    return value.detach() + (other - other.detach())


def _silu_as_sigmoid(gate: Tensor, up: Tensor) -> Tensor:
    return with_slope_of(silu(gate), gate * torch.sigmoid(gate).detach()) * up


def _up_as_gate(gate: Tensor, up: Tensor) -> Tensor:
    return silu(gate) * up.detach() + (gate.detach() * up - (gate.detach() * up).detach())


def _fixed_factor(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """The factor of a row is taken for a number that x does not change."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps).detach() * gain


def _without_row_sum(scores: Tensor) -> Tensor:
    shares = weighed(scores).detach()
    return shares + shares * (scores - scores.detach())


def _leaking(scores: Tensor) -> Tensor:
    """Some of the gradient goes to the scores of later tokens."""
    return weighed(scores) + 2.0**-4 * (scores - scores.detach())


def _turned_forward(x: Tensor, at: Tensor, base: float) -> Tensor:
    return with_slope_of(rope(x, at, base=base), rope(x, -at, base=base))


def _not_turned_back(x: Tensor, at: Tensor, base: float) -> Tensor:
    return with_slope_of(rope(x, at, base=base), x)


def _from_first_reader(x: Tensor, call: Call) -> Tensor:
    """Of the query heads that share a head of keys the first alone sends a gradient back."""
    copies = RIGHT.repeated(x, call)
    first = (torch.arange(call.h, device=x.device) % (call.h // call.g) == 0)[:, None, None]
    return torch.where(first, copies, copies.detach())


def _mean_of_readers(x: Tensor, call: Call) -> Tensor:
    return graded(lambda g, _: g * (call.g / call.h), x, call)


def _unscaled(g: Tensor, query: Tensor) -> Tensor:
    return g * float(query.shape[-1] ** 0.5)


FAULTS: tuple[Fault, ...] = (
    fault("gradient_of_silu_is_sigmoid", "K22", "the derivative of silu is taken for the sigmoid",
          "Use sigmoid(x) (1 + x (1 - sigmoid(x))).", "gradients_match_oracle",
          layer_by(joined=_silu_as_sigmoid)),
    fault("gradient_of_up_without_gate", "K22", "the gradient of x w_up is multiplied by the gate "
          "before silu", "Multiply it by silu(x w_gate).", "network_adjoint",
          layer_by(joined=_up_as_gate)),
    fault("gradient_of_first_norm_without_row_term", "K22", "the first norm's factor has no "
          "gradient", "Subtract the row's part along x.", "gradients_match_oracle",
          layer_by(first_norm=_fixed_factor)),
    fault("gradient_of_second_norm_without_row_term", "K22", "the second norm's factor has no "
          "gradient", "Subtract the row's part along the stream.", "gradients_match_oracle",
          layer_by(second_norm=_fixed_factor)),
    fault("gradient_softmax_without_row_sum", "K22", "softmax goes back without the row's sum",
          "Subtract the sum of weights times gradients from every gradient of a row.",
          "gradients_match_oracle", layer_by(weighed=_without_row_sum)),
    fault("gradient_of_queries_unscaled", "K05", "gradients of queries lack the scale of scores",
          "Multiply by d^-0.5 on the way back too.", "gradients_match_oracle",
          graded_at("q", _unscaled)),
    fault("gradient_turned_forward", "K22", "gradients of queries and keys are turned forward",
          "Turn gradients by the opposite angle.", "gradients_match_oracle",
          layer_by(rotated=_turned_forward, rotated_key=_turned_forward)),
    fault("gradient_of_keys_not_turned", "K22", "the gradient of keys is not turned back",
          "Turn it by the opposite angle.", "gradients_match_oracle",
          layer_by(rotated_key=_not_turned_back)),
    fault("gradient_of_hidden_in_bfloat16", "K13", "the gradient of the hidden layer is rounded to "
          "bfloat16", "Keep it in the dtype that the contract promises.",
          "gradients_match_oracle",
          graded_at("hidden", lambda g, _: g.to(torch.bfloat16).to(g.dtype)), dtypes=NARROW),
    fault("gradient_of_gate_in_half", "K13", "the gradient of x w_gate is rounded to float16",
          "Keep it in the dtype that the contract promises.", "gradients_match_oracle",
          graded_at("gate", lambda g, _: g.to(torch.float16).to(g.dtype)), dtypes=NARROW),
    fault("gradient_missing", "K21", "w_k has no gradient", "Return a gradient for every weight.",
          "gradients_match_oracle", layer_by(at=only_at("w_k", lambda w, _: w.detach()))),
    fault("gradient_upstream_ignored", "K22", "the backward pass starts from ones",
          "Start from the upstream gradient.", "zero_upstream",
          graded_at("y", lambda g, _: torch.ones_like(g))),
    fault("gradient_of_future_keys", "K23", "scores of later tokens get a gradient",
          "Mask the gradient of scores as the scores.", "gradients_stay_apart",
          layer_by(weighed=_leaking)),
    fault("gradient_of_values_carried", "K29", "the gradient of a token's value has that of the "
          "token before added", "Clear the buffer for every token.", "gradients_stay_apart",
          graded_at("v", lambda g, _: g + g.roll(1, 2))),
    fault("gradient_of_second_gain_twice", "K22", "the gradient of norm_feed_forward is counted "
          "for each of its two matrices once more", "Add up both matrices' parts once.",
          "gains_adjoint", graded_at("norm_feed_forward", lambda g, _: 2.0 * g)),
    fault("gradient_of_keys_of_one_head", "K22", "of the heads that share keys and values one "
          "alone sends a gradient back", "Add up the gradients of all heads of a group.",
          "heads_adjoint", layer_by(repeated=_from_first_reader),
          report="marin-community/levanter #449"),
    fault("gradient_of_values_mean_of_heads", "K22", "gradients of shared values are the mean over "
          "the heads that share them", "Add them up.", "heads_adjoint",
          layer_by(at=only_at("v", _mean_of_readers))),
    fault("gradient_of_stream_lost", "K22", "no gradient goes past the network",
          "Add the upstream to what comes back from the network.", "stream_alone",
          layer_by(second_sum=lambda stream, rows, added: stream.detach() + added)),
    fault("gradient_of_stream_twice", "K22", "the gradient past attention is counted twice",
          "Add the upstream to what comes back from attention once.", "stream_alone",
          layer_by(first_sum=lambda stream, rows, added:
                   (2.0 * stream - stream.detach()) + added)),
    fault("dropped_in_training", "K29", "where gradients are asked for the hidden layer is smaller",
          "Compute the same whether or not gradients are asked for.", "same_with_gradients",
          layer_by(at=only_at("hidden", lambda x, _: x * 0.75 if x.requires_grad else x))),
)  # fmt: skip
