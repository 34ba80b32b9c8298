"""RMSNorm with a backward pass that follows some rule: what faults of gradients are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnspec.impls import rms_norm
from attnspec.impls.faults.fault import Fault
from attnspec.impls.faults.rms_norm import Functions

Grads = tuple[Tensor | None, Tensor | None]
BLOCK = 32
"""Channels, or rows, that a backward pass takes at once."""


class Saved(NamedTuple):
    """What a backward pass has: rows of channels, in the dtype of the computation."""

    x: Tensor
    factor: Tensor
    """1 over what a row was divided by."""
    normalised: Tensor
    gain: Tensor
    upstream: Tensor
    storage: torch.dtype
    eps: float
    wanted: tuple[bool, bool]
    """Whether x and the weight need a gradient."""


Rule = Callable[[Saved], Grads]
"""The gradients of x and of the weight."""


def mean_of(product: Tensor) -> Tensor:
    """Of each row."""
    return product.mean(-1, keepdim=True)


def of_x(saved: Saved) -> Tensor:
    """The right one: r (g - x_hat mean(g x_hat)), with g the upstream times the gain."""
    g = saved.upstream * saved.gain
    hat = saved.normalised
    return saved.factor * (g - hat * mean_of(g * hat))


def of_weight(saved: Saved) -> Tensor:
    """The right one: the sum over all rows of upstream and normalised value."""
    return (saved.upstream * saved.normalised).sum(0)


class _Function(torch.autograd.Function):
    """The right result, and the gradients of some rule."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        eps: float,
        rule: Rule,
        read: Callable[[Tensor], Tensor],
        plus: float,
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.rest = (eps, rule, read, plus)
        gain = None if weight is None else rms_norm.widened(weight) + plus
        return rms_norm.gained(rms_norm.rms_norm(rms_norm.widened(x), eps=eps), gain, x)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Any, ...]:
        x, weight = ctx.saved_tensors
        eps, rule, read, plus = ctx.rest
        rows = rms_norm.widened(x).reshape(-1, x.shape[-1])
        factor = torch.rsqrt(rms_norm.mean_square(rows) + eps)
        gain = torch.ones_like(rows[0] if len(rows) else rows.new_ones(x.shape[-1]))
        if weight is not None:
            gain = rms_norm.widened(weight) + plus
        above = rms_norm.widened(read(upstream[0])).reshape(rows.shape)
        wanted = (bool(ctx.needs_input_grad[0]), bool(ctx.needs_input_grad[1]))
        saved = Saved(x=rows, factor=factor, normalised=rows * factor, gain=gain, upstream=above,
                      storage=x.dtype, eps=eps, wanted=wanted)  # fmt: skip
        dx, dw = rule(saved)
        dx = None if dx is None else dx.reshape(x.shape).to(x.dtype)
        dw = None if dw is None or weight is None else dw.to(weight.dtype)
        return dx, dw, None, None, None, None


def unchanged(x: Tensor) -> Tensor:
    """What reads an upstream gradient rightly."""
    return x


def by_rule(
    rule: Rule, read: Callable[[Tensor], Tensor] = unchanged, *, plus: float = 0.0
) -> Functions:
    """A right RMSNorm with other gradients. `read` is how it reads the upstream one, `plus` what
    is added to the weight."""

    def function(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
        checked = None if weight is None else rms_norm.checked(weight, x)
        found: Tensor = _Function.apply(x, checked, eps, rule, read, plus)  # type: ignore[no-untyped-call]
        return found

    return lambda: {"rms_norm": function}


def by_x(rule: Callable[[Saved], Tensor | None], **more: Any) -> Functions:
    """The same with a right gradient of the weight."""
    return by_rule(lambda saved: (rule(saved), of_weight(saved)), **more)


def fault(identity: str, kind: str, reason: str, remedy: str, law: str, made: Functions,
          **more: Any) -> Fault:  # fmt: skip
    """A row of the table."""
    return Fault(
        f"rms_norm.gradient_{identity}", "rms_norm", kind, reason, remedy, f"rms_norm.{law}",
        made, **more,
    )  # fmt: skip
