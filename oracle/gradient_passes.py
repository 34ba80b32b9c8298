"""Laws about what gradients add up to: over two backward passes, along a direction, from a part of
the upstream; and about their own derivative. The same for every component.

Sources: the adjoint of a map J is that with <u, J v> = <J^T u, v>; J^T u is linear in u, so that
its derivative by u is J again, which is how code with two backward passes finds J v.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from attnspec.oracle.calls import Check, close, same
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.expected import Expected
from attnspec.oracle.inner_products import paired
from attnspec.oracle.inputs import generator
from attnspec.oracle.law import Implementation, Inputs
from attnspec.oracle.precision import Format, contract
from attnspec.oracle.rounding import stored
from attnspec.oracle.upstream import direction_of, upstream_of

Array = np.ndarray[Any, Any]
Gradients = Callable[[Implementation, Inputs, Array], Mapping[str, Expected]]
"""From a call and an upstream to the right gradient of each differentiable argument."""
Along = Callable[[Implementation, Inputs, Array], Expected]
"""From a call and a direction of one argument to the derivative of the result along it."""
Jacobians = Mapping[str, Along]
"""By argument."""
Part = tuple[Any, Mapping[str, Array]]
"""The index of a part of the result, and for some gradients the entries of their arguments that
the part does not depend on."""
Parts = Callable[[Implementation, Inputs], Part]


def twice(right: Expected, fmt: Format) -> Expected:
    """The sum of two values of which each is right, in a storage format."""
    _, allowance = stored((2.0 * right.value, 2.0 * right.allowance), fmt)
    rest = None if right.residual is None else 2.0 * right.residual
    return Expected(2.0 * right.value, allowance, rest)


def accumulated(gradients: Gradients) -> Check:
    """Two backward passes of one call leave twice the gradient where gradients are added up."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        upstream, fmt = upstream_of(inputs), implementation.contract.format("output")
        right = gradients(implementation, inputs, upstream)
        actual = implementation.pullback(inputs, upstream, tuple(right)).accumulated()
        return [
            close(f"gradient of {n}, of two passes", actual[n], twice(r, fmt), implementation.dtype)
            for n, r in right.items()
        ]

    return check


def _one_of(inputs: Inputs, jacobians: Jacobians) -> str:
    """An argument of the call of which the derivative is known."""
    names = [name for name in jacobians if name in inputs.arrays]
    return names[int(generator(inputs, "argument").integers(len(names)))]


def exactly(implementation: Implementation) -> Implementation:
    """What follows the same conventions and rounds as float64 does, for the oracle alone: its
    allowance is what float64 loses of the value."""
    followed = SimpleNamespace(conventions=implementation.conventions, contract=contract("float64"),
                               dtype="float64", accepts=implementation.accepts)  # fmt: skip
    return cast(Implementation, followed)


def along(gradients: Gradients, jacobians: Jacobians) -> Check:
    """The inner product of a gradient and a direction of its argument is that of the upstream and
    the result's derivative along the direction."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        upstream, name = upstream_of(inputs), _one_of(inputs, jacobians)
        direction = direction_of(inputs, name)
        actual = implementation.gradients(inputs, upstream)[name]
        room = gradients(implementation, inputs, upstream)[name].allowance
        moved = jacobians[name](exactly(implementation), inputs, direction)
        left = upstream, moved.value, moved.allowance
        return [paired(f"<G, J v> = <d{name}, v>", left, (direction, actual, room), 0)]

    return check


def of_gradients(jacobians: Jacobians) -> Check:
    """The derivative of <gradient, v> by the upstream is that of the result along v."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        name = _one_of(inputs, jacobians)
        direction = direction_of(inputs, name)
        pullback = implementation.pullback(inputs, upstream_of(inputs), (name,))
        right = jacobians[name](implementation, inputs, direction)
        what = f"derivative of <gradient of {name}, v> by the upstream"
        return [close(what, pullback.derivative(direction), right, implementation.dtype)]

    return check


def stay_apart(gradients: Gradients, parts: Parts) -> Check:
    """From an upstream that is zero but for a part of the result, what that part does not depend on
    gets zeros, where nothing can overflow on the way."""

    def check(implementation: Implementation, inputs: Inputs) -> list[Comparison]:
        index, others = parts(implementation, inputs)
        whole = upstream_of(inputs)
        upstream = np.zeros_like(whole)
        upstream[index] = whole[index]
        actual = implementation.gradients(inputs, upstream)
        right = gradients(implementation, inputs, upstream)
        found = []
        for name, where in others.items():
            values = actual[name][where & np.isfinite(right[name].allowance)]
            what = f"gradient of {name} where the upstream of all that reads it is zero"
            found.append(same(what, values, np.zeros_like(values), implementation.dtype))
        return found

    return check


def one_of_axis(inputs: Inputs, shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, Array]:
    """An axis among some that have several places, the first where none has, and which of its
    places all but one are."""
    rng = generator(inputs, "part")
    several = [axis for axis in axes if shape[axis] > 1] or list(axes[:1])
    axis = several[int(rng.integers(len(several)))]
    return axis, np.arange(shape[axis]) != int(rng.integers(max(shape[axis], 1)))


def along_axis(others: Array, axis: int, shape: tuple[int, ...]) -> Array:
    """Entries at these places of an axis: bool, of a shape."""
    spread = others.reshape([-1 if at == axis else 1 for at in range(len(shape))])
    return np.broadcast_to(spread, shape)


def index_of(others: Array, axis: int) -> tuple[Any, ...]:
    """The index of the place that is none of the others."""
    return (*[slice(None)] * axis, ~others)
