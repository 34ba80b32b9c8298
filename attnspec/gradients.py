"""Gradients of a function of a target: through torch autograd, or from its own `NAME_backward`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from attnspec.arrays import Crossing, Due, described, torch
from attnspec.handing import Handed
from attnspec.loading import Functions, backward_name
from attnspec.oracle.component import Bundle, Component
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.law import Breach
from attnspec.raising import one_line
from attnspec.target import Target

Array = np.ndarray[Any, Any]
LISTED = 4
"""Components with gradients that a remedy names."""


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


ONCE = re.compile(r"retain_graph|second time|unpacked once|modified by an inplace operation")
"""What torch says where a graph is good for a single backward pass."""


class Missing(Breach):
    """There is no gradient, or one of them is None."""

    def __init__(self, message: str) -> None:
        super().__init__("gradient", message)


def remedy(component: str, tensors: Sequence[str], functions: Functions, *, torch: bool) -> str:
    """What an author can do about gradients that are missing."""
    others = [name for name in functions if name in COMPONENTS and name != component]
    listed = ", ".join(f'"{name}"' for name in others[:LISTED])
    comma = "," if len(others) == 1 else ", ..." if len(others) > LISTED else ""
    declare = f"gradients=({listed}{comma})" if others else "gradients=False"
    keep = "keep the way from its inputs to its result differentiable " if torch else ""
    keep += "(no detach, no_grad or .data), or " if torch else ""
    return (
        f"if {component} is to have gradients, {keep}give a function "
        f"{backward_name(component)}(grad_out, {', '.join(tensors)}, **options) that returns "
        f"them as a tuple; if it has none, declare {declare} in TARGET"
    )


@contextmanager
def advised(declaration: Target, component: str, functions: Functions) -> Iterator[None]:
    """Adds to what says that a gradient is missing what its author can do."""
    try:
        yield
    except Missing as missing:
        row, torch = COMPONENTS[component], declaration.arrays == "torch"
        missing.remedy = remedy(component, row.positional, functions, torch=torch)
        raise


def recorded() -> AbstractContextManager[None]:
    """While autograd keeps track of what is done, whatever the caller has switched off."""
    context: AbstractContextManager[None] = torch().enable_grad()
    return context


def leaf(given: Any) -> Any:
    """A tensor on the same memory of which autograd keeps the gradient."""
    return given.detach().requires_grad_()


def differentiated(
    output: Any, leaves: Sequence[Any], upstream: Any, kept: bool
) -> tuple[Any, ...]:
    """The gradients of sum(upstream * output) for tensors that `leaf` made; None for each that
    the output does not depend on. `kept`: the graph is kept for another pass. Raises Breach where
    autograd has lost the output, and of kind `declined` where there is no other pass."""
    if not output.requires_grad:
        raise Missing("returned an output that does not require grad: no gradients")
    try:
        grads: tuple[Any, ...] = torch().autograd.grad(
            outputs=output, inputs=leaves, grad_outputs=upstream, allow_unused=True,
            retain_graph=kept,
        )  # fmt: skip
    except RuntimeError as error:
        if kept and ONCE.search(str(error)):
            raise Breach("declined", f"allows one backward pass: {one_line(error)}") from error
        raise
    return grads


def some(grads: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
    """Those that are wanted."""
    return {name: grads[name] for name in wanted}


def refused(error: BaseException) -> bool:
    """Whether an exception is autograd's own word that there is no gradient, or a wrong one."""
    return _underivable(error) or "returned an invalid gradient" in str(error)


def _underivable(error: BaseException) -> bool:
    return str(error).startswith("derivative for ")


def refusal(error: BaseException) -> Breach:
    """What such an exception says."""
    text = f"gives no gradient: {one_line(error)}"
    return Missing(text) if _underivable(error) else Breach("gradient", text)


def unpacked(returned: Any, row: Component, names: Sequence[str]) -> tuple[Any, ...]:
    """The gradients of these arrays that `NAME_backward` returned, not looked into. Raises Breach
    of kind `gradient` where something else came."""
    bundled = {array for bundle in row.bundles.values() for array in bundle.arrays}
    whole = [n for n in (*row.positional, *row.keywords) if n in row.bundles or n in names]
    wanted = {name: name for name in whole if name not in bundled}
    for name in whole:
        if name in row.bundles:
            bundle = row.bundles[name]
            inner = ", ".join(bundle.arrays)
            wanted[name] = f"a dict of {inner}" if bundle.keyed else f"({inner})"
    if not isinstance(returned, (tuple, list)) or len(returned) != len(wanted):
        expected = f"({', '.join(wanted.values())}{',' if len(wanted) == 1 else ''})"
        raise _not_gradients(returned, f"a tuple of the gradients of {expected}")
    found = dict(zip(wanted, returned, strict=True))
    for name in (name for name in wanted if name in row.bundles):
        found |= _of_bundle(found.pop(name), name, row.bundles[name])
    return tuple(found[name] for name in names)


def _of_bundle(returned: Any, name: str, bundle: Bundle) -> dict[str, Any]:
    """The gradients of a bundle, by array."""
    arrays = bundle.arrays
    if bundle.keyed:
        if not isinstance(returned, Mapping) or set(returned) != set(arrays):
            given = f"keys {sorted(returned)}" if isinstance(returned, Mapping) else returned
            raise _not_gradients(given, f"for {name} a dict with the keys {', '.join(arrays)}")
        return dict(returned)
    if not isinstance(returned, (tuple, list)) or len(returned) != len(arrays):
        raise _not_gradients(returned, f"for {name} a tuple ({', '.join(arrays)})")
    return dict(zip(arrays, returned, strict=True))


def _not_gradients(returned: Any, expected: str) -> Breach:
    given = returned if isinstance(returned, str) else described(returned)
    return Breach("gradient", f"returned {given} from its backward pass; expected {expected}")


def taken(
    grads: Sequence[Any], tensors: Sequence[Handed], crossing: Crossing, device: str
) -> dict[str, Array]:
    """Gradients by the name of their tensor, as float64. Raises Breach of kind `gradient` for one
    that is missing, or that isn't of its tensor's shape, dtype and device."""
    found = {}
    for grad, tensor in zip(grads, tensors, strict=True):
        if grad is None:
            raise Missing(f"gives no gradient of {tensor.name}: it is None")
        due = Due(tensor.where.shape, (tensor.dtype,), device, f"a gradient of {tensor.name}")
        try:
            found[tensor.name] = crossing.take(grad, due)
        except Breach as breach:
            raise Breach("gradient", str(breach)) from breach
    return found
