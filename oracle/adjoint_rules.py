"""The derivative of each operation, as the contributions to its operands' gradients.

Sources: reverse-mode differentiation of each operation; for softmax and the sum of its row,
FlashAttention-2 (Dao, 2023), section 3: rows of dS need sum_j P_ij dP_ij = sum_c dO_ic O_ic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

import sympy as sp

from attnspec.oracle.compiler import Compiler
from attnspec.oracle.tape import UnsupportedError
from attnspec.spec.attention_definition import STORED_BLOCK


class Part(NamedTuple):
    """A contribution to the gradient of a register."""

    register: int
    fresh: bool
    """Whether an operation computed it, so that it may have been rounded."""
    through: Mapping[int, int]
    """Which form of an `either` it came through, by the register of the either."""
    under: str = ""
    """The mark under which it has been stored, if it has."""


class _Output(NamedTuple):
    """What the gradient of an output y_c = sum_j P_j v_jc says of the row."""

    row: int
    """sum_j P_j a_j."""
    sizes: int
    """For each j the sum over the channels of |gradient v_jc|."""
    channels: tuple[int, ...]


Handed = tuple[int, int, bool, int | None]
"""An operand, its contribution, whether that was computed, and the form of an `either`."""


class Rules(Compiler):
    """One method for each family of operations. `a` is the gradient of the result."""

    sources: list[frozenset[str]]
    """For each register, the wanted arrays on which it depends."""
    forward: int
    """How many registers are the definition's own."""
    whole: dict[int, Part]
    """The gradient of each register that has been walked."""

    def handed(self, register: int, a: int) -> Iterator[Handed]:
        """What the gradient `a` of a register contributes to its operands."""
        op = self.ops[register]
        if op.name in ("rnd", "rnds", "sum", "rsum"):
            return iter([(op.args[0], a, False, None)])
        if op.name == "neg":
            return iter([(op.args[0], self.emit("neg", (a,)), False, None)])
        if op.name == "either":
            return ((operand, a, False, form) for form, operand in enumerate(op.args))
        if op.name == "softmax":
            return iter([(op.args[1], self._softmax(register, a), True, None)])
        if op.name == "add":
            return self._terms(register, a)
        if op.name in ("mul", "dot", "rdot"):
            return self._factors(register, a)
        if op.name in ("max", "min"):
            return self._leading(register, a)
        return self._chosen(register, a) if op.name == "where" else self._of_function(register, a)

    def _terms(self, register: int, a: int) -> Iterator[Handed]:
        for operand in self.ops[register].args:
            if self.sources[operand]:
                yield operand, *self._passed(a, register, operand), None

    def _factors(self, register: int, a: int) -> Iterator[Handed]:
        first, second = self.ops[register].args[:2]
        for operand, other in ((first, second), (second, first)):
            if self.sources[operand]:
                axes = self.ops[register].axes - self.ops[operand].axes
                factors = [a, other]
                if axes and self.ops[register].name == "mul":
                    # of a product that was broadcast, code that works tensor by tensor stores the
                    # products before it adds them up; a contraction is one operation
                    factors = [self.emit("rnd", (self.emit("mul", (a, other)),), "activations")]
                yield operand, self._reduced(factors, axes, operand), True, None

    def _of_function(self, register: int, a: int) -> Iterator[Handed]:
        for operand, gradient in self._function(register, a):
            if self.sources[operand]:
                yield operand, gradient, True, None

    def sum_of(self, first: int, second: int) -> int:
        """Two contributions added; two that are zero where the other isn't, chosen between."""
        one, two = self.ops[first], self.ops[second]
        if one.name == two.name == "where" and one.args[0] == two.args[0]:
            zero = self.real(self.register(sp.Integer(0), "accumulate"))
            if one.args[2] == zero and two.args[1] == zero:
                return self.emit("where", (one.args[0], one.args[1], two.args[2]))
            if one.args[1] == zero and two.args[2] == zero:
                return self.emit("where", (one.args[0], two.args[1], one.args[2]))
        return self.emit("add", (first, second))

    def stored(self, register: int) -> int:
        """The register under its marks: what an implementation saves of it."""
        for at in range(register + 1, self.forward):
            op = self.ops[at]
            if op.name == "rnd" and op.args == (register,):
                return self.stored(at)
        return register

    def _passed(self, a: int, register: int, operand: int) -> tuple[int, bool]:
        """A gradient as it is, added up over axes that the operand lacks."""
        axes = self.ops[register].axes - self.ops[operand].axes
        return (self._reduced([a], axes, operand), True) if axes else (a, False)

    def _reduced(self, factors: list[int], axes: frozenset[int], operand: int) -> int:
        """A product added up over axes. On the way to a single input that is a long sum over
        rows, heads or blocks, which may be stored in between."""
        count = None
        if axes and len(self.sources[operand]) == 1:
            terms = prod(self.axes[a].size for a in axes)
            parts = sp.floor((terms + STORED_BLOCK - 1) / STORED_BLOCK)
            count = self.register(parts, "accumulate")
        return self.contraction(factors, None, axes, "accumulate", count)

    def _chosen(self, register: int, a: int) -> Iterator[Handed]:
        """Each branch has the gradient where it was taken, and zero elsewhere."""
        test, *branches = self.ops[register].args
        zero = self.real(self.register(sp.Integer(0), "accumulate"))
        for place, operand in enumerate(branches):
            if self.sources[operand]:
                pair = (a, zero) if place == 0 else (zero, a)
                kept = self.emit("where", (test, *pair))
                yield operand, *self._passed(kept, register, operand), None

    def _leading(self, register: int, a: int) -> Iterator[Handed]:
        """The operand that a maximum or minimum is has all of the gradient."""
        op = self.ops[register]
        for operand, other in (op.args, op.args[::-1]):
            if self.sources[operand]:
                pair = (operand, other) if op.name == "max" else (other, operand)
                axes = op.axes - self.ops[operand].axes
                share = self.emit("leads", pair)
                yield operand, self._reduced([a, share], axes, operand), True, None

    def _softmax(self, register: int, a: int) -> int:
        """P (a - sum_j P a), with P as it was saved. Who stores what softmax is taken of may store
        the products and their sum, too; where the weights meet values, rows may have been taken
        in parts."""
        axis = self.ops[register].extra
        p = self.stored(register)
        product = self.emit("rnd", (self.emit("mul", (p, a)),), "scores")
        row = self.contraction([product], None, frozenset({axis}), "accumulate")
        output = self._of_output(p, axis)
        if output is not None:
            row = self.emit("either", (row, output.row))
        row = self.emit("rnd", (row,), "scores")
        whole = self.emit("mul", (p, self.emit("add", (a, self.emit("neg", (row,))))))
        if output is None:
            return whole
        _, logits, seen = self.ops[register].args
        read = (whole, p, output.sizes, logits, seen)
        return self.emit("parted", read, (axis, output.channels))

    def _of_output(self, p: int, axis: int) -> _Output | None:
        """The same row sum from the output y = sum_j P v and its gradient: sum of both over the
        channels, where the weights are used for nothing else."""
        users = [at for at in range(self.forward) if p in self.ops[at].args]
        if len(users) != 1:
            return None
        y = users[0]
        op = self.ops[y]
        if op.name not in ("dot", "rdot") or op.extra != (axis,) or y not in self.whole:
            return None
        channels = op.axes - self.ops[p].axes
        above = self.whole[y].register
        values = op.args[1] if op.args[0] == p else op.args[0]
        sizes = [self.emit("abs", (x,)) for x in (above, values)]
        return _Output(
            row=self.contraction([above, self.stored(y)], None, channels, "accumulate"),
            sizes=self.contraction(sizes, None, channels, "accumulate"),
            channels=tuple(sorted(channels)),
        )

    def _function(self, register: int, a: int) -> Iterator[tuple[int, int]]:
        """Functions of one argument, and division."""
        op = self.ops[register]
        x, y = op.args[0], self.stored(register)

        def times(factor: int) -> int:
            return self.emit("mul", (a, factor))

        if op.name == "exp":
            yield x, times(y)
        elif op.name == "log":
            yield x, self.emit("div", (a, x))
        elif op.name == "sqrt":
            yield x, self.emit("div", (a, self.emit("add", (y, y))))
        elif op.name == "tanh":
            one = self.real(self.register(sp.Integer(1), "accumulate"))
            square = self.emit("neg", (self.emit("mul", (y, y)),))
            yield x, times(self.emit("add", (one, square)))
        elif op.name == "sin":
            yield x, times(self.emit("cos", (x,)))
        elif op.name == "cos":
            yield x, self.emit("neg", (times(self.emit("sin", (x,))),))
        elif op.name == "div":
            below = op.args[1]
            share = self.emit("div", (a, below))
            yield x, self._reduced([share], op.axes - self.ops[x].axes, x)
            lowered = self.emit("neg", (self.emit("mul", (share, y)),))
            yield below, self._reduced([lowered], op.axes - self.ops[below].axes, below)
        else:
            raise UnsupportedError(f"{self.definition.name}: no derivative of {op.name!r}")
