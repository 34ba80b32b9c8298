"""A sympy expression as a short list of operations over named axes.

Every index symbol is an axis. A value has one dimension for each axis of the tape, of size 1 on
the axes it does not depend on, so that everything broadcasts. What the operations *do* is up to
an algebra (`oracle/algebra.py`): the same tape gives values, enclosures, errors and source text.

`oracle/compiler.py` makes tapes, `oracle/adjoint.py` those of gradients, `oracle/plan.py` runs
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy as sp


class UnsupportedError(ValueError):
    """A sympy node that the tape cannot carry, named with the definition it stands in."""


@dataclass(frozen=True)
class Op:
    """One operation: its name, the registers it reads, and what else it needs to know."""

    name: str
    args: tuple[int, ...]
    extra: Any
    """An axis, a number, an array's name, a mark: see the compiler."""
    axes: frozenset[int]
    """The axes on which the result depends."""
    kind: str
    """`real`, `integer` or `condition`."""
    place: str
    """The precision in which it runs: `accumulate`, `angles` or `statistics`."""
    varies: bool
    """Whether it depends on an input array (else it is folded when a plan is made)."""


@dataclass(frozen=True)
class Axis:
    """A named axis, and its size as an expression of the parameters."""

    name: str
    size: sp.Expr


@dataclass(frozen=True)
class Result:
    """One result: the register that holds it, and its axes in the order in which it has them."""

    register: int
    axes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Tape:
    """A compiled definition, or its gradients."""

    name: str
    ops: tuple[Op, ...]
    axes: tuple[Axis, ...]
    """Those of the definition's result first, then those that are reduced."""
    results: tuple[Result, ...]
    arrays: tuple[str, ...]
    parameters: tuple[str, ...]
