"""RoPE of one vector, pair by pair, for the loops of tests."""

from __future__ import annotations

from typing import Any

import numpy as np


def turned(x: Any, position: int, base: Any, options: Any, math: Any = np) -> list[Any]:
    """The channels of one vector, turned by `options.layout` and `options.direction`; as they are
    where there is no layout. `math` has the cosine and the sine of the numbers of `base`."""
    out = list(x)
    if options.layout is None:
        return out
    size = len(x)
    for pair in range(size // 2):
        first, second = (
            (2 * pair, 2 * pair + 1)
            if options.layout == "interleaved"
            else (pair, pair + size // 2)
        )
        # the exponent is a number of the same kind as the base
        angle = position * base ** (-(base * 0 + 2 * pair) / size)
        angle = angle if options.direction == "forward" else -angle
        out[first] = x[first] * math.cos(angle) - x[second] * math.sin(angle)
        out[second] = x[first] * math.sin(angle) + x[second] * math.cos(angle)
    return out
