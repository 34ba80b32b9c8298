"""What a law is, and what it sees of an implementation.

A law is a plain function from an implementation and drawn inputs to comparisons. It asserts
nothing, draws nothing and knows no test runner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np

from attnspec.oracle.callee import Callee, Heard
from attnspec.oracle.comparison import Comparison
from attnspec.oracle.precision import Contract

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, repr=False)
class Inputs:
    """One drawn call. Floating arrays are float64, already snapped to the storage dtype."""

    component: str
    dtype: str
    arrays: Mapping[str, Array]
    """Name of the argument to its values: floating ones are stored in `dtype`, integer ones in
    the target's index dtype."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keyword options of the call; one that isn't here is left to its default. `dtype` is the
    name of one, and `device` only says that the device is named, whichever it is."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Whole numbers that are passed by position, after the arrays."""
    callees: Mapping[str, Callee] = field(default_factory=dict)
    """Functions that are passed by position, after the arrays."""
    layout: str = "contiguous"
    """How the floating arrays lie in memory, one of `inputs.LAYOUTS`."""
    pattern: str = ""
    """Name of the value pattern."""
    signed: bool = False
    """Whether the suite drew an independent random sign into every term of every contraction,
    so that the variance counts."""
    seed: int = 0
    """Fills whatever else a law needs at random (`inputs.generator`)."""
    drawn: bytes = b""
    """The bytes from which the call was made (`inputs.strategy`); empty for other calls."""

    def __repr__(self) -> str:
        """The call without its values: Hypothesis prints calls, and warns of long ones."""
        words = [f"{name}{list(a.shape)}" for name, a in self.arrays.items()]
        more = (*self.callees.items(), *self.numbers.items(), *self.options.items())
        words += [f"{n}={v!r}" for n, v in more]
        told = ", ".join(words)
        return f"<{self.component}({told}) {self.dtype}, {self.layout}, seed {self.seed}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # Hypothesis prints dataclasses by their fields else
        printer.text(repr(self))

    def with_arrays(self, **arrays: Array) -> Inputs:
        """The same call with other values."""
        return replace(self, arrays={**self.arrays, **arrays}, drawn=b"")

    def with_callees(self, **callees: Callee) -> Inputs:
        """The same call with other functions."""
        return replace(self, callees={**self.callees, **callees}, drawn=b"")

    def with_numbers(self, **numbers: int) -> Inputs:
        """The same call with other whole numbers."""
        return replace(self, numbers={**self.numbers, **numbers}, drawn=b"")


@dataclass(frozen=True)
class Record:
    """What happened to the memory around one call: see the law `inputs_unchanged`."""

    before: Array
    after: Array


class Pullback(Protocol):
    """The backward passes of one call."""

    def __call__(self) -> dict[str, Array]:
        """The gradients, by one pass each time."""

    def accumulated(self) -> dict[str, Array]:
        """What two passes add up to where gradients are accumulated."""

    def derivative(self, direction: Array) -> Array:
        """The derivative of the inner product of a direction and the gradient of the first wanted
        argument, with respect to the upstream: that of the output along the direction. Raises
        `Breach` of kind `declined` where gradients can't be differentiated."""


class Implementation(Protocol):
    """One function of a target at one dtype and device, as a law sees it."""

    dtype: str
    device: str
    contract: Contract
    conventions: Mapping[str, str]
    guarantees: tuple[str, ...]
    differentiable: bool
    """Whether the target has gradients of this function."""

    def accepts(self, option: str) -> bool:
        """Whether the function takes this keyword."""

    def legal(self, inputs: Inputs) -> bool:
        """Whether a call lies within the limits that the target declares. Drawn calls do; a law
        asks before it makes one of another shape."""

    def __call__(self, inputs: Inputs, *, layout: str | None = None) -> Array:
        """Call it and return what it gave, as float64; the first of several results. Raises
        `Breach` for a result of the wrong kind, and for an exception on a legal call."""

    def parts(self, inputs: Inputs, *, layout: str | None = None) -> tuple[Array, ...]:
        """Call it and return all of its results."""

    def recorded(self, inputs: Inputs) -> Array:
        """Call it as one does who will ask for gradients, and return its first result."""

    def gradients(
        self,
        inputs: Inputs,
        upstream: Array,
        *,
        layout: str | None = None,
        upstream_layout: str = "contiguous",
    ) -> dict[str, Array]:
        """Gradients of sum(upstream * first result), one for each differentiable argument of the
        call. Raises `Breach` as a call does, and of kind `gradient` where one is missing or is
        of the wrong kind."""

    def pullback(self, inputs: Inputs, upstream: Array, wanted: tuple[str, ...]) -> Pullback:
        """Call it where only the arguments `wanted` need gradients, which the backward passes of
        that call give."""

    def held(self, inputs: Inputs) -> tuple[Array, Callable[[], Array]]:
        """Call it, and return its result beside a function that reads the very object that it
        returned once more: what was given away must not change later."""

    def sibling(self, component: str) -> Implementation | None:
        """Another function of the same target, or None where there is none."""

    def memory(self) -> Record:
        """Every byte handed over in the latest call, guard zones included, before and after."""

    def seen(self) -> tuple[Heard, ...]:
        """What the functions that the latest call handed over were given, in their order."""

    def refuses(self, inputs: Inputs) -> bool:
        """Whether it raises an exception, of any kind, on a call on which one is due."""


class Breach(Exception):
    """The implementation did not do what the contract's signature says: it raised on a legal
    call, or returned something of another type, shape, dtype or device."""

    def __init__(self, kind: str, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy
        """What its author can do about it, where that is known."""
        self.kind = kind
        """`raises`, `type`, `shape`, `dtype`, `device`, `gradient`, `accepts` (a result where an
        exception is due), `called` (a function that it was given, with something else than is due)
        or `declined` (NotImplementedError)."""


Kind = Literal["oracle", "exact", "probe", "reduced", "equivariance", "form", "gradient"]


@dataclass(frozen=True)
class Law:
    """One row of the table of laws."""

    id: str
    component: str
    says: str
    """The law in one sentence, as messages print it."""
    means: str
    """What a violation means for the author of an implementation."""
    kind: Kind
    check: Callable[[Implementation, Inputs], list[Comparison]]
    inputs: str
    """Name of the family of inputs that it is driven with (`inputs.FAMILIES`)."""
    claims: tuple[str, ...] = ()
    rejects: tuple[str, ...] = ()
    """Ids of faults that it must reject."""
    blind_to: tuple[str, ...] = ()
    """Ids of faults that it cannot see by construction."""
    options: tuple[str, ...] = ()
    """Options that the function must accept for the law to apply."""
    conventions: Mapping[str, str] = field(default_factory=dict)
    """Conventions that a target must follow for the law to apply."""
    guarantee: str = ""
    """The guarantee on which a comparison to the bit rests."""
    gradients: bool = False
    """Whether it is about gradients, so that it applies to targets that have them."""
