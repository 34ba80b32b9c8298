"""Sums, contractions and maxima: the nodes that bind an index."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import sympy as sp

from attnspec.oracle.registers import Registers
from attnspec.spec.definition import Maximum


class Reductions(Registers):
    """The part of the walk that reduces axes."""

    @abstractmethod
    def register(self, node: Any, place: str) -> int:
        """The register that holds a node."""

    def limits(self, node: Any) -> list[int]:
        """The axes that a sum or maximum runs over."""
        axes = []
        for index, low, high in node.limits:
            if low != 0:
                raise self.fail(node, f"index {index} starts at {low}; write it from 0")
            axes.append(self.bind(index, high + 1))
        return axes

    def maximum(self, node: Maximum, place: str) -> int:
        axes = frozenset(self.limits(node))
        register = self.register(node.function, place)
        kind = self.ops[register].kind
        extra = tuple(sorted(axes & self.ops[register].axes))
        return self.emit("amax", (register,), extra, kind=kind, place=place, less=axes)

    def sum(self, node: sp.Sum, place: str, stored: int | None = None) -> int:
        """A sum; of a product, one contraction. Sympy pulls a factor into a Piecewise, so a
        single branch beside zero is taken apart again. `stored` is a register: how often the
        running sum may be stored."""
        axes = frozenset(self.limits(node))
        factors, condition = [node.function], None
        if isinstance(node.function, sp.Piecewise):
            (value, test), *rest = node.function.args
            if [tuple(r) for r in rest] == [(0, True)]:
                factors, condition = [value], self.register(test, place)
        if isinstance(factors[0], sp.Mul) and not any(
            isinstance(f, sp.Pow) and f.exp == -1 for f in factors[0].args
        ):
            factors = list(factors[0].args)
        registers = [self.register(f, place) for f in factors]
        return self.contraction(registers, condition, axes, place, stored)

    def contraction(
        self,
        registers: list[int],
        condition: int | None,
        axes: frozenset[int],
        place: str,
        stored: int | None = None,
    ) -> int:
        """Sum over `axes` of the product of the registers, as a dot product of two groups."""
        whole = all(self.ops[r].kind == "integer" for r in registers)
        kind = "integer" if whole else "real"
        if not whole:
            registers = [self.real(r) for r in registers]
        left, right = self.two_groups(registers, axes, place, kind)
        if condition is not None:
            zero = self.register(sp.Integer(0), place)
            left = self.emit(
                "where", (condition, left, zero if whole else self.real(zero)), kind=kind,
                place=place,
            )  # fmt: skip
        if right is not None and axes <= (self.ops[left].axes & self.ops[right].axes) and not whole:
            extra = tuple(sorted(axes))
            name, count = ("dot", ()) if stored is None else ("rdot", (stored,))
            return self.emit(name, (left, right, *count), extra, place=place, less=axes)
        if right is not None:
            left = self.emit("mul", (left, right), kind=kind, place=place)
        held = axes & self.ops[left].axes
        register = left
        if held:
            extra = tuple(sorted(held))
            name, count = ("sum", ()) if stored is None or whole else ("rsum", (stored,))
            register = self.emit(name, (left, *count), extra, kind=kind, place=place, less=axes)
        for axis in sorted(axes - held):
            size = self.register(self.axes[axis].size, place)
            pair = (register, size) if whole else (register, self.real(size))
            register = self.emit("mul", pair, kind=kind, place=place)
        return register

    def two_groups(
        self, registers: list[int], axes: frozenset[int], place: str, kind: str
    ) -> tuple[int, int | None]:
        """Factors of the same axes multiplied together, then at most two groups of them."""
        groups: dict[frozenset[int], int] = {}
        for register in registers:
            key = self.ops[register].axes
            both = (groups[key], register) if key in groups else ()
            groups[key] = self.emit("mul", both, kind=kind, place=place) if both else register
        ordered = sorted(groups.values(), key=lambda r: (-len(self.ops[r].axes & axes), r))
        while len(ordered) > 2:
            last = ordered.pop()
            ordered[0] = self.emit("mul", (ordered[0], last), kind=kind, place=place)
        return (ordered[0], ordered[1]) if len(ordered) == 2 else (ordered[0], None)
