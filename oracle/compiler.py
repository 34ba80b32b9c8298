"""From a definition to its tape: one walk over the sympy expression.

Equal nodes share a register; a sum of products becomes one contraction.
"""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.core.symbol import Str
from sympy.logic.boolalg import BooleanFalse, BooleanTrue

from attnspec.oracle.reductions import Reductions
from attnspec.oracle.tape import Result, Tape, UnsupportedError
from attnspec.spec.definition import (
    REGIONS,
    Definition,
    Maximum,
    choice,
    either,
    larger,
    rnd,
    weights,
)


def compiled(definition: Definition) -> Tape:
    """The tape of a definition. Raises UnsupportedError, naming the node."""
    compiler = Compiler(definition)
    result = Result(compiler.result(), tuple(range(len(definition.axes))))
    return Tape(
        name=definition.name,
        ops=tuple(compiler.ops),
        axes=tuple(compiler.axes),
        results=(result,),
        arrays=tuple(str(a.label) for a in definition.arrays),
        parameters=tuple(str(p) for p in definition.parameters),
    )


_UNARY = {sp.exp: "exp", sp.log: "log", sp.sin: "sin", sp.cos: "cos", sp.tanh: "tanh"}
_RELATIONS = {
    sp.StrictLessThan: "lt",
    sp.LessThan: "le",
    sp.Equality: "eq",
    sp.Unequality: "ne",
}


