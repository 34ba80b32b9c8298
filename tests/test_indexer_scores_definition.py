"""The definition of the indexer's scores, and its allowance."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from attnspec.oracle.balls import BALLS, midpoints, precision
from attnspec.oracle.errors import errors_of
from attnspec.oracle.expected import expected, tape_of, value_of
from attnspec.oracle.plan import Plan, planned
from attnspec.oracle.precision import EVALUATION, NUMPY_TYPES, contract, snapped
from attnspec.oracle.rationals import RATIONALS
from attnspec.spec.indexer_scores_definition import indexer_scores
from tests.emulation import STYLES, Emulated

Array = np.ndarray[Any, Any]
SHAPES = ((1, 1, 1, 1, 1), (2, 3, 5, 4, 7), (1, 4, 3, 9, 16), (3, 2, 1, 6, 5))


def call(g: np.random.Generator, shape: tuple[int, ...], dtype: str) -> tuple[Any, Any]:
    b, h, t, s, d = shape
    arrays = {
        "q": g.standard_normal((b, h, t, d)),
        "k": g.standard_normal((b, s, d)),
        "w": g.standard_normal((b, h, t)),
    }
    sizes = dict(zip(("batch", "heads", "t", "s", "d"), shape, strict=True))
    return sizes, {name: snapped(a, dtype) for name, a in arrays.items()}


def exact(arrays: Any, *, weighted: bool) -> dict[tuple[int, ...], Fraction]:
    """One score at a time."""
    q, k, w = (np.vectorize(Fraction, otypes=[object])(arrays[name]) for name in "qkw")
    found: dict[tuple[int, ...], Fraction] = {}
    for b, t, s in np.ndindex(q.shape[0], q.shape[2], k.shape[1]):
        total = Fraction(0)
        for h in range(q.shape[1]):
            dot = sum((x * y for x, y in zip(q[b, h, t], k[b, s], strict=True)), Fraction(0))
            total += (w[b, h, t] if weighted else 1) * max(dot, Fraction(0))
        found[b, t, s] = total
    return found


def stepwise(arrays: Any, dtype: str, *, weighted: bool) -> Array:
    """Tensor by tensor, each stored in `dtype`; the sum over heads in float32."""
    kind = NUMPY_TYPES[dtype]
    q, k, w = (arrays[name].astype(np.float32) for name in "qkw")
    products = np.einsum("bhtd,bsd->bhts", q, k).astype(kind)
    terms = np.maximum(products, kind.type(0))
    if weighted:
        terms = terms * w.astype(kind)[..., None]
    total: Array = terms.astype(np.float32).sum(1)
    return total.astype(np.float64)


@pytest.mark.parametrize("weighted", [False, True])
def test_value_is_that_of_plain_loops(*, weighted: bool) -> None:
    g = np.random.default_rng(8)
    definition = indexer_scores(weighted=weighted)
    rules = errors_of(contract("float64"))
    for shape in SHAPES:
        sizes, arrays = call(g, shape, "float64")
        key = tuple(sizes.items())
        wanted = exact(arrays, weighted=weighted)
        rational = planned(tape_of(definition), RATIONALS, key)(arrays)
        with precision():
            high, low = midpoints(planned(tape_of(definition), BALLS, key)(arrays))
        found = value_of(definition, sizes, arrays)
        value, error = planned(tape_of(definition), rules, key)(arrays)
        for at, right in wanted.items():
            assert rational[at] == right
            ball = Fraction(float(high[at])) + Fraction(float(low[at]))
            assert abs(ball - right) <= Fraction(1, 2**90) * (1 + abs(right))
            for one in (found[at], value[at]):
                assert abs(Fraction(float(one)) - right) <= Fraction(float(error[at]))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("weighted", [False, True])
def test_right_code_stays_within_the_allowance(dtype: str, *, weighted: bool) -> None:
    g = np.random.default_rng(9)
    definition = indexer_scores(weighted=weighted)
    worst = 0.0
    for turn in range(24):
        sizes, arrays = call(g, SHAPES[turn % len(SHAPES)], dtype)
        rules = contract(dtype, ["eager", "strict"][turn % 2])
        right = expected(definition, sizes, arrays, rules)
        room = right.allowance * (1.0 + EVALUATION)
        if turn % 2 == 0:
            found = stepwise(arrays, dtype, weighted=weighted)
            assert (np.abs(found - right.value) <= room).all()
        for style in STYLES:
            emulated = Plan(tape_of(definition), Emulated(rules, g, style), sizes)(arrays)
            off = np.abs(emulated - right.value)
            assert (off <= room).all(), (turn, style)
            worst = max(worst, float((off[room > 0] / room[room > 0]).max(initial=0.0)))
    assert worst > 0.3


def test_wrong_scores_leave_the_allowance() -> None:
    g = np.random.default_rng(10)
    sizes, arrays = call(g, SHAPES[1], "bfloat16")
    right = expected(indexer_scores(weighted=True), sizes, arrays, contract("bfloat16"))
    products = np.einsum("bhtd,bsd->bhts", arrays["q"], arrays["k"])
    weights = arrays["w"][..., None]
    wrong = {
        "no ReLU": (weights * products).sum(1),
        "ReLU of the sum": np.maximum((weights * products).sum(1), 0.0),
        "ReLU after the weight": np.maximum(weights * products, 0.0).sum(1),
        "no weights": np.maximum(products, 0.0).sum(1),
        "mean over heads": (weights * np.maximum(products, 0.0)).mean(1),
    }
    for name, found in wrong.items():
        assert (np.abs(found - right.value) > right.allowance).any(), name
