"""Registers and axes of a tape in the making."""

from __future__ import annotations

from typing import Any

import sympy as sp

from attnspec.oracle.tape import Axis, Op, UnsupportedError
from attnspec.spec.definition import Definition


class Registers:
    """What the walk over an expression has emitted so far. Equal operations share a register."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.ops: list[Op] = []
        self.axes: list[Axis] = []
        self.axis_of: dict[sp.Symbol, int] = {}
        self.seen: dict[tuple[Any, ...], int] = {}
        for symbol, size in definition.axes:
            self.bind(symbol, size)

    def fail(self, node: Any, why: str) -> UnsupportedError:
        return UnsupportedError(
            f"{self.definition.name}: cannot compile {type(node).__name__} `{node}`: {why}"
        )

    def bind(self, symbol: sp.Symbol, size: sp.Expr) -> int:
        """The axis of an index; the same index twice must have the same range."""
        if symbol in self.axis_of:
            axis = self.axis_of[symbol]
            if sp.simplify(self.axes[axis].size - size) != 0:
                raise UnsupportedError(
                    f"{self.definition.name}: index {symbol} has two ranges, "
                    f"{self.axes[axis].size} and {size}; give one of them another name"
                )
            return axis
        self.axis_of[symbol] = len(self.axes)
        self.axes.append(Axis(str(symbol), size))
        return self.axis_of[symbol]

    def fresh_axis(self, name: str, size: sp.Expr) -> int:
        """A new axis that no index runs over."""
        self.axes.append(Axis(name, size))
        return len(self.axes) - 1

    def emit(
        self,
        name: str,
        args: tuple[int, ...] = (),
        extra: Any = None,
        *,
        kind: str = "real",
        place: str = "accumulate",
        less: frozenset[int] = frozenset(),
        more: frozenset[int] = frozenset(),
        varies: bool = False,
    ) -> int:
        """Append an operation, or find the equal one that is there."""
        key = (name, args, extra, kind, place)
        if key in self.seen:
            return self.seen[key]
        axes = frozenset().union(*(self.ops[a].axes for a in args)) if args else frozenset()
        op = Op(
            name,
            args,
            extra,
            axes=frozenset((axes - less) | more),
            kind=kind,
            place=place,
            varies=varies or any(self.ops[a].varies for a in args),
        )
        self.ops.append(op)
        self.seen[key] = len(self.ops) - 1
        return self.seen[key]

    def real(self, register: int) -> int:
        """The register as a real number."""
        op = self.ops[register]
        if op.kind == "condition":
            raise UnsupportedError(f"{self.definition.name}: a condition stands for a number")
        if op.kind == "real":
            return register
        return self.emit("real", (register,))
