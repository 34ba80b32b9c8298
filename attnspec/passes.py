"""Backward passes of one call: one, two that add up, and the derivative of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnspec.arrays import torch
from attnspec.gradients import ONCE, Missing, differentiated
from attnspec.oracle.law import Breach
from attnspec.raising import one_line

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Own:
    """Backward passes by a function `NAME_backward`, which nothing differentiates."""

    once: Callable[[], dict[str, Array]]

    def __call__(self) -> dict[str, Array]:
        """The gradients."""
        return self.once()

    def accumulated(self) -> dict[str, Array]:
        """The sums over two passes."""
        first, second = self.once(), self.once()
        return {name: first[name] + second[name] for name in first}

    def derivative(self, direction: Array) -> Array:
        """Raises Breach of kind `declined`."""
        raise Breach("declined", "has gradients that nothing differentiates")


@dataclass(frozen=True)
class Graph:
    """Backward passes of a call that autograd has kept track of."""

    output: Any
    leaves: Sequence[Any]
    above: Any
    guarded: Callable[[Callable[..., Any], list[Any]], Any]
    """What a function returns for arguments, as the target's own does."""
    taken: Callable[[Callable[[], tuple[Any, ...]]], dict[str, Array]]
    """Gradients by name, of what a pass gives."""
    placed: Callable[[Array], Any]
    """A tensor for the values of a direction."""
    result: Callable[[Any], Array]
    """A tensor like the output, as float64."""

    def __call__(self) -> dict[str, Array]:
        """The gradients of one pass, which keeps the graph."""
        return self.taken(lambda: self.guarded(differentiated, self._given(True)))

    def accumulated(self) -> dict[str, Array]:
        """What stands in `.grad` after two passes."""
        return self.taken(lambda: self.guarded(accumulated, self._given()))

    def derivative(self, direction: Array) -> Array:
        """The derivative by the upstream of the first gradient's product with a direction: the
        output's derivative along it."""
        given = [*self._given(), self.placed(direction)]
        return self.result(self.guarded(along, given))

    def _given(self, *more: Any) -> list[Any]:
        return [self.output, self.leaves, self.above, *more]


def accumulated(output: Any, leaves: Sequence[Any], upstream: Any) -> tuple[Any, ...]:
    """What two backward passes leave in the gradients of fresh leaves. Raises Breach of kind
    `declined` where there is one pass only."""
    if not output.requires_grad:
        raise Missing("returned an output that does not require grad: no gradients")
    try:
        for _ in range(2):
            torch().autograd.backward(output, upstream, retain_graph=True, inputs=leaves)
    except RuntimeError as error:
        if ONCE.search(str(error)):
            raise Breach("declined", f"allows one backward pass: {one_line(error)}") from error
        raise
    return tuple(leaf.grad for leaf in leaves)


def along(output: Any, leaves: Sequence[Any], upstream: Any, direction: Any) -> Any:
    """The derivative by the upstream of the inner product of the first leaf's gradient with a
    direction. Raises Breach of kind `declined` where gradients have none: many kernels don't."""
    if not output.requires_grad:
        raise Missing("returned an output that does not require grad: no gradients")
    above = upstream.detach().requires_grad_()
    differentiate = torch().autograd.grad
    try:
        (first,) = differentiate(output, leaves[:1], above, create_graph=True, allow_unused=True)
    except RuntimeError as error:
        raise Breach("declined", f"gives no gradient of gradients: {one_line(error)}") from error
    if first is None:
        raise Missing("gives no gradient: it is None")
    if not first.requires_grad:
        raise Breach("declined", "has gradients that autograd does not keep track of")
    try:
        (second,) = differentiate(first, [above], direction, allow_unused=True)
    except RuntimeError as error:
        raise Breach("declined", f"gives no gradient of gradients: {one_line(error)}") from error
    if second is None:
        raise Breach("declined", "has gradients of which autograd loses the upstream")
    return second
