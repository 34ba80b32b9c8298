"""One function of a target at one dtype and device, as a law sees it."""

from __future__ import annotations

import copy
import os
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attnspec import memory as placement
from attnspec.arrays import crossing
from attnspec.declaration import limits_of
from attnspec.loading import Loaded
from attnspec.oracle.components import COMPONENTS
from attnspec.oracle.law import Breach, Inputs, Record
from attnspec.oracle.precision import NUMPY_TYPES, Contract
from attnspec.oracle.shapes import legal_sizes
from attnspec.signature import signature

Array = np.ndarray[Any, Any]

_OURS = str(Path(__file__).parent) + os.sep


@dataclass
class Tally:
    """What became of the calls so far."""

    calls: int = 0
    answered: int = 0
    """Calls that returned something, right or wrong."""


@dataclass
class _Latest:
    """The latest call's arguments, and how to read their buffers again."""

    inputs: Inputs
    layout: str
    now: list[Callable[[], Array]] = field(default_factory=list)


class Subject:
    """Implements `oracle.law.Implementation` for one function of a loaded target.

    `functions` are those that `loaded.make()` gave; subjects that share them share state that
    the target may keep between calls.
    """

    def __init__(
        self,
        loaded: Loaded,
        component: str,
        dtype: str,
        device: str = "cpu",
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self.loaded = loaded
        self.component = component
        self.dtype = dtype
        self.device = device
        self.contract: Contract = loaded.contracts[dtype]
        self.conventions: Mapping[str, str] = loaded.conventions
        self.guarantees: tuple[str, ...] = loaded.declaration.guarantees
        self.functions = loaded.make() if functions is None else functions
        self.function = self.functions[component]
        self.signature = signature(self.function, COMPONENTS[component])
        self.tally = Tally()
        self._names = tuple(COMPONENTS[component].arguments)
        # argument: dtype and size of an item of what it is stored in
        index = loaded.declaration.index_dtype
        integers = COMPONENTS[component].integers
        kinds = {name: index if name in integers else dtype for name in self._names}
        types = {**NUMPY_TYPES, index: np.dtype(index)}
        self._stored = {name: (kind, types[kind].itemsize) for name, kind in kinds.items()}
        self._integers = frozenset(integers)
        self._crossing = crossing(loaded.declaration.arrays)
        self._latest: _Latest | None = None

    def accepts(self, option: str) -> bool:
        """Whether the function takes this keyword."""
        return option in self.signature.accepts

    def legal(self, inputs: Inputs) -> bool:
        """Whether every axis has a size that the target's limits allow."""
        limits = limits_of(self.component, self.loaded.declaration.limits)
        axes = COMPONENTS[self.component].arguments
        return all(
            size in legal_sizes(axis, limits[axis])
            for name, letters in axes.items()
            for axis, size in zip(letters.split(), inputs.arrays[name].shape, strict=False)
            if axis in limits and len(letters.split()) == inputs.arrays[name].ndim
        )

    def __call__(self, inputs: Inputs, *, layout: str | None = None) -> Array:
        """Call the function and return its result as float64, a copy. Raises Breach."""
        return self._taken(self._result(inputs, layout), inputs)

    def held(self, inputs: Inputs) -> tuple[Array, Callable[[], Array]]:
        """Call the function; its result, and a function that reads the returned object anew."""
        result = self._result(inputs, None)
        return self._taken(result, inputs), lambda: self._taken(result, inputs)

    def _taken(self, result: Any, inputs: Inputs) -> Array:
        shape = COMPONENTS[self.component].result(inputs)
        return self._crossing.take(result, shape, self.dtype, self.device)

    def _result(self, inputs: Inputs, layout: str | None) -> Any:
        latest = _Latest(inputs, inputs.layout if layout is None else layout)
        arguments = [self._handed(name, latest) for name in self._names]
        self._latest = latest
        self.tally.calls += 1
        try:
            with warnings.catch_warnings():
                # warnings are errors for the suite's code and tests, not inside a target
                warnings.simplefilter("ignore")
                result = self.function(*arguments, **inputs.options)
                self._crossing.settle(self.device)
        except NotImplementedError as error:
            raise Breach("declined", f"NotImplementedError: {_one_line(error)}") from error
        except (Exception, SystemExit) as error:
            raise Breach("raises", self._raised(error)) from error
        self.tally.answered += 1
        return result

    def memory(self) -> Record:
        """Every byte handed over in the latest call, guard zones included: as it was, made anew
        from the inputs, and as it is. Raises RuntimeError before the first call."""
        latest = self._latest
        if latest is None:
            raise RuntimeError("memory() before any call")
        before = [self._buffer(name, latest)[0] for name in self._names]
        return Record(_bytes(before), _bytes([read() for read in latest.now]))

    def written(self) -> str:
        """What the latest call did to the memory that it was handed, in words; empty where it
        left everything as it was."""
        latest = self._latest
        if latest is None:
            return ""
        for name, now in zip(self._names, latest.now, strict=True):
            before, where = self._buffer(name, latest)
            if text := placement.told(name, before, now(), self._stored[name][0], where):
                return text
        return ""

    def sibling(self, component: str) -> Subject | None:
        """The same target's function `component`, or None where there is none to call."""
        if component not in self.functions or component not in COMPONENTS:
            return None
        other = Subject(self.loaded, component, self.dtype, self.device, self.functions)
        other.contract, other.conventions = self.contract, self.conventions
        return None if other.signature.problem else other

    def with_contract(self, contract: Contract) -> Subject:
        """The same function, judged under another precision contract."""
        other = self._copied()
        other.contract = contract
        return other

    def with_conventions(self, conventions: Mapping[str, str]) -> Subject:
        """The same function, taken to follow other conventions."""
        other = self._copied()
        other.conventions = conventions
        return other

    def _copied(self) -> Subject:
        other = copy.copy(self)
        other.tally = Tally()
        return other

    def _buffer(self, name: str, latest: _Latest) -> tuple[Array, placement.Plan]:
        values = latest.inputs.arrays[name]
        kind, item = self._stored[name]
        where = placement.planned(values, latest.layout, item)
        return placement.buffer(values, kind, where), where

    def _handed(self, name: str, latest: _Latest) -> Any:
        flat, where = self._buffer(name, latest)
        handed, now = self._crossing.hand(flat, where, self._stored[name][0], self.device)
        latest.now.append(now)
        return handed

    def _raised(self, error: BaseException) -> str:
        text = f"raised {type(error).__name__}: {_one_line(error)}"
        code = getattr(self.function, "__code__", None)
        place = location(error, code.co_filename if code else "")
        return f"{text} ({place})" if place else text


def location(error: BaseException, file: str = "") -> str:
    """Where in the target's code an exception came from: the deepest frame in `file`, or else
    the outermost one that isn't the suite's. Empty where there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if file and f.filename == file]
    foreign = [f for f in frames if not _ours(f.filename)]
    if not inside and not foreign:
        return ""
    frame = inside[-1] if inside else foreign[0]
    name = Path(frame.filename).name
    return f"{name}, line {frame.lineno}, in {frame.name}: {frame.line or '?'}"


def _ours(filename: str) -> bool:
    # built-in targets and faults lie inside our folder, but they are judged like any other
    return filename.startswith(_OURS) and not filename.startswith(_OURS + "impls")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _bytes(buffers: list[Array]) -> Array:
    return np.concatenate([np.ascontiguousarray(b).view(np.uint8) for b in buffers])
