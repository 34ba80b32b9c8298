"""What tests ask of the tape of a norm: value, enclosure, allowance, emulated roundings."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest

from attnspec.oracle.balls import BALLS, precision
from attnspec.oracle.errors import errors_of
from attnspec.oracle.expected import tape_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import Plan, planned
from attnspec.oracle.precision import EVALUATION, Contract, contract
from attnspec.spec.definition import Definition
from tests.emulation import STYLES, Emulated
from tests.norm_cases import DIGITS, affine, off, rows

Array = np.ndarray[Any, Any]


def parameters(definition: Definition, x: Array, eps: float) -> dict[str, Any]:
    """The parameters that a definition has."""
    drawn = {"rows": x.shape[0], "d": x.shape[1], "eps": eps}
    return {str(p): drawn[str(p)] for p in definition.parameters}


def arrays(definition: Definition, given: dict[str, Array]) -> dict[str, Array]:
    """The arrays that it reads."""
    return {str(a.label): given[str(a.label)] for a in definition.arrays}


def assert_tape_is(
    definition: Definition, key: dict[str, Any], given: dict[str, Array], exact: list[list[Any]]
) -> None:
    """Float64 within its own bound of the exact numbers, and these in the enclosure."""
    tape, sizes = tape_of(definition), tuple(key.items())
    value = planned(tape, FLOAT64, sizes)(given)
    _, own = planned(tape, errors_of(contract("float64")), sizes)(given)
    assert (off(value, exact) <= own * (1 + EVALUATION)).all()
    with precision(200):
        balls = planned(tape, BALLS, sizes)(given)
    slack = mpmath.mpf(10) ** (10 - DIGITS)  # of the exact side, which has DIGITS digits
    for ball, wanted in zip(balls.ravel(), [e for row in exact for e in row], strict=True):
        middle = mpmath.mpf(ball.mid().str(DIGITS + 5, radius=False))
        radius = mpmath.mpf(ball.rad().str(10, radius=False))
        assert abs(middle - wanted) <= 2 * radius + slack * max(1, abs(wanted))
        assert radius <= mpmath.mpf(2) ** -100 * max(1, abs(wanted))


def bounds(
    definition: Definition, x: Array, eps: float, given: dict[str, Array], rules: Contract
) -> tuple[Array, Array]:
    """Value and worst error of a call under a contract."""
    key = tuple(parameters(definition, x, eps).items())
    v, e = planned(tape_of(definition), errors_of(rules), key)(arrays(definition, given))
    return v, e


def assert_families_are(
    definition: Definition,
    families: tuple[str, ...],
    eps: tuple[float, ...],
    exact: Callable[[dict[str, Array], float], list[list[Any]]],
) -> None:
    """The same for two calls of each family, from their arrays, affine ones too, and their eps to
    the exact numbers."""
    g = np.random.default_rng(5)
    for turn, family in enumerate(2 * families):
        x = rows(g, family, "float64")
        given, small = {"x": x} | affine(g, x.shape[1], "float64"), eps[turn % len(eps)]
        with mpmath.workdps(DIGITS):
            key = parameters(definition, x, small)
            assert_tape_is(definition, key, arrays(definition, given), exact(given, small))


def worst_emulated(
    definition: Definition,
    key: dict[str, Any],
    given: dict[str, Array],
    rules: Contract,
    g: np.random.Generator,
) -> float:
    """The largest share of the allowance that emulated roundings use up: never more than 1.
    Where a divisor may be 0 nothing is promised: the allowance is no number."""
    tape = tape_of(definition)
    v, e = planned(tape, errors_of(rules), tuple(key.items()))(given)
    room, worst = e * (1 + EVALUATION), 0.0
    known = np.isfinite(room)
    for style in STYLES:
        actual = Plan(tape, Emulated(rules, g, style), key)(given)
        error = np.abs(actual - v)[known]
        assert (error <= room[known]).all(), style
        some = room[known] > 0.0
        worst = max(worst, float((error[some] / room[known][some]).max(initial=0.0)))
    return worst


def worst_of_families(
    definition: Definition, dtype: str, eps: tuple[float, ...], families: tuple[str, ...]
) -> float:
    """The same over rows of each family under each of three contracts."""
    g, worst = np.random.default_rng(9), 0.0
    declared: tuple[Any, ...] = (None, "strict", {"statistics": "storage"})
    for turn, (kept, family) in enumerate(product(declared, families)):
        x = rows(g, family, dtype)
        given = arrays(definition, {"x": x} | affine(g, x.shape[1], dtype))
        key = parameters(definition, x, eps[turn % len(eps)])
        worst = max(worst, worst_emulated(definition, key, given, contract(dtype, kept), g))
    return worst


def widened(x: Any) -> Any:
    """A tensor in float32, or wider if it is."""
    import torch

    return x.to(torch.promote_types(x.dtype, torch.float32))


def shares(
    definition: Definition,
    function: Callable[..., Any],
    dtype: str,
    preset: str | None,
    families: tuple[str, ...],
    eps: tuple[float, float],
) -> list[float]:
    """For each of a few calls the worst error of torch code over its allowance. Rows have three
    channels or more: but for eps, one is normalised to 0 and two to 1 and -1, whatever they are."""
    torch = pytest.importorskip("torch")
    g, found, kind = np.random.default_rng(21), [], getattr(torch, dtype)
    for turn in range(3 * len(families)):
        x = rows(g, families[turn % len(families)], dtype, least=3)
        given = arrays(definition, {"x": x} | affine(g, x.shape[1], dtype))
        small = eps[turn % 2]
        v, e = bounds(definition, x, small, given, contract(dtype, preset))
        tensors = (torch.from_numpy(array).to(kind) for array in given.values())
        error = np.abs(function(*tensors, small).to(torch.float64).numpy() - v)
        judged = np.isfinite(e) & (e > 0.0)
        found.append(float((error[judged] / (e[judged] * (1 + EVALUATION))).max(initial=0.0)))
    return found
