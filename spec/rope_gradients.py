"""The gradients of RoPE: of the vectors that turn, and of the tables by which they do.

Source: our own derivation; the documents have the rotation and no gradient. One pair of channels
is looked at, as two arrays, for any pair i: an output that read another channel would be NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.closed_gradients import channel, gradients
from attnspec.spec.definition import Definition, unmarked
from attnspec.spec.derivatives import derivative
from attnspec.spec.normal import normal
from attnspec.spec.rope_definition import DIRECTIONS, LAYOUTS, rope, rope_apply
from attnspec.spec.symbols import i

_half = i + 1 + sp.Symbol("e", integer=True, nonnegative=True)
"""Half the number of channels that turn: any that is above i, so that there is a pair i."""
_table, _repeat, _more, _further = sp.symbols("b w f g", integer=True, nonnegative=True)
_repeats = sp.Symbol("repeats", integer=True, positive=True)
_x, _u, _tables = (
    tuple(sp.IndexedBase(name, real=True) for name in names)
    for names in (("x0", "x1"), ("u0", "u1"), ("cos", "sin"))
)
_axes = rope_apply("half", "forward").axes[:3]
_row = tuple(axis for axis, _ in _axes)
"""Batch entry, head and position."""
_entry = tuple(sp.Symbol(f"{axis}_0", integer=True, nonnegative=True) for axis in _row)
_RANGES = dict(zip(_entry, (size for _, size in _axes), strict=True))


def _of_pair(node: sp.Indexed, layout: str) -> sp.Expr:
    """An entry of the first channel of x as one of x0, and entry i of a table without the i."""
    name, (*place, at) = str(node.base.label), node.indices
    if name in ("cos", "sin"):
        return _tables[name == "sin"][place] if at == i else sp.nan
    both = [channel(layout, i, p, 2 * _half) for p in (sp.S.Zero, sp.S.One)]
    arrays = _u if name == "upstream" else _x
    return arrays[both.index(at)][place] if at in both else sp.nan


def _by_pair(expression: sp.Expr, size: sp.Symbol, layout: str) -> sp.Expr:
    """An expression in channels of pair i as one in the pair's two arrays; `size` channels turn."""
    return expression.subs(size, 2 * _half).replace(
        lambda node: isinstance(node, sp.Indexed) and str(node.base.label) != "positions",
        lambda node: _of_pair(node, layout),
    )


def _turned(definition: Definition, layout: str) -> tuple[sp.Expr, sp.Expr]:
    """Both channels of pair i of the result."""
    partial = definition.name.startswith("rope.")
    expression = unmarked(definition.expression)
    size = definition.parameters[4 if partial else 3]
    if partial:
        expression = expression.args[0].expr
    first, second = (
        _by_pair(expression.subs(definition.axes[3][0], channel(layout, i, p, size)), size, layout)
        for p in (sp.S.Zero, sp.S.One)
    )
    return first, second


def _loss(definition: Definition, layout: str) -> sp.Expr:
    """The sum of upstream times the result over the channels of pair i, everywhere."""
    first, second = _turned(definition, layout)
    terms = _u[0][_row] * first + _u[1][_row] * second
    return sp.Sum(terms, *((axis, 0, size - 1) for axis, size in _axes))


def _definitions(make: Callable[[str, str], Definition]) -> list[tuple[Definition, str]]:
    """A function's definitions in all directions and layouts, and the layout of each."""
    return [(make(layout, way), layout) for layout in LAYOUTS for way in DIRECTIONS]


