"""Gradients of a function of a target: through torch autograd, or from its own `NAME_backward`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from attnspec.arrays import Crossing, Due, described, torch
from attnspec.handing import Handed
from attnspec.loading import Functions, backward_name
from attnspec.oracle.law import Breach
from attnspec.target import Target

Array = np.ndarray[Any, Any]


def has_gradients(declaration: Target, component: str, functions: Functions) -> bool:
    """Whether a target has gradients of a component: what it declares, or else whether there is
    a way to them."""
    declared = declaration.gradients
    if declared is None:
        return declaration.arrays == "torch" or backward_name(component) in functions
    return declared if isinstance(declared, bool) else component in declared


def without_gradients(component: str) -> str:
    """Why laws about gradients are not tested."""
    return f"the target has no gradients of {component}"


def recorded() -> AbstractContextManager[None]:
    """While autograd keeps track of what is done, whatever the caller has switched off."""
    context: AbstractContextManager[None] = torch().enable_grad()
    return context


def leaf(given: Any) -> Any:
    """A tensor on the same memory of which autograd keeps the gradient."""
    return given.detach().requires_grad_()


def differentiated(output: Any, leaves: Sequence[Any], upstream: Any) -> tuple[Any, ...]:
    """The gradients of sum(upstream * output) for tensors that `leaf` made; None for each that
    the output does not depend on. Raises Breach where autograd has lost the output."""
    if not output.requires_grad:
        raise Breach("gradient", "returned an output that does not require grad: no gradients")
    grads: tuple[Any, ...] = torch().autograd.grad(
        outputs=output, inputs=leaves, grad_outputs=upstream, allow_unused=True
    )
    return grads


def refused(error: BaseException) -> bool:
    """Whether an exception is autograd's own word that there is no gradient, or a wrong one."""
    text = str(error)
    return text.startswith("derivative for ") or "returned an invalid gradient" in text


def unpacked(returned: Any, names: Sequence[str]) -> tuple[Any, ...]:
    """The gradients that `NAME_backward` returned, not looked into."""
    if not isinstance(returned, (tuple, list)) or len(returned) != len(names):
        expected = f"({', '.join(names)}{',' if len(names) == 1 else ''})"
        raise Breach(
            "gradient",
            f"returned {described(returned)} from its backward pass; expected a tuple of the "
            f"gradients of {expected}",
        )
    return tuple(returned)


def taken(
    grads: Sequence[Any], tensors: Sequence[Handed], crossing: Crossing, device: str
) -> dict[str, Array]:
    """Gradients by the name of their tensor, as float64. Raises Breach of kind `gradient` for one
    that is missing, or that isn't of its tensor's shape, dtype and device."""
    found = {}
    for grad, tensor in zip(grads, tensors, strict=True):
        if grad is None:
            raise Breach("gradient", f"gives no gradient of {tensor.name}: it is None")
        due = Due(tensor.where.shape, (tensor.dtype,), device, f"a gradient of {tensor.name}")
        try:
            found[tensor.name] = crossing.take(grad, due)
        except Breach as breach:
            raise Breach("gradient", str(breach)) from breach
    return found
