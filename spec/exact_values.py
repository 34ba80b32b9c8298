"""One entry of a definition as an exact number: what the definition itself says on an example. And
exact numbers by their first digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import sympy as sp

from attnspec.spec.definition import Definition, Maximum, choice, unmarked

Scope = Mapping[sp.Basic, sp.Expr]


def entry_value(
    definition: Definition,
    sizes: Mapping[str, Any],
    arrays: Mapping[str, Any],
    place: Sequence[int] = (),
) -> sp.Expr:
    """The exact value at a place of the result. `sizes` has the definition's parameters by name,
    `arrays` nested lists of exact numbers. A branch that isn't taken is not read."""
    scope: dict[sp.Basic, sp.Expr] = {p: sp.sympify(sizes[str(p)]) for p in definition.parameters}
    axes = (axis for axis, _ in definition.axes)
    scope |= dict(zip(axes, map(sp.Integer, place), strict=True))
    return _value(unmarked(definition.expression), scope, arrays)


def rounded(number: sp.Expr, digits: int) -> sp.Expr:
    """A number in units of 10^-digits, to the nearest."""
    return sp.floor(number * 10**digits + sp.Rational(1, 2))


def _value(node: sp.Basic, scope: Scope, arrays: Mapping[str, Any]) -> Any:
    if node in scope:
        return scope[node]
    if isinstance(node, sp.Indexed):
        found = arrays[str(node.base.label)]
        for index in node.indices:
            found = found[int(_value(index, scope, arrays))]
        return sp.sympify(found)
    if isinstance(node, (sp.Sum, Maximum)):
        indices = [index for index, _, _ in node.limits]
        ranges = (
            range(int(_value(low, scope, arrays)), int(_value(high, scope, arrays)) + 1)
            for _, low, high in node.limits
        )
        terms = [
            _value(node.function, {**scope, **dict(zip(indices, at, strict=True))}, arrays)
            for at in product(*(map(sp.Integer, span) for span in ranges))
        ]
        return sp.Add(*terms) if isinstance(node, sp.Sum) else sp.Max(*terms)
    if isinstance(node, choice):
        value, condition, otherwise = node.args
        return _value(value if _value(condition, scope, arrays) else otherwise, scope, arrays)
    if isinstance(node, sp.Piecewise):
        taken = (value for value, condition in node.args if _value(condition, scope, arrays))
        return _value(next(taken), scope, arrays)
    if not node.args:
        return node
    return node.func(*(_value(argument, scope, arrays) for argument in node.args))