def _vectors() -> tuple[Step, ...]:
    steps = []
    for definition, layout in (*_definitions(rope), *_definitions(rope_apply)):
        closed = _turned(gradients()[f"{definition.name}.x"], layout)
        total = _loss(definition, layout)
        here = dict(zip(_row, _entry, strict=True))
        steps += [
            Step(
                f"{definition.name}: the gradient of the {name} channel of a pair is that of "
                "upstream, turned by the opposite angle",
                normal(formula.xreplace(here) - derivative(total, array[_entry]), _RANGES),
            )
            for name, formula, array in zip(("first", "second"), closed, _x, strict=True)
        ]
    for layout in LAYOUTS:
        given = rope(layout, "forward")
        turned_back = gradients()[f"{given.name}.x"]
        (kept, _), (gradient, _) = (unmarked(d.expression).args[1] for d in (given, turned_back))
        where = tuple(axis for axis, _ in turned_back.axes)
        steps.append(
            Step(
                f"{layout}: a channel that is kept has upstream for its gradient",
                gradient - sp.diff(turned_back.arrays[0][where] * kept, given.arrays[0][where]),
            )
        )
    return tuple(steps)


def _shared(definition: Definition, layout: str) -> sp.Expr:
    """The sum of upstream times the result, batch entries counted by the table that they read:
    entry w tables + a reads table a."""
    total = _loss(definition, layout)
    tables = definition.parameters[4]
    batch, *others = total.limits
    entry, table = _repeat * tables + _table, sp.Mod(batch[0], tables)
    terms = total.function.xreplace({table: _table, batch[0]: entry})
    return sp.Sum(terms, (_repeat, 0, _repeats - 1), (_table, 0, tables - 1), *others)


def _of_tables() -> tuple[Step, ...]:
    batch, *_, tables = rope_apply("half", "forward").parameters
    inside = {tables: _table + 1 + _more, _repeats: _repeat + 1 + _further}
    steps = [
        Step(
            "batch entry w tables + a has rest a by tables, as a < tables",
            (tables - _table).subs(inside).is_positive,
        ),
        Step(
            "and is one of the batch, which is a number of times the tables",
            sp.expand(
                (_repeats * tables - 1 - _repeat * tables - _table).subs(inside)
            ).is_nonnegative,
        ),
    ]
    for definition, layout in _definitions(rope_apply):
        total = _shared(definition, layout)
        for name, array in zip(("cos", "sin"), _tables, strict=True):
            closed = gradients()[f"{definition.name}.{name}"]
            size = closed.parameters[3]
            pairs, *others = closed.expression.xreplace({batch: _repeats * tables}).limits
            terms = sum(closed.expression.function.subs(pairs[0], p) for p in (0, 1))
            axes = [axis for axis, _ in closed.axes[:2]]
            at = dict(zip(axes, (_entry[0], _entry[2]), strict=True))
            formula = _by_pair(sp.Sum(terms, *others), size, layout).xreplace(at)
            where = {_entry[0]: tables, _entry[2]: closed.axes[1][1]}
            found = derivative(total, array[_entry[0], _entry[2]])
            says = f"{definition.name}: the gradient of {name}, summed over all that share it"
            steps.append(Step(says, normal(formula - found, where)))
    return tuple(steps)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="rope.gradient_is_opposite_rotation",
        number="",
        statement="The gradient of RoPE is RoPE of upstream in the opposite direction; channels "
        "that are kept pass it on.",
        latex=r"dx_0=u_0\cos+u_1\sin,\quad dx_1=u_1\cos-u_0\sin",
        source=Source("004", "3.5 2D Rotation", "Turns a pair of channels by an angle."),
        verdict="holds",
        form="symbolic",
        derivation=_vectors,
    ),
    Claim(
        id="rope_apply.gradient_of_tables",
        number="",
        statement="The gradients of a table's cosine and sine are sums of the inner and the cross "
        "product of the pair and upstream, over the heads and batch entries that share the table.",
        latex=r"d\cos=\sum(u_0x_0+u_1x_1),\quad d\sin=\pm\sum(u_1x_0-u_0x_1)",
        source=Source("004", "3.5 Implementation", "A vector of the turned channels, pairwise."),
        verdict="holds",
        form="symbolic",
        derivation=_of_tables,
    ),
)
