"""A definition as a few equations: what recurs in it gets a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import sympy as sp
from sympy.concrete.expr_with_limits import ExprWithLimits
from sympy.logic.boolalg import Boolean

from attnspec.docs.formulas import latex_of
from attnspec.spec.definition import Definition, Maximum, choice, either, rnd, weights

LEAST = 4
"""Nodes of the smallest expression that gets a name."""
APART = (sp.Piecewise, choice, Maximum)
"""What always gets an equation of its own."""
_FREE = "uwfyzABDFGHKRTUVWXY"
APART_IF_LONG = (sp.Add, sp.Mul, sp.Sum)
"""What does if it is stored somewhere, and long."""
LONG = 18
"""Nodes from which an expression is long, counted with the names in it."""
SPARE = (*_FREE, *(rf"\tilde{{{letter}}}" for letter in _FREE))
LETTERS = {
    "scores": "s", "probabilities": "E", "normalised": "y", "angles": r"\varphi",
    "activations": "a", "statistics": "Z", "reductions": "r", "lse": "L", "weights": "p",
}  # fmt: skip
"""What a value is called that has this mark."""


def equations(definition: Definition) -> tuple[str, ...]:
    """The LaTeX of each equation: the result first, then each name after an equation that uses
    it. Marks are left out, and of two ways to one number the first is shown."""
    found = _Names(definition)
    indices = ",".join(latex_of(index) for index, _ in definition.axes)
    head = r"\mathrm{out}" + (f"_{{{indices}}}" if indices else "")
    result = found.replaced(definition.expression)
    lines = [f"{head} = {latex_of(result, found.latex)}"]
    for symbol, value in reversed(found.values):
        sign = r"\Leftrightarrow" if isinstance(value, Boolean) else "="
        lines.append(f"{found.latex[symbol]} {sign} {latex_of(value, found.latex)}")
    return tuple(lines)


def named_equations(definition: Definition) -> tuple[Any, list[tuple[Any, Any]]]:
    """The same as expressions: the result, and each name with what it stands for."""
    found = _Names(definition)
    return found.replaced(definition.expression), found.values[::-1]


class _Names:
    """Names for what recurs in one definition."""

    def __init__(self, definition: Definition) -> None:
        self.marks: dict[Any, str] = {}
        self.uses: Counter[Any] = Counter()
        self.indices = [index for index, _ in definition.axes]
        self._count(definition.expression)
        self.symbols: dict[Any, Any] = {}
        self.values: list[tuple[Any, Any]] = []
        """Each name and what it stands for; a name uses earlier ones."""
        self.latex: dict[Any, str] = {}
        self.depends: dict[Any, set[Any]] = {}
        """The indices on which each name depends."""
        self.taken = {
            *(latex_of(array) for array in definition.arrays),
            *(latex_of(symbol) for symbol in (*self.indices, *definition.parameters)),
        }

    def replaced(self, expression: Any) -> Any:
        """The expression with a name wherever something recurs."""
        return self._rebuilt(self._core(expression))

    def _count(self, expression: Any) -> None:
        """How many different expressions use each part, and which are marked."""
        waiting, seen = [self._core(expression)], set()
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, ExprWithLimits):
                self.indices += [v for v, *_ in node.limits if v not in self.indices]
            parts = [self._core(a) for a in _parts(node)]
            self.uses.update(parts)
            waiting += parts

    def _core(self, node: Any) -> Any:
        """A node without the marks around it, which are kept in mind."""
        found: list[str] = []
        while isinstance(node, (rnd, either, weights)):
            if isinstance(node, rnd):
                found.append(str(node.args[1]))
            elif isinstance(node, weights):
                found.append("weights")
            node = node.args[0]
        told = [mark for mark in ("weights", *found) if mark in found and mark in LETTERS]
        if told:
            self.marks[node] = told[0]
        return node

    def _named(self, node: Any) -> bool:
        if isinstance(node, (sp.Indexed, sp.IndexedBase)) or not node.args:
            return False
        if self.marks.get(node) == "weights" or isinstance(node, APART):
            return True
        if isinstance(node, sp.Mul) and node.could_extract_minus_sign():
            return False  # the number behind the sign has a name
        if isinstance(node, sp.Pow) and node.exp == -1:
            return False  # so has that below the line
        return self.uses[node] > 1 and _has_nodes(node, LEAST)

    def _within(self, given: Any) -> Any:
        node = self._core(given)
        if node in self.symbols:
            return self.symbols[node]
        value = self._rebuilt(node)
        stored = node in self.marks and isinstance(node, APART_IF_LONG)
        if self._named(node) or (stored and _has_nodes(value, LONG)):
            symbol = sp.Dummy(integer=True if node.is_integer else None)
            self.depends[symbol] = self._free(value)
            self.latex[symbol] = self._letter(node, self.depends[symbol])
            self.symbols[node] = symbol
            self.values.append((symbol, value))
            return symbol
        return value

    def _rebuilt(self, node: Any) -> Any:
        if isinstance(node, ExprWithLimits):
            return type(node)(self._within(node.function), *node.limits)
        if isinstance(node, sp.Piecewise):
            pairs = [(self._within(value), self._within(on)) for value, on in node.args]
            return sp.Piecewise(*pairs, evaluate=False)
        if isinstance(node, sp.Indexed):
            return node.base[tuple(self._within(index) for index in node.indices)]
        parts = list(_parts(node))
        made = [self._within(part) for part in parts]
        same = all(a is b for a, b in zip(parts, made, strict=True))
        return node if same else node.func(*made)

    def _free(self, value: Any) -> set[Any]:
        """The indices on which a value depends, names in it included."""
        if isinstance(value, sp.Symbol):
            return self.depends.get(value, {value} if value in self.indices else set())
        found: set[Any] = set().union(*(self._free(part) for part in _parts(value)))
        if isinstance(value, ExprWithLimits):
            found -= {variable for variable, *_ in value.limits}
        return found

    def _letter(self, node: Any, depends: set[Any]) -> str:
        """A letter that isn't taken, with the indices on which the value depends."""
        if isinstance(node, Boolean):
            wanted = "C"
        else:
            wanted = "M" if isinstance(node, Maximum) else LETTERS.get(self.marks.get(node, ""), "")
        more = (rf"\tilde{{{wanted}}}", rf"\hat{{{wanted}}}") if wanted else ()
        letter = next(a for a in (wanted, *more, *SPARE) if a and a not in self.taken)
        self.taken.add(letter)
        below = ",".join(latex_of(i) for i in self.indices if i in depends)
        return f"{letter}_{{{below}}}" if below else letter


def _has_nodes(node: Any, least: int) -> bool:
    """Whether an expression has so many nodes, or more."""
    return sum(1 for _ in islice(_nodes(node), least)) == least


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for part in _parts(node):
        yield from _nodes(part)


def _parts(node: Any) -> Iterator[Any]:
    """What an expression is made of, as far as names may stand for it."""
    if isinstance(node, ExprWithLimits):
        yield node.function
    elif isinstance(node, sp.Piecewise):
        for value, condition in node.args:
            yield value
            yield condition
    elif isinstance(node, sp.Indexed):
        yield from node.indices
    elif not isinstance(node, sp.IndexedBase):
        yield from node.args