class Compiler(Reductions):
    """The walk. One method for each family of nodes; each returns a register."""

    def result(self) -> int:
        """The register of the definition's result. Raises UnsupportedError."""
        result = self.real(self.register(self.definition.expression, "accumulate"))
        reduced = self.ops[result].axes - set(range(len(self.definition.axes)))
        if reduced:
            names = ", ".join(self.axes[a].name for a in sorted(reduced))
            raise UnsupportedError(
                f"{self.definition.name}: index {names} is neither bound nor an axis"
            )
        return result

    def register(self, node: Any, place: str) -> int:
        """The register that holds a node."""
        if isinstance(node, rnd):
            return self.mark(node, place)
        if isinstance(node, (BooleanTrue, BooleanFalse)):
            return self.emit("const", extra=bool(node), kind="condition")
        if isinstance(node, sp.Integer):
            return self.emit("const", extra=int(node), kind="integer")
        if isinstance(node, sp.Rational):
            return self.emit("ratio", extra=(int(node.p), int(node.q)), place=place)
        if node in (sp.S.Infinity, sp.S.NegativeInfinity):
            return self.emit("infinity", extra=1 if node is sp.S.Infinity else -1)
        if isinstance(node, sp.Symbol):
            return self.symbol(node)
        if isinstance(node, sp.Indexed):
            return self.take(node, place)
        if isinstance(node, sp.Sum):
            return self.sum(node, place)
        if isinstance(node, Maximum):
            return self.maximum(node, place)
        if isinstance(node, (sp.Piecewise, choice)):
            return self.piecewise(node, place)
        if isinstance(node, weights):
            return self.softmax(node, place)
        return self.operation(node, place)

    def operation(self, node: Any, place: str) -> int:
        """Arithmetic, functions and conditions."""
        if isinstance(node, sp.Add):
            return self.chain("add", node.args, place)
        if isinstance(node, sp.Mul):
            return self.product(node, place)
        if isinstance(node, sp.Pow):
            return self.power(node, place)
        if isinstance(node, (sp.Max, sp.Min, larger)):
            name = "min" if isinstance(node, sp.Min) else "max"
            return self.chain(name, node.args, place)
        if isinstance(node, sp.Abs):
            return self.unary("abs", node, place)
        if type(node) in _UNARY:
            argument = self.real(self.register(node.args[0], place))
            return self.emit(_UNARY[type(node)], (argument,), place=place)
        if isinstance(node, either):
            return self.chain("either", node.args, place)
        if isinstance(node, (sp.floor, sp.Mod)):
            return self.integer_division(node, place)
        return self.condition(node, place)

    def condition(self, node: Any, place: str) -> int:
        """Comparisons and their combinations."""
        if isinstance(node, (sp.StrictGreaterThan, sp.GreaterThan)):
            node = node.reversed
        if type(node) in _RELATIONS:
            left, right = (self.register(a, place) for a in node.args)
            if self.ops[left].kind != self.ops[right].kind:
                left, right = self.real(left), self.real(right)
            name = _RELATIONS[type(node)]
            return self.emit(name, (left, right), kind="condition")
        if isinstance(node, (sp.And, sp.Or)):
            name = "and" if isinstance(node, sp.And) else "or"
            parts = [self.register(a, place) for a in node.args]
            register = parts[0]
            for part in parts[1:]:
                register = self.emit(name, (register, part), kind="condition")
            return register
        if isinstance(node, sp.Not):
            return self.emit("not", (self.register(node.args[0], place),), kind="condition")
        raise self.fail(node, "the tape has no operation for this node")

    def symbol(self, node: sp.Symbol) -> int:
        """An index, or a parameter."""
        if node in self.axis_of:
            axis = self.axis_of[node]
            return self.emit("index", extra=axis, kind="integer", more=frozenset({axis}))
        if node in self.definition.parameters:
            kind = "integer" if node.is_integer else "real"
            return self.emit("parameter", extra=str(node), kind=kind)
        raise self.fail(node, "it is neither an index nor a parameter of the definition")

    def chain(self, name: str, args: tuple[Any, ...], place: str) -> int:
        """A sum, maximum or minimum of several terms, from left to right."""
        registers = [self.register(a, place) for a in args]
        whole = all(self.ops[r].kind == "integer" for r in registers)
        if not whole:
            registers = [self.real(r) for r in registers]
        register = registers[0]
        for other in registers[1:]:
            register = self.emit(
                name, (register, other), kind="integer" if whole else "real", place=place
            )
        return register

    def unary(self, name: str, node: Any, place: str) -> int:
        register = self.register(node.args[0], place)
        return self.emit(name, (register,), kind=self.ops[register].kind, place=place)

    def product(self, node: sp.Mul, place: str) -> int:
        """A product; factors with exponent -1 become one division, -1 a change of sign."""
        top: list[Any] = []
        bottom: list[Any] = []
        sign = 1
        for factor in node.args:
            if factor == -1:
                sign = -sign
            elif isinstance(factor, sp.Rational) and not factor.is_Integer:
                if factor.p == -1:
                    sign = -sign
                elif factor.p != 1:
                    top.append(sp.Integer(factor.p))
                bottom.append(sp.Integer(factor.q))
            elif isinstance(factor, sp.Pow) and factor.exp == -1:
                bottom.append(factor.base)
            else:
                top.append(factor)
        register = self.chain("mul", tuple(top) or (sp.Integer(1),), place)
        if bottom:
            below = self.real(self.chain("mul", tuple(bottom), place))
            register = self.emit("div", (self.real(register), below), place=place)
        if sign < 0:
            kind = self.ops[register].kind
            register = self.emit("neg", (register,), kind=kind, place=place)
        return register

    def power(self, node: sp.Pow, place: str) -> int:
        """Squares, roots, signs and general powers, each its own operation."""
        base, exponent = node.args
        register = self.register(base, place)
        if exponent == -1:
            one = self.real(self.register(sp.Integer(1), place))
            return self.emit("div", (one, self.real(register)), place=place)
        if isinstance(exponent, sp.Integer) and exponent > 0:
            result = register
            for _ in range(int(exponent) - 1):
                result = self.emit(
                    "mul", (result, register), kind=self.ops[register].kind, place=place
                )
            return result
        if exponent in (sp.Rational(1, 2), sp.Rational(-1, 2)):
            root = self.emit("sqrt", (self.real(register),), place=place)
            if exponent > 0:
                return root
            one = self.real(self.register(sp.Integer(1), place))
            return self.emit("div", (one, root), place=place)
        above = self.register(exponent, place)
        if self.ops[above].kind == "integer" and self.ops[register].kind == "integer":
            return self.emit("ipow", (register, above), kind="integer")
        if self.ops[above].varies or self.ops[register].varies:
            raise self.fail(node, "a power needs a base and an exponent free of the inputs")
        return self.emit("pow", (self.real(register), self.real(above)), place=place)

    def integer_division(self, node: Any, place: str) -> int:
        """floor(a / b) and Mod(a, b) of integers, exact."""
        if isinstance(node, sp.Mod):
            above, below = node.args
        else:
            above, below = sp.fraction(sp.together(node.args[0]))
        parts = (self.register(above, place), self.register(below, place))
        if any(self.ops[p].kind != "integer" for p in parts):
            raise self.fail(node, "only integers can be divided exactly")
        name = "mod" if isinstance(node, sp.Mod) else "floordiv"
        return self.emit(name, parts, kind="integer")

    def softmax(self, node: weights, place: str) -> int:
        """A value beside the logits of which it is the softmax weight, along an index."""
        value, logits, index, seen = node.args
        if index not in self.axis_of:
            raise self.fail(node, f"index {index} is neither bound nor an axis")
        args = tuple(self.real(self.register(part, place)) for part in (value, logits))
        args = (*args, self.register(seen, place))
        return self.emit("softmax", args, self.axis_of[index], place=place)

    def piecewise(self, node: Any, place: str) -> int:
        """Nested choices, from the last branch backwards."""
        pairs = node.args
        if isinstance(node, choice):
            pairs = ((node.args[0], node.args[1]), (node.args[2], sp.true))
        *branches, (value, condition) = pairs
        if condition != sp.true:
            raise self.fail(node, "its last branch must hold always")
        registers = [self.register(v, place) for v, _ in (*branches, (value, condition))]
        whole = all(self.ops[r].kind == "integer" for r in registers)
        if not whole:
            registers = [self.real(r) for r in registers]
        register = registers.pop()
        for (_, condition), branch in zip(reversed(branches), reversed(registers), strict=True):
            test = self.register(condition, place)
            register = self.emit(
                "where", (test, branch, register), kind="integer" if whole else "real", place=place
            )
        return register

    def mark(self, node: rnd, place: str) -> int:
        """A place where a value may be rounded; regions run in their own precision."""
        value, name, *times = node.args
        assert isinstance(name, Str)
        inner = str(name) if str(name) in REGIONS else "accumulate"
        count = self.register(times[0], inner) if times else None
        if count is not None and (self.ops[count].kind != "integer" or self.ops[count].varies):
            raise self.fail(node, "how often a value is stored must depend on sizes alone")
        if count is not None and str(name) == "reductions" and isinstance(value, sp.Sum):
            return self.sum(value, inner, count)
        register = self.register(value, inner)
        if count is not None:
            return self.emit("rnds", (self.real(register), count), str(name), place=inner)
        if self.ops[register].kind == "integer" and inner == "accumulate":
            return register
        return self.emit("rnd", (self.real(register),), str(name), place=inner)

    def take(self, node: sp.Indexed, place: str) -> int:
        """An entry of an input array."""
        if node.base not in self.definition.arrays:
            raise self.fail(node, "the array is no input of the definition")
        indices = tuple(self.register(i, place) for i in node.indices)
        if any(self.ops[i].kind != "integer" for i in indices):
            raise self.fail(node, "an index must be an integer expression")
        kind = "integer" if node.base.is_integer or node.base.label.is_integer else "real"
        return self.emit("take", indices, str(node.base.label), kind=kind, varies=True)
