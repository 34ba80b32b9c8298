"""What wrong backward passes do whose first is right, or nearly: they keep, add, or are not derived
once more. Any component can have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from attnspec.impls.faults.fault import Fault

Run = Callable[..., Tensor]
"""A call as a function of its differentiable tensors alone."""
Grads = tuple[Tensor | None, ...]
Rule = Callable[[Run, tuple[Tensor, ...], Tensor, tuple[bool, ...]], Grads]
"""The gradients from the call, its tensors, the upstream gradient, and which are needed."""
Through = Callable[[Run, tuple[Tensor, ...]], Tensor]
Functions = Callable[[], Mapping[str, Callable[..., Any]]]


def pulled(run: Run, tensors: tuple[Tensor, ...], upstream: Tensor) -> tuple[Tensor, ...]:
    """The right gradients."""
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() for t in tensors]
        found: tuple[Tensor, ...] = torch.autograd.grad(run(*leaves), leaves, upstream)
    return found


def pushed(run: Run, tensors: tuple[Tensor, ...], directions: tuple[Tensor, ...]) -> Tensor:
    """The derivative of a call along directions of its tensors."""
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() for t in tensors]
        output = run(*leaves)
        above = torch.zeros_like(output, requires_grad=True)
        below = torch.autograd.grad(output, leaves, above, create_graph=True)
        (found,) = torch.autograd.grad(below, [above], directions)
    return found


class _ByRule(torch.autograd.Function):
    """The right result, and the gradients of some rule."""

    @staticmethod
    def forward(ctx: Any, run: Run, rule: Rule, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.rest = run, rule
        return run(*tensors)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Grads:
        run, rule = ctx.rest
        needed = tuple(ctx.needs_input_grad[2:])
        return None, None, *rule(run, tuple(ctx.saved_tensors), upstream[0], needed)


class _Twice(torch.autograd.Function):
    """The right result, whose gradients are right and have those of another function."""

    @staticmethod
    def forward(ctx: Any, run: Run, other: Run, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.rest = run, other
        return run(*tensors)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Grads:
        run, other = ctx.rest
        found: Grads = _Back.apply(run, other, upstream[0], *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return None, None, *found


class _Back(torch.autograd.Function):
    """The right gradients; theirs are the derivatives of another function."""

    @staticmethod
    def forward(ctx: Any, run: Run, other: Run, upstream: Tensor, *tensors: Tensor) -> Any:
        ctx.save_for_backward(*tensors)
        ctx.other = other
        return pulled(run, tensors, upstream)

    @staticmethod
    def backward(ctx: Any, *directions: Tensor) -> Grads:
        tensors = tuple(ctx.saved_tensors)
        return None, None, pushed(ctx.other, tensors, directions), *[None] * len(tensors)


class _AddsToGrad(torch.autograd.Function):
    """The identity, whose backward pass adds to a gradient that is there already, and returns it
    besides."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.place = x
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        place = ctx.place
        if place.is_leaf and place.grad is not None:
            with torch.no_grad():
                place.grad.add_(upstream[0])
        return upstream[0]


def through(right: Callable[..., Any], names: tuple[str, ...], way: Through) -> Functions:
    """A function that takes another way from its differentiable arguments to its result. Calls that
    return several results take the right one."""

    @wraps(right)
    def function(*arguments: Any, **options: Any) -> Any:
        given = signature(right).bind(*arguments, **options).arguments
        if given.get("return_lse"):
            return right(**given)
        tensors = {name: given[name] for name in names if given.get(name) is not None}

        def run(*values: Tensor) -> Tensor:
            found: Tensor = right(**{**given, **dict(zip(tensors, values, strict=True))})
            return found

        return way(run, tuple(tensors.values()))

    return lambda: {right.__name__: function}


def by_rule(right: Callable[..., Any], names: tuple[str, ...], rule: Rule) -> Functions:
    """The right result with the gradients of some rule."""
    return through(right, names, lambda run, tensors: _ByRule.apply(run, rule, *tensors))  # type: ignore[no-untyped-call]


