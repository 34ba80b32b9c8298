"""RoPE whose backward pass is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.rope import Functions
from attnspec.impls.faults.views import read_as_contiguous, used_up
from attnspec.impls.rope import turned, turning_angles

Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]
"""Of x, cos and sin."""
Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Gradients]
"""Gradients from the upstream one, x, cos and sin."""


class _Rotation(torch.autograd.Function):
    """The right rotation, and the gradients of some rule."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor, rule: Rule) -> Tensor:
        ctx.save_for_backward(x, cos, sin)
        ctx.rule = rule
        return turned(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, cos, sin = ctx.saved_tensors
        found = ctx.rule(upstream[0], x, cos, sin)
        kinds = (x.dtype, cos.dtype, sin.dtype)
        return (*(None if t is None else t.to(d) for t, d in zip(found, kinds, strict=True)), None)


def rotation(x: Tensor, cos: Tensor, sin: Tensor, rule: Rule) -> Tensor:
    """The right rotation with other gradients."""
    found: Tensor = _Rotation.apply(x, cos, sin, rule)  # type: ignore[no-untyped-call]
    return found


def by_gradient(of_x: Callable[[Tensor, Tensor, Tensor], Tensor | None]) -> Functions:
    """A right RoPE whose gradient comes from the upstream one and the right tables."""

    def rule(upstream: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> Gradients:
        return of_x(upstream, cos, sin), None, None

    def rope(
        x: Tensor, positions: Tensor, *, base: float = 10000.0, rotary_dim: int | None = None
    ) -> Tensor:
        turning = turning_angles(x, positions, base, rotary_dim)
        return rotation(x, turning.cos(), turning.sin(), rule)

    return lambda: {"rope": rope}


def of_channels(upstream: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The right gradient of x: turned back."""
    return turned(upstream, cos, -sin)


def _tail_zero(upstream: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    width = 2 * cos.shape[-1]
    channels = torch.arange(upstream.shape[-1], device=upstream.device)
    return of_channels(upstream, cos, sin) * (channels < width)


def _without_partner(upstream: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return turned(upstream, cos, torch.zeros_like(sin))


def _first_entry(upstream: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first = slice(0, 1) if cos.ndim == 3 else slice(None)
    return of_channels(upstream, cos[first], sin[first])


def _next_token(upstream: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return of_channels(upstream, cos.roll(1, -2), sin.roll(1, -2))


def _tables_in_bfloat16(upstream: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return of_channels(
        upstream, cos.to(torch.bfloat16).to(cos.dtype), sin.to(torch.bfloat16).to(sin.dtype)
    )


def _as_contiguous(upstream: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return of_channels(read_as_contiguous(upstream), cos, sin)


def _last_tile(upstream: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    length = upstream.shape[-2]
    full = length // 16 * 16 or length
    rows = torch.arange(length, device=upstream.device)
    return of_channels(upstream, cos, sin) * (rows < full)[:, None]


FAULTS = (
    Fault(
        id="rope.gradient_same_direction",
        component="rope",
        kind="K22",
        reason="turns the upstream gradient by the same angle as the input; the gradient of a "
        "rotation is the rotation back",
        remedy="Negate the sine in the backward pass.",
        law="rope.gradients_adjoint",
        functions=by_gradient(turned),
    ),
    Fault(
        id="rope.gradient_missing",
        component="rope",
        kind="K21",
        reason="has no backward pass, so that queries and keys get no gradient and no error",
        remedy="Return the upstream gradient, turned back.",
        law="rope.gradients_match_oracle",
        functions=by_gradient(lambda upstream, cos, sin: None),
        report="huggingface/candle #3612",
    ),
    Fault(
        id="rope.gradient_tail_zero",
        component="rope",
        kind="K21",
        reason="writes the gradient of the channels that turn only; those that don't turn have "
        "the upstream gradient itself",
        remedy="Copy the upstream gradient of the other channels.",
        law="rope.gradients_match_oracle",
        functions=by_gradient(_tail_zero),
    ),
    Fault(
        id="rope.gradient_without_partner",
        component="rope",
        kind="K22",
        reason="leaves the sine terms out of the gradient, as if the partner were a constant",
        remedy="Add the partner's upstream gradient times the sine.",
        law="rope.gradients_adjoint",
        functions=by_gradient(_without_partner),
    ),
    Fault(
        id="rope.gradient_of_first_positions",
        component="rope",
        kind="K09",
        reason="turns the gradient of every batch entry back by the positions of the first",
        remedy="Index the positions by batch entry in the backward pass too.",
        law="rope.gradients_match_oracle",
        functions=by_gradient(_first_entry),
    ),
    Fault(
        id="rope.gradient_of_token_before",
        component="rope",
        kind="K09",
        reason="turns the gradient back by the angle of the token before",
        remedy="Use the same positions in both passes.",
        law="rope.gradients_adjoint",
        functions=by_gradient(_next_token),
    ),
    Fault(
        id="rope.gradient_partial_tile_zero",
        component="rope",
        kind="K25",
        reason="leaves the gradient of tokens past the last full tile of sixteen at zero",
        remedy="Round the number of tiles up, and mask the tokens beyond the end.",
        law="rope.gradients_match_oracle",
        functions=by_gradient(_last_tile),
    ),
    Fault(
        id="rope.gradient_tables_in_bfloat16",
        component="rope",
        kind="K12",
        reason="saves sine and cosine in bfloat16 for the backward pass",
        remedy="Save the tables as they were, or form them again.",
        law="rope.gradients_match_oracle",
        functions=by_gradient(_tables_in_bfloat16),
        dtypes=("float64", "float32"),
    ),
    Fault(
        id="rope.gradient_upstream_as_contiguous",
        component="rope",
        kind="K26",
        reason="takes the strides of a fresh tensor for granted in the upstream gradient, which "
        "attention returns as a transposed view",
        remedy="Use the strides of the upstream gradient, or copy it.",
        law="rope.gradients_of_views",
        functions=by_gradient(_as_contiguous),
    ),
    Fault(
        id="rope.gradient_upstream_ignored",
        component="rope",
        kind="K22",
        reason="turns ones back in place of the upstream gradient",
        remedy="Turn the upstream gradient back.",
        law="rope.zero_upstream",
        functions=by_gradient(
            lambda upstream, cos, sin: of_channels(torch.ones_like(upstream), cos, sin)
        ),
    ),
    Fault(
        id="rope.gradient_overwrites_upstream",
        component="rope",
        kind="K20",
        reason="uses the upstream gradient as its buffer, which others may still need",
        remedy="Write to a tensor of your own.",
        law="rope.gradient_leaves_output",
        functions=by_gradient(lambda upstream, cos, sin: of_channels(used_up(upstream), cos, sin)),
    ),
)
