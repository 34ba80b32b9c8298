"""Attention with its backward pass in closed form, each step of which a fault may replace.

The steps as they stand are right: dP = G V^T, dS = P (dP - sum of P dP), and from these the
gradients of all arguments, summed over the query heads that share a key head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.faults.attention_steps import (
    Call,
    Functions,
    averaged,
    by_call,
    call,
    hidden,
    products,
    repeated,
    scores,
    visible,
    weighted,
)


@dataclass(frozen=True)
class Known:
    """What a backward pass knows, all but the upstream gradient from the forward pass."""

    given: Call
    seen: Tensor
    """Who sees whom, broadcastable to `b h t s`."""
    output: Tensor
    """`b h t e`."""
    lse: Tensor
    """`b h t`."""
    upstream: Tensor
    """`b h t e`."""
    needed: tuple[bool, ...]
    """Whether q, k, v and bias need gradients."""

    @property
    def keys(self) -> Tensor:
        """`b h s d`."""
        return repeated(self.given.k, self.given.q.shape[1])

    @property
    def values(self) -> Tensor:
        """`b h s e`."""
        return repeated(self.given.v, self.given.q.shape[1])


def weights(known: Known) -> Tensor:
    """P, formed again: `b h t s`."""
    return weighted(hidden(scores(known.given), known.seen))[0]


def of_weights(known: Known) -> Tensor:
    """dP: `b h t s`."""
    return known.upstream @ known.values.mT


def row_term(known: Known, p: Tensor, dp: Tensor) -> Tensor:
    """The sum of P dP over the keys: `b h t 1`."""
    return (p * dp).sum(-1, keepdim=True)


def of_products(known: Known, ds: Tensor) -> Tensor:
    """From the gradient of what the softmax takes to that of the scaled product: `b h t s`."""
    cap = known.given.softcap
    return ds if cap is None else ds * (1.0 - (products(known.given) / cap).tanh() ** 2)


def of_queries(known: Known, dc: Tensor) -> Tensor:
    """`b h t d`."""
    return dc @ known.keys * known.given.factor


def of_keys(known: Known, dc: Tensor) -> Tensor:
    """For each query head: `b h s d`."""
    return dc.mT @ known.given.q * known.given.factor


def of_values(known: Known, p: Tensor) -> Tensor:
    """For each query head: `b h s e`."""
    return p.mT @ known.upstream


def of_bias(known: Known, ds: Tensor) -> Tensor | None:
    """In the shape of the bias."""
    bias = known.given.bias
    return None if bias is None else ds.sum_to_size(bias.shape)


def over_group(x: Tensor, groups: int) -> Tensor:
    """Keys' or values' gradients for each query head, summed for each key head."""
    return members(x, groups).sum(2)


def members(x: Tensor, groups: int) -> Tensor:
    """`b h s x` to `b g r s x`."""
    return x.reshape(x.shape[0], groups, x.shape[1] // max(groups, 1), *x.shape[2:])


def wide(upstream: Tensor, given: Call) -> Tensor:
    """The upstream gradient, in the dtype of the computation."""
    return upstream.to(given.q.dtype)


Gradients = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]
"""Of q, k, v and bias."""


@dataclass(frozen=True)
class Steps:
    """A backward pass."""

    upstream: Callable[[Tensor, Call], Tensor] = wide
    weights: Callable[[Known], Tensor] = weights
    of_weights: Callable[[Known], Tensor] = of_weights
    row_term: Callable[[Known, Tensor, Tensor], Tensor] = row_term
    of_products: Callable[[Known, Tensor], Tensor] = of_products
    of_queries: Callable[[Known, Tensor], Tensor] = of_queries
    of_keys: Callable[[Known, Tensor], Tensor] = of_keys
    of_values: Callable[[Known, Tensor], Tensor] = of_values
    of_bias: Callable[[Known, Tensor], Tensor | None] = of_bias
    keys_over_group: Callable[[Tensor, int], Tensor] = over_group
    values_over_group: Callable[[Tensor, int], Tensor] = over_group
    finished: Callable[[Known, Gradients], Gradients] = lambda known, gradients: gradients

    def gradients(self, known: Known) -> Gradients:
        """All of them, in the dtype of the computation."""
        groups = known.given.k.shape[1]
        p, dp = self.weights(known), self.of_weights(known)
        ds = p * (dp - self.row_term(known, p, dp))
        dc = self.of_products(known, ds)
        found = (
            self.of_queries(known, dc),
            self.keys_over_group(self.of_keys(known, dc), groups),
            self.values_over_group(self.of_values(known, p), groups),
            self.of_bias(known, ds),
        )
        return self.finished(known, found)


class _Attention(torch.autograd.Function):
    """The right forward pass, and the backward pass of some steps."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        rest: Mapping[str, Any],
        steps: Steps,
    ) -> tuple[Tensor, Tensor]:
        given = call({"q": q, "k": k, "v": v, "bias": bias, **rest})
        seen = visible(given)
        output, lse = averaged(given, *weighted(hidden(scores(given), seen)))
        ctx.mark_non_differentiable(lse)
        ctx.save_for_backward(q, k, v, bias)
        ctx.known = (seen, output, lse, rest, steps)
        return output.to(q.dtype), lse

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias = ctx.saved_tensors
        seen, output, lse, rest, steps = ctx.known
        given = call({"q": q, "k": k, "v": v, "bias": bias, **rest})
        above, needed = steps.upstream(upstream[0], given), ctx.needs_input_grad[:4]
        known = Known(given, seen, output, lse, above, needed)
        found = steps.gradients(known)
        return (*(None if x is None else x.to(q.dtype) for x in found), None, None)


def by_backward(**steps: Any) -> Functions:
    """A right attention with some steps of its backward pass replaced."""
    return by_call(lambda arguments: with_steps(arguments, Steps(**steps)))


def with_steps(arguments: dict[str, Any], steps: Steps) -> Any:
    """What the call returns."""
    tensors = [arguments[name] for name in ("q", "k", "v", "bias")]
    rest = {name: x for name, x in arguments.items() if name not in ("q", "k", "v", "bias")}
    output, lse = _Attention.apply(*tensors, rest, steps)  # type: ignore[no-untyped-call]
    return (output, lse) if arguments["return_lse"] else output
