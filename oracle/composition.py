"""A composition run stage by stage, under any algebra: what one returns, the next is handed. Its
gradients go the other way, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from attnspec.oracle.expected import Expected, enclosed, gradient_tape_of, tape_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import Plan, planned
from attnspec.oracle.precision import Contract
from attnspec.oracle.tape import Tape
from attnspec.spec.composition import Composition, accumulated
from attnspec.spec.definition import Definition

Array = np.ndarray[Any, Any]


def of_stage(definition: Definition, parameters: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The parameters that a definition has, of those of a whole call."""
    return tuple((str(p), parameters[str(p)]) for p in definition.parameters)


def composed(
    composition: Composition, algebra: Any, parameters: Mapping[str, Any], arrays: Mapping[str, Any]
) -> Any:
    """The last stage's result: a value, an enclosure, or a value with its error, as the algebra
    has it. Raises ValueError for a missing array."""
    return _Run(composition, algebra, parameters).forward(arrays)[composition[-1].result]


def composed_gradients(
    composition: Composition,
    names: tuple[str, ...],
    algebra: Any,
    parameters: Mapping[str, Any],
    arrays: Mapping[str, Any],
) -> tuple[Any, ...]:
    """The gradients of sum(upstream * result) with respect to the arrays of these names, as the
    algebra has them; `arrays` has `upstream` too. Raises ValueError for a missing array."""
    return _Run(composition, algebra, parameters).backward(arrays, names)


def expected_of(
    composition: Composition,
    parameters: Mapping[str, Any],
    arrays: Mapping[str, Any],
    contract: Contract,
) -> Expected:
    """Value and allowance of a composition under a contract: each stage's, with what the stages
    before may be off."""

    def run(algebra: Any, given: Mapping[str, Any]) -> tuple[tuple[Any, ...], int]:
        stages = _Run(composition, algebra, parameters)
        return (stages.forward(given)[composition[-1].result],), stages.work

    (right,) = enclosed(run, arrays, contract)
    return right


def expected_gradients_of(
    composition: Composition,
    names: tuple[str, ...],
    parameters: Mapping[str, Any],
    arrays: Mapping[str, Any],
    contract: Contract,
) -> tuple[Expected, ...]:
    """The gradients with respect to the arrays of these names, with their allowances; `arrays` has
    `upstream` too."""

    def run(algebra: Any, given: Mapping[str, Any]) -> tuple[tuple[Any, ...], int]:
        stages = _Run(composition, algebra, parameters)
        return stages.backward(given, names), stages.work

    return enclosed(run, arrays, contract)


def value_of_composition(
    composition: Composition, parameters: Mapping[str, Any], arrays: Mapping[str, Any]
) -> Array:
    """The value alone, in float64."""
    value: Array = composed(composition, FLOAT64, parameters, arrays)
    return value


class _Run:
    """One composition under one algebra. `work` is the largest plan's."""

    def __init__(
        self, composition: Composition, algebra: Any, parameters: Mapping[str, Any]
    ) -> None:
        self.composition, self.algebra, self.parameters = composition, algebra, parameters
        self.work = 0

    def forward(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays, and the result of every stage by its name."""
        given = dict(arrays)
        for stage in self.composition:
            plan = self._plan(tape_of(stage.definition), stage.definition)
            given[stage.result] = _known(plan(given))
        return given

    def backward(self, arrays: Mapping[str, Any], names: tuple[str, ...]) -> tuple[Any, ...]:
        """The gradients by these names, in their order."""
        given = self.forward(arrays)
        parts: dict[str, list[Any]] = {self.composition[-1].result: [arrays["upstream"]]}
        results = {stage.result for stage in self.composition}
        for stage in reversed(self.composition):
            read = tuple(str(array.label) for array in stage.definition.arrays)
            wanted = tuple(name for name in read if name in results or name in names)
            tape = gradient_tape_of(stage.definition, wanted)
            plan = self._plan(tape, stage.definition)
            found = plan({**given, "upstream": self._total(parts[stage.result], "activations")})
            several = (found,) if len(wanted) == 1 else found
            for name, part in zip(wanted, several, strict=True):
                parts.setdefault(name, []).append(_known(part))
        return tuple(self._total(parts[name], "output") for name in names)

    def _total(self, parts: list[Any], mark: str) -> Any:
        """The sum of what several readers of an array send back to it."""
        total, *others = parts
        for part in others:
            shape = _shape(total)
            key = tuple((f"size{axis}", size) for axis, size in enumerate(shape))
            plan = planned(tape_of(_accumulated(len(shape), mark)), self.algebra, key)
            self.work = max(self.work, plan.work)
            total = plan({"first": total, "second": part})
        return total

    def _plan(self, tape: Tape, definition: Definition) -> Plan:
        plan = planned(tape, self.algebra, of_stage(definition, self.parameters))
        self.work = max(self.work, plan.work)
        return plan


@cache
def _accumulated(axes: int, mark: str) -> Definition:
    return accumulated(axes, mark)


def _known(result: Any) -> Any:
    """A result of which nothing is known where its error is not a number: without bounds, an error
    times 0 or less itself is none."""
    if not isinstance(result, tuple):
        return result
    value, error = result
    return value, np.where(np.isnan(error), np.inf, error)


def _shape(value: Any) -> tuple[int, ...]:
    array = value[0] if isinstance(value, tuple) else value
    return tuple(np.shape(array))
