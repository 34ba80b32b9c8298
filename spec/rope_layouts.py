"""RoPE as the suite evaluates it: that `rope_definition` turns the pairs of both layouts.

Source: document 004 (3.5, implementation; 3.6, partial RoPE).
"""

from __future__ import annotations

import sympy as sp

from attnspec.spec.claim import Claim, Source, Step
from attnspec.spec.closed_gradients import channel
from attnspec.spec.definition import Definition, unmarked
from attnspec.spec.rope_definition import LAYOUTS, rope
from attnspec.spec.symbols import i, m, x

_width = sp.Symbol("r", integer=True, positive=True)
_beyond = sp.Symbol("e", integer=True, nonnegative=True)


def places(layout: str, pair: sp.Expr, width: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """Both channels of a pair, and how many channels turn: `width`, or in halves twice any number
    that is above the pair, so that there is such a pair."""
    turning = width if layout == "interleaved" else 2 * (pair + 1 + _beyond)
    first, second = (channel(layout, pair, sp.Integer(p), turning) for p in (0, 1))
    return first, second, turning


def _channel(definition: Definition, place: sp.Expr, width: sp.Expr) -> sp.Expr:
    """A turned channel of the definition without marks, as an expression in x[c] and the position
    m, with `width` channels turned. An entry of another row or head would be NaN in it."""
    batch, head, token, channels = (axis for axis, _ in definition.axes)
    values, positions = definition.arrays
    turned = unmarked(definition.expression).args[0].expr
    at_channel = turned.subs(definition.parameters[4], width).subs(channels, place)
    return at_channel.subs(positions[batch, token], m).replace(
        lambda node: isinstance(node, sp.Indexed) and node.base == values,
        lambda node: x[node.indices[3]] if node.indices[:3] == (batch, head, token) else sp.nan,
    )


def _definition_turns() -> tuple[Step, ...]:
    steps: list[Step] = []
    for layout in LAYOUTS:
        first, second, width = places(layout, i, _width)
        forward, backward = rope(layout, "forward"), rope(layout, "backward")
        angle = m * forward.parameters[5] ** (-2 * i / width)
        wanted = (
            x[first] * sp.cos(angle) - x[second] * sp.sin(angle),
            x[first] * sp.sin(angle) + x[second] * sp.cos(angle),
        )
        for name, place, value in zip(("first", "second"), (first, second), wanted, strict=True):
            steps += [
                Step(
                    f"{layout}: the {name} channel of pair i, turned by m base^(-2i/r)",
                    sp.simplify(_channel(forward, place, width) - value),
                ),
                Step(
                    f"{layout}: and its {name} channel backward, by the opposite angle",
                    sp.simplify(_channel(backward, place, width) - value.subs(m, -m)),
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
