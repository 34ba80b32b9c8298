"""How far the value of a function moves when its argument does: |f(x + t) - f(x)| for |t| <= d.

Exact for every size of d, not first order. `u` is the roundoff of the precision in which the
function runs, for recipes that round the argument themselves. d = 0.0 is an exact argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from attnspec.oracle.precision import POWER_ULPS, Format

Array = np.ndarray[Any, Any]
Spread = Callable[[Array, Array, Any, float], Any]
"""From (x, f(x), d, u) to the bound."""


def spread_of_exp(x: Array, y: Array, d: Any, u: float) -> Any:
    """e^(x+d) - e^x = e^(x+d) (1 - e^-d), in a form that stays a number where e^x vanishes and d
    is huge. Kernels that take 2^(x log2 e) round the factor and the product, which is 2u|x| on
    the argument."""
    d = d + 2.0 * u * np.abs(x)
    return np.exp(x + d) * -np.expm1(-d)


def spread_of_log(x: Array, y: Array, d: Any, u: float) -> Any:
    """log(x) - log(x-d) = -log1p(-d/x) is the larger of the two sides."""
    share = d / x
    return np.where(share < 1.0, -np.log1p(-np.minimum(share, 1.0)), np.inf)


def _bent(slope: Array, d: Any) -> Any:
    """|f'(x)| d + d^2/2, as the second derivative is at most 1; never more than d, nor than 2."""
    return np.minimum(np.minimum((np.abs(slope) + 0.5 * d) * d, d), 2.0)


def spread_of_sin(x: Array, y: Array, d: Any, u: float) -> Any:
    """sin has the derivative cos."""
    return 0.0 if isinstance(d, float) and d == 0.0 else _bent(np.cos(x), d)


def spread_of_cos(x: Array, y: Array, d: Any, u: float) -> Any:
    """cos has the derivative -sin."""
    return 0.0 if isinstance(d, float) and d == 0.0 else _bent(np.sin(x), d)


def spread_of_tanh(x: Array, y: Array, d: Any, u: float) -> Any:
    """tanh has slope at most 1, and its values lie within 2 of each other."""
    return np.minimum(d, 2.0)


def spread_of_sqrt(x: Array, y: Array, d: Any, u: float) -> Any:
    """sqrt(x) - sqrt(x-d) is the larger side while d <= x; past that the upper side may be."""
    return np.maximum(y - np.sqrt(np.maximum(x - d, 0.0)), np.sqrt(x + d) - y)


def spread_of_power(base: Array, y: Array, v: Array, fmt: Format, *, held: bool) -> Array:
    """Error of v = base ** y by any usual recipe: `b ** y`, `1 / b ** -y`, `exp(y log b)`.

    The last is the widest: the exponent is one rounding, the logarithm within one ulp (2u), their
    product one rounding, together 4u on y log b; then the function itself, and a division. A base
    that the format does not hold adds |y| u. y = 0 gives 1 exactly.
    """
    unit = -math.log1p(-fmt.roundoff)
    own = -math.log1p(-2.0 * POWER_ULPS * fmt.roundoff) + unit
    moved = np.abs(y) * (np.abs(np.log(base)) * math.expm1(4.0 * unit) + (0.0 if held else unit))
    e = v * np.expm1(moved + own) + fmt.underflow
    result: Array = np.where(y == 0.0, 0.0, e)
    return result
