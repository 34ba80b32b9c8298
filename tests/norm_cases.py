"""Rows for tests of norms, and what norms give for them: exact moments, then roots in 60 digits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from attnspec.oracle.precision import snapped

Array = np.ndarray[Any, Any]
DIGITS = 60
SIZES = (1, 2, 3, 5, 7, 17, 33, 64)

FAMILIES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": lambda g, s: g.standard_normal(s),
    "scaled": lambda g, s: g.standard_normal(s) * 2.0 ** g.integers(-8, 6),
    "heavy-tailed": lambda g, s: np.clip(g.standard_t(1.5, s), -200, 200),
    "mean and noise": lambda g, s: 30.0 + 0.5 * g.standard_normal(s),
    "sparse": lambda g, s: g.standard_normal(s) * (g.random(s) < 0.3),
    "spike": lambda g, s: 100.0 * (np.zeros(s) + (np.arange(s[-1]) == s[-1] // 2)),
    "constant": lambda g, s: np.full(s, g.standard_normal()),
    "near eps": lambda g, s: g.standard_normal(s) * 0.003,
    "zero": lambda g, s: np.zeros(s),
}


def rows(g: np.random.Generator, family: str, dtype: str, least: int = 1) -> Array:
    """Rows of a family, of a size drawn from those of SIZES that have so many channels at least,
    as numbers of the dtype."""
    shape = (int(g.integers(1, 6)), int(g.choice([size for size in SIZES if size >= least])))
    return snapped(FAMILIES[family](g, shape), dtype)


def affine(g: np.random.Generator, size: int, dtype: str) -> dict[str, Array]:
    """A gain and a bias, neither of them 1 or 0."""
    return {
        name: snapped(g.uniform(0.3, 2.0, size) * g.choice([-1.0, 1.0], size), dtype)
        for name in ("weight", "bias")
    }


def _mean(values: list[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def _real(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator


def _below(square: Fraction, eps: float, placement: str) -> Any:
    """What a row is divided by."""
    small = Fraction(eps)
    if placement == "outside":
        return mpmath.sqrt(_real(square)) + _real(small)
    added = {"inside": square + small, "clamped": max(square, small), "none": square}[placement]
    return mpmath.sqrt(_real(added))


def exact_layer_norm(
    x: Array, eps: float, placement: str, weight: Array | None, bias: Array | None
) -> list[list[Any]]:
    """LayerNorm of each row, in mpmath's numbers at DIGITS digits."""
    found = []
    for row in x.tolist():
        entries = [Fraction(entry) for entry in row]
        middle = _mean(entries)
        centred = [entry - middle for entry in entries]
        below = _below(_mean([entry * entry for entry in centred]), eps, placement)
        out = []
        for channel, entry in enumerate(centred):
            value = _real(entry) / below
            if weight is not None:
                value *= mpmath.mpf(float(weight[channel]))
            if bias is not None:
                value += mpmath.mpf(float(bias[channel]))
            out.append(value)
        found.append(out)
    return found


def exact_rms_norm(
    x: Array, eps: float, placement: str, weight: Array | None, gain: str
) -> list[list[Any]]:
    """RMSNorm of each row, likewise."""
    found = []
    for row in x.tolist():
        entries = [Fraction(entry) for entry in row]
        below = _below(_mean([entry * entry for entry in entries]), eps, placement)
        out = []
        for channel, entry in enumerate(entries):
            value = _real(entry) / below
            if weight is not None:
                factor = mpmath.mpf(float(weight[channel]))
                value *= factor + 1 if gain == "one-plus" else factor
            out.append(value)
        found.append(out)
    return found


def off(value: Array, exact: list[list[Any]]) -> Array:
    """How far numbers in float64 are from the exact ones."""
    gaps = [
        [abs(mpmath.mpf(float(v)) - e) for v, e in zip(*pair, strict=True)]
        for pair in zip(value, exact, strict=True)
    ]
    return np.array(gaps, dtype=np.float64).reshape(value.shape)