def derived_again(
    right: Callable[..., Any], names: tuple[str, ...], other: Callable[[Run], Run]
) -> Functions:
    """The right result and gradients; those of the gradients are the derivative of another call."""
    return through(right, names, lambda run, tensors: _Twice.apply(run, other(run), *tensors))  # type: ignore[no-untyped-call]


def adds_to_grad(right: Callable[..., Any], names: tuple[str, ...]) -> Functions:
    """A backward pass that adds to the first argument's gradient itself."""

    def way(run: Run, tensors: tuple[Tensor, ...]) -> Tensor:
        first: Tensor = _AddsToGrad.apply(tensors[0])  # type: ignore[no-untyped-call]
        return run(first, *tensors[1:])

    return through(right, names, way)


def of_latest(right: Callable[..., Any], names: tuple[str, ...]) -> Functions:
    """Gradients at the latest call of the same shapes, whichever is gone back through."""

    def made() -> Mapping[str, Callable[..., Any]]:
        latest: dict[tuple[torch.Size, ...], tuple[Run, tuple[Tensor, ...]]] = {}

        def rule(
            run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: tuple[bool, ...]
        ) -> Grads:
            kept = latest[(upstream.shape, *(t.shape for t in tensors))]
            return pulled(*kept, upstream)

        def way(run: Run, tensors: tuple[Tensor, ...]) -> Tensor:
            found: Tensor = _ByRule.apply(run, rule, *tensors)  # type: ignore[no-untyped-call]
            latest[(found.shape, *(t.shape for t in tensors))] = run, tensors
            return found

        return through(right, names, way)()

    return made


def carried(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: tuple[bool, ...]
) -> Grads:
    """The gradient of the first argument, to each of whose rows that of the row before is added:
    what a buffer holds that isn't cleared."""
    first, *others = pulled(run, tensors, upstream)
    rows = first.reshape(-1, first.shape[-1]) if first.ndim > 1 else first
    return ((rows + rows.roll(1, 0)).reshape(first.shape), *others)


def row_stride_alone(
    run: Run, tensors: tuple[Tensor, ...], upstream: Tensor, _needed: tuple[bool, ...]
) -> Grads:
    """The gradients for an upstream that is read with the strides of its rows, and 1 along them."""
    end = upstream.storage_offset() + sum(
        (size - 1) * step
        for size, step in zip(upstream.shape, (*upstream.stride()[:-1], 1), strict=True)
    )
    if not upstream.numel() or (end + 1) * upstream.element_size() > _bytes_of(upstream):
        return pulled(run, tensors, upstream)
    strides = (*upstream.stride()[:-1], 1)
    return pulled(run, tensors, upstream.as_strided(upstream.shape, strides).clone())


def _bytes_of(x: Tensor) -> int:
    return x.untyped_storage().nbytes()


ADDS = (
    "K29",
    "adds to what an earlier backward pass left in .grad, and returns the gradient besides",
    "Return the gradient, and leave adding up to whoever asked for it.",
)
CARRIES = (
    "K29",
    "adds what the row before left in the buffer to the gradient of every row",
    "Clear the buffer at the start of every row.",
)
ROW_STRIDE = (
    "K26",
    "is given the stride of the upstream's rows, and takes that along a row for 1",
    "Pass both strides, or copy an upstream whose last stride is another.",
)
LATEST = (
    "K29",
    "saves for the backward pass in one place for each shape, which the next such call replaces",
    "Save it with the call that it belongs to.",
)


def fault(
    component: str, name: str, text: tuple[str, str, str], law: str, made: Functions, **more: Any
) -> Fault:
    """A row of the table; the text is its kind, reason and remedy."""
    return Fault(
        f"{component}.gradient_{name}", component, *text, f"{component}.{law}", made, **more
    )
