"""A composition run stage by stage, under any algebra: what one returns, the next is handed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnspec.oracle.expected import tape_of
from attnspec.oracle.plan import planned
from attnspec.spec.composition import Composition
from attnspec.spec.definition import Definition


def of_stage(definition: Definition, parameters: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The parameters that a definition has, of those of a whole call."""
    return tuple((str(p), parameters[str(p)]) for p in definition.parameters)


def composed(
    composition: Composition, algebra: Any, parameters: Mapping[str, Any], arrays: Mapping[str, Any]
) -> Any:
    """The last stage's result: a value, an enclosure, or a value with its error, as the algebra
    has it. Raises ValueError for a missing array."""
    given = dict(arrays)
    for stage in composition:
        tape, key = tape_of(stage.definition), of_stage(stage.definition, parameters)
        given[stage.result] = planned(tape, algebra, key)(given)
    return given[composition[-1].result]
