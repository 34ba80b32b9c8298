"""Components that are made of definitions, one handed the values of those before it.

One expression of a whole layer would be a tree in which everything that is read twice stands twice.
What is handed on is a value with its error (or an enclosure), as any input of a tape may be.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from attnspec.spec.definition import Definition, rnd


@dataclass(frozen=True)
class Stage:
    """One definition of a composition, and under which name its value is handed on. It reads its
    arrays, by their names, from the call and from the stages before."""

    result: str
    definition: Definition


Composition = tuple[Stage, ...]
"""Stages in order; the last one's value is the result."""


def accumulated(axes: int, mark: str) -> Definition:
    """first + second, arrays of so many axes: what two readers of one array send back to it."""
    sizes = tuple(sp.Symbol(f"size{axis}", integer=True, positive=True) for axis in range(axes))
    places = tuple(sp.Symbol(f"i{axis}", integer=True, nonnegative=True) for axis in range(axes))
    first, second = (sp.IndexedBase(name, shape=sizes, real=True) for name in ("first", "second"))
    return Definition(
        "accumulated",
        rnd(first[places] + second[places], mark),
        tuple(zip(places, sizes, strict=True)),
        (first, second),
        sizes,
    )
