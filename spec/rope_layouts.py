"""RoPE as the suite evaluates it: that `rope_definition` turns the pairs of both layouts.

Source: document 004 (3.5, implementation; 3.6, partial RoPE).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.definition import Definition, unmarked
from attnspec.spec.rope_definition import rope
from attnspec.spec.symbols import i, m, x

_width = sp.Symbol("r", integer=True, positive=True)
_half = i + 1 + sp.Symbol("e", integer=True, nonnegative=True)
"""Any r/2 that is above i, so that there is a pair i."""

_PLANES: tuple[tuple[str, sp.Expr, sp.Expr, sp.Expr], ...] = (
    ("interleaved", 2 * i, 2 * i + 1, _width),
    ("half", i, i + _half, 2 * _half),
)
"""Layout, the two channels of pair i, and how many channels turn."""


def _channel(definition: Definition, channel: sp.Expr, width: sp.Expr) -> sp.Expr:
    """A turned channel of the definition without marks, as an expression in x[c] and the position
    m, with `width` channels turned. An entry of another row or head would be NaN in it."""
    batch, head, place, channels = (axis for axis, _ in definition.axes)
    values, positions = definition.arrays
    turned = unmarked(definition.expression).args[0].expr
    at_channel = turned.subs(definition.parameters[4], width).subs(channels, channel)
    return at_channel.subs(positions[batch, place], m).replace(
        lambda node: isinstance(node, sp.Indexed) and node.base == values,
        lambda node: x[node.indices[3]] if node.indices[:3] == (batch, head, place) else sp.nan,
    )


def _definition_turns() -> tuple[Step, ...]:
    steps: list[Step] = []
    for layout, first, second, width in _PLANES:
        forward, backward = rope(layout, "forward"), rope(layout, "backward")
        angle = m * forward.parameters[5] ** (-2 * i / width)
        wanted = (
            x[first] * sp.cos(angle) - x[second] * sp.sin(angle),
            x[first] * sp.sin(angle) + x[second] * sp.cos(angle),
        )
        for name, channel, value in zip(("first", "second"), (first, second), wanted, strict=True):
            steps += [
                Step(
                    f"{layout}: the {name} channel of pair i, turned by m base^(-2i/r)",
                    sp.simplify(_channel(forward, channel, width) - value),
                ),
                Step(
                    f"{layout}: and its {name} channel backward, by the opposite angle",
                    sp.simplify(_channel(backward, channel, width) - value.subs(m, -m)),
                ),
            ]
        (_, turns), (kept, _) = unmarked(forward.expression).args
        axes = [axis for axis, _ in forward.axes]
        steps += [
            Step(f"{layout}: channels below r turn", turns == (axes[3] < forward.parameters[4])),
            Step(f"{layout}: the others are kept", kept - forward.arrays[0][tuple(axes)]),
        ]
    return tuple(steps)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="rope.definition",
        number="",
        statement="The expression that the suite evaluates turns the pairs of either layout by "
        "their frequencies, and leaves the other channels alone.",
        latex=r"(x_{2i},x_{2i+1})\text{ or }(x_i,x_{i+r/2})\mapsto R(m\theta_i)",
        source=Source("004", "3.5 Implementation", "A vector of the turned channels, pairwise."),
        verdict="holds",
        form="symbolic",
        derivation=_definition_turns,
    ),
)
