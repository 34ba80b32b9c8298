"""Sinusoidal positions as an expression.

Source: document 004 (3.3, the formula). Pair i at position m is the sine and the cosine of the
angle m base^(-2i/dim), with the frequencies of `spec/rope_definition.py`.
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from attnspec.spec.definition import Definition, rnd
from attnspec.spec.rope_definition import frequency, plane

_m, _c = sp.symbols("m c", integer=True, nonnegative=True)
_length, _dim = sp.symbols("length dim", integer=True, positive=True)
_base = sp.Symbol("base", positive=True)
_positions = sp.IndexedBase(sp.Symbol("positions", integer=True))

LAYOUTS = ("interleaved", "concatenated")
PAIRING = {"interleaved": "interleaved", "concatenated": "half"}
"""Sines and cosines by turns, or all sines first: the two ways in which RoPE pairs channels."""


def sinusoidal(layout: str) -> Definition:
    """positions[m] -> table[m, c]: the encoding of each position in one layout."""
    pair, _, is_sine = plane(PAIRING[layout], _c, _dim)
    position = rnd(_positions[_m], "angles")
    angle = rnd(position * rnd(frequency(pair, _dim, _base), "angles"), "angles")
    sine, cosine = rnd(sp.sin(angle), "angles"), rnd(sp.cos(angle), "angles")
    table = rnd(sp.Piecewise((sine, is_sine), (cosine, True)), "tables")
    return Definition(
        f"sinusoidal.{layout}",
        rnd(table, "output"),
        ((_m, _length), (_c, _dim)),
        (_positions,),
        (_length, _dim, _base),
    )


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of this file, one for each convention or part."""
    return tuple(sinusoidal(layout) for layout in LAYOUTS)
