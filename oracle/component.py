"""What a component is: its arguments, axes and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from attnspec.oracle.law import Inputs


@dataclass(frozen=True)
class Also:
    """A further result of a call that returns several."""

    name: str
    shape: tuple[int, ...]
    wide: bool = True
    """Whether it is float32 or wider, whatever the dtype of the inputs."""


def _nothing_more(inputs: Inputs) -> tuple[Also, ...]:
    return ()


@dataclass(frozen=True)
class Bundle:
    """Several arrays that are passed as one argument."""

    arrays: tuple[str, ...]
    keyed: bool = True
    """Whether it is a dict of the arrays by their names, or else a tuple of them."""

    def of(self, given: Mapping[str, Any]) -> Any:
        """The argument, from its arrays."""
        if self.keyed:
            return {name: given[name] for name in self.arrays}
        return tuple(given[name] for name in self.arrays)


@dataclass(frozen=True)
class Component:
    """The signature of one component of the contract."""

    name: str
    arguments: Mapping[str, str]
    """Arrays that are passed by position, in their order, with their axis letters (`...`: any
    axes before the others; `h*d`: one axis of h parts, each of d)."""
    options: tuple[str, ...]
    """Keyword options."""
    integers: tuple[str, ...]
    """Arguments that hold positions, lengths or indices."""
    result: Callable[[Inputs], tuple[int, ...]]
    """Shape of what it returns."""
    first: str
    """The argument whose dtype and device the result has; empty where no argument is a floating
    array."""
    differentiable: tuple[str, ...]
    """Arguments that have gradients, positional ones first."""
    numbers: Mapping[str, str] = field(default_factory=dict)
    """Whole numbers that are passed by position, after the arrays, with the axes whose sizes they
    are."""
    callees: tuple[str, ...] = ()
    """Functions that are passed by position, after the arrays."""
    whole: bool = False
    """Whether the result holds whole numbers, of any integer dtype."""
    keywords: Mapping[str, str] = field(default_factory=dict)
    """Tensors that are passed by keyword, with the axes to which they are broadcast."""
    booleans: tuple[str, ...] = ()
    """Arguments that hold truth values."""
    also: Callable[[Inputs], tuple[Also, ...]] = _nothing_more
    """Further results, after the first."""
    bundles: Mapping[str, Bundle] = field(default_factory=dict)
    """Arguments that hold several of the arrays."""
    required: tuple[str, ...] = ()
    """Options that every call has."""
    heads: Mapping[str, str] = field(default_factory=dict)
    """Axes whose sizes are options: the heads of packed axes. One that a call leaves out has the
    size of the first."""

    @property
    def typed(self) -> bool:
        """Whether a call says of which dtype its result is: no argument tells."""
        return "dtype" in self.options

    @property
    def positional(self) -> tuple[str, ...]:
        """Arguments that are passed by position, in their order: arrays, bundles of them,
        functions, whole numbers."""
        holder = {array: name for name, bundle in self.bundles.items() for array in bundle.arrays}
        arguments = dict.fromkeys(holder.get(array, array) for array in self.arguments)
        return (*arguments, *self.callees, *self.numbers)

    @property
    def axes(self) -> frozenset[str]:
        """The axes of its arguments, by their names."""
        letters = (*self.arguments.values(), *self.numbers.values(), *self.keywords.values())
        packed = (axis for axes in letters for axis in axes.split())
        return frozenset(axis for axes in packed for axis in axes.split("*"))

    def counts(self, inputs: Inputs) -> dict[str, int]:
        """How many heads a call has, by the axis."""
        first = next(iter(self.heads.values()), "")
        return {
            axis: inputs.options[first if inputs.options.get(option) is None else option]
            for axis, option in self.heads.items()
        }

    def sizes(self, inputs: Inputs) -> dict[tuple[str, str], int]:
        """(argument, axis) to the size in a call, of those axes that go by names."""
        found = {(name, axis): inputs.numbers[name] for name, axis in self.numbers.items()}
        counts = self.counts(inputs)
        found |= {(self.heads[axis], axis): count for axis, count in counts.items()}
        for name, letters in self.arguments.items():
            axes, shape = letters.split(), inputs.arrays[name].shape
            if axes[0] == "...":
                axes, shape = axes[1:], shape[len(shape) - len(axes) + 1 :]
            if len(axes) == len(shape):
                for axis, size in zip(axes, shape, strict=True):
                    head, _, part = axis.rpartition("*")
                    found[name, part] = int(size) // counts[head] if head else int(size)
        return found
