"""Every operation of every algebra alone, against ball arithmetic."""

from __future__ import annotations

from typing import Any

import flint
import numpy as np
import pytest
import sympy as sp

from attnspec.oracle.balls import BALLS, BOTH_FORMS, UndecidedError, midpoints, precision
from attnspec.oracle.compiler import compiled
from attnspec.oracle.deviations import deviations_of
from attnspec.oracle.errors import Errors, errors_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import Plan
from attnspec.oracle.precision import DEVIATIONS, EVALUATION, FORMATS, contract, snapped
from attnspec.oracle.rationals import RATIONALS
from attnspec.spec.definition import Definition, Maximum, either, larger, rnd
from tests.emulation import STYLES, Emulated

Array = np.ndarray[Any, Any]

I, J = sp.symbols("i j", integer=True, nonnegative=True)  # noqa: E741
N, K = sp.symbols("n k", integer=True, positive=True)
X, Y = sp.IndexedBase("x", real=True), sp.IndexedBase("y", real=True)
ROWS, TERMS = 24, 7
DOUBLE = contract("float64", {"angles": "float64"})


def one(expression: Any, *arrays: Any) -> Definition:
    """A definition of one operation on x[i, j] and y[i, j]."""
    axes = ((I, N), (J, K)) if expression.has(J) and not expression.atoms(sp.Sum, Maximum) else (
        (I, N),
    )  # fmt: skip
    return Definition("operation", expression, axes, arrays or (X, Y), (N, K))


x, y = X[I, J], Y[I, J]
TERMS_J = (J, 0, K - 1)
REAL = {
    "add": x + y,
    "sub": x - y,
    "mul": x * y,
    "div": x / y,
    "third": x / 3,
    "square": x**2,
    "abs": sp.Abs(x, evaluate=False),
    "max": sp.Max(x, y),
    "larger": larger(rnd(x, "statistics"), y),
    "min": sp.Min(x, y),
    "exp": sp.exp(x),
    "sin": sp.sin(x),
    "cos": sp.cos(x),
    "tanh": sp.tanh(x),
    "where": sp.Piecewise((x, x < y), (2 * y, True)),
    "sum": sp.Sum(x, TERMS_J),
    "dot": sp.Sum(x * y, TERMS_J),
    "amax": Maximum(x, TERMS_J),
    "mark": rnd(x * y, "output"),
    "either": either(x * y + x, x * (y + 1)),
}
POSITIVE = {"log": sp.log(x), "sqrt": sp.sqrt(x), "inverse root": 1 / sp.sqrt(x)}
RANGES = {"near one": (-2, 3), "wide": (-30, 30), "subnormal": (-150, -100), "huge": (100, 126)}


def drawn(rng: np.random.Generator, low: int, high: int, *, positive: bool = False) -> Array:
    values = rng.standard_normal((ROWS, TERMS)) * 2.0 ** rng.integers(low, high, (ROWS, TERMS))
    values[0, :3] = 0.0
    return np.abs(values) + 2.0**low if positive else values


def enclosed(definition: Definition, arrays: dict[str, Array]) -> tuple[Array, Array]:
    with precision(200):
        return midpoints(Plan(compiled(definition), BALLS, {"n": ROWS, "k": TERMS})(arrays))


def cases() -> list[Any]:
    both = {**REAL, **POSITIVE}
    return [
        pytest.param(name, span, id=f"{name}, {span}")
        for name in both
        for span in RANGES
        # sine of numbers past 2^100 has no value to speak of in any format
        if not (name in ("exp", "sin", "cos") and span == "huge")
    ]


@pytest.mark.parametrize(("name", "span"), cases())
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_error_rule_covers_operation(name: str, span: str, dtype: str) -> None:
    """Operands off by as much as they may, and an operation that rounds as badly as it may.
    (float64 itself is emulated by nothing wider here: numpy and balls judge it below.)"""
    rng = np.random.default_rng(len(name) * 100 + len(span))
    expression = {**REAL, **POSITIVE}[name]
    definition = one(expression)
    tape, sizes = compiled(definition), {"n": ROWS, "k": TERMS}
    rules = contract(dtype)
    low, high = RANGES[span]
    if name == "exp":
        high = min(high, 5)
    values = {a: drawn(rng, low, high, positive=name in POSITIVE) for a in ("x", "y")}
    if name == "div":
        values["y"] += 2.0**low * (values["y"] == 0.0)
    wrong = {a: np.abs(v) * 2.0 ** rng.integers(-20, -6) for a, v in values.items()}
    exact, rest = enclosed(definition, values)
    with np.errstate(all="ignore"):
        v, e = Plan(tape, errors_of(rules), sizes)({a: (values[a], wrong[a]) for a in values})
        _, own = Plan(tape, errors_of(DOUBLE), sizes)(values)
        assert (np.abs((v - exact) - rest) <= own * (1.0 + EVALUATION)).all()
        for style in STYLES:
            for _ in range(4):
                sign = np.sign(rng.uniform(-1, 1, (ROWS, TERMS)))
                moved = {a: values[a] + sign * wrong[a] for a in values}
                if name == "where":
                    # a jump: the algebra takes comparisons at the exact value
                    kept = (moved["x"] < moved["y"]) == (values["x"] < values["y"])
                    moved = {a: np.where(kept, moved[a], values[a]) for a in moved}
                actual = Plan(tape, Emulated(rules, rng, style), sizes)(moved)
                over = np.abs(actual - v) - e * (1.0 + EVALUATION)
                assert not (over > 0.0).any(), (name, span, style, np.nanmax(over))


@pytest.mark.parametrize("name", [*REAL, *POSITIVE])
def test_float64_and_rationals_agree_with_balls(name: str) -> None:
    rng = np.random.default_rng(5)
    definition = one({**REAL, **POSITIVE}[name])
    tape, sizes = compiled(definition), {"n": ROWS, "k": TERMS}
    values = {a: drawn(rng, -3, 3, positive=name in POSITIVE) + 0.0 for a in ("x", "y")}
    values["y"] += 0.25 * (values["y"] == 0)
    exact, rest = enclosed(definition, values)
    value = Plan(tape, FLOAT64, sizes)(values)
    _, e = Plan(tape, errors_of(DOUBLE), sizes)(values)
    assert (np.abs((value - exact) - rest) <= e).all()
    try:
        plan = Plan(tape, RATIONALS, sizes)
    except TypeError:
        assert name in ("exp", "sin", "cos", "tanh", "log", "sqrt", "inverse root")
    else:
        fractions = plan(values)
        with precision(300):
            balls = Plan(tape, BALLS, sizes)(values)
        for fraction, ball in zip(fractions.ravel(), balls.ravel(), strict=True):
            rational = flint.fmpq(fraction.numerator, fraction.denominator)
            assert ball.contains(flint.arb(rational)) or ball.overlaps(flint.arb(rational))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("angles", ["float32", "bfloat16"])
def test_powers_of_a_constant_by_every_recipe(dtype: str, angles: str) -> None:
    base = sp.Symbol("base", positive=True)
    frequency = rnd(base ** (-2 * sp.floor(I / 2) / N), "angles")
    definition = Definition("powers", X[I] * frequency, ((I, N),), (X,), (N, base))
    rules = contract(dtype, {"angles": angles})
    rng = np.random.default_rng(0)
    for number in (10000.0, 500000.0, 2.0, 100.0, 1.5, 10000.1):
        sizes = {"n": 64, "base": number}
        tape, values = compiled(definition), {"x": np.ones(64)}
        v, e = Plan(tape, errors_of(rules), sizes)(values)
        assert (e[:2] <= 2 * FORMATS[rules.accumulate].roundoff).all()  # exponent 0: 1 exactly
        for style in STYLES[:2]:
            for _ in range(30):
                actual = Plan(tape, Emulated(rules, rng, style), sizes)(values)
                assert (np.abs(actual - v) <= e * (1.0 + EVALUATION)).all()


def test_positions_beyond_a_format_are_charged() -> None:
    p = sp.IndexedBase(sp.Symbol("p", integer=True))
    definition = Definition("positions", rnd(p[I], "angles"), ((I, N),), (p,), (N,))
    values = {"p": np.array([0, 255, 256, 257, 2**24, 2**24 + 1])}
    for angles, exact in (("float32", 5), ("bfloat16", 3)):
        rules = contract("bfloat16", {"angles": angles})
        _, e = Plan(compiled(definition), errors_of(rules), {"n": 6})(values)
        assert (e[:exact] == 0.0).all()
        assert e[3 if angles == "bfloat16" else 5] > 0.0


def test_overflow_of_what_may_be_stored_promises_nothing() -> None:
    definition = one(rnd(x * y, "output"))
    tape = compiled(definition)
    values = {"x": np.full((1, 1), 300.0), "y": np.full((1, 1), 300.0)}
    for dtype, finite in (("float16", False), ("bfloat16", True), ("float32", True)):
        _, e = Plan(tape, errors_of(contract(dtype)), {"n": 1, "k": 1})(values)
        assert np.isfinite(e).all() == finite


def test_zero_and_minus_infinity_are_exact() -> None:
    rules = contract("float16")
    zero = {"x": np.zeros((1, 1)), "y": np.full((1, 1), 3.0)}
    for expression in (x * y, x / y, x + x, sp.Sum(x * y, TERMS_J)):
        _, e = Plan(compiled(one(expression)), errors_of(rules), {"n": 1, "k": 1})(zero)
        assert (e == 0.0).all()
    low = {"x": np.full((1, 1), -np.inf), "y": np.full((1, 1), 3.0)}
    v, e = Plan(compiled(one(sp.exp(x - y))), errors_of(rules), {"n": 1, "k": 1})(low)
    assert v.item() == 0.0
    assert e.item() == 0.0


def test_comparison_of_overlapping_balls_is_undecided() -> None:
    definition = one(sp.Piecewise((x, sp.sin(x) ** 2 + sp.cos(x) ** 2 < y), (y, True)))
    values = {"x": np.ones((1, 1)), "y": np.ones((1, 1))}
    with precision(), pytest.raises(UndecidedError, match="cannot compare"):
        Plan(compiled(definition), BALLS, {"n": 1, "k": 1})(values)


def test_two_forms_that_differ_are_an_error() -> None:
    definition = one(either(x * y, x * y + 1))
    values = {"x": np.ones((1, 1)), "y": np.ones((1, 1))}
    for algebra in (BOTH_FORMS, RATIONALS):
        with precision(), pytest.raises(ArithmeticError, match="two forms"):
            Plan(compiled(definition), algebra, {"n": 1, "k": 1})(values)


class WithoutSumRounding(Errors):
    """An error algebra with one rule broken: sums are free of rounding."""

    def sum(self, op: Any, plan: Any) -> Any:
        return lambda a: (
            np.sum(a[0], axis=op.extra, keepdims=True),
            np.sum(np.broadcast_to(a[1], a[0].shape), axis=op.extra, keepdims=True),
        )


class WithHalfTheProductRule(Errors):
    """Another: a product carries the error of its first factor only."""

    def mul(self, op: Any, plan: Any) -> Any:
        rounded = self.rounded(op)
        return lambda a, b: rounded(a[0] * b[0], np.abs(b[0]) * a[1])


class WithoutMarks(Errors):
    """Another: what is stored is not rounded."""

    def rnd(self, op: Any, plan: Any) -> Any:
        return lambda a: a


@pytest.mark.parametrize(
    ("broken", "expression"),
    [
        (WithoutSumRounding, sp.Sum(x, TERMS_J)),
        (WithHalfTheProductRule, x * y),
        (WithoutMarks, rnd(x * y, "output")),
    ],
)
def test_a_broken_error_rule_is_noticed(broken: type[Errors], expression: Any) -> None:
    rng = np.random.default_rng(0)
    rules, tape = contract("bfloat16"), compiled(one(expression))
    sizes = {"n": ROWS, "k": TERMS}
    values = {a: np.abs(drawn(rng, 0, 3)) + 1.0 for a in ("x", "y")}
    wrong = {"x": np.zeros_like(values["x"]), "y": values["y"] * 2.0**-10}
    inputs = {a: (values[a], wrong[a]) for a in values}
    moved = {a: values[a] + wrong[a] for a in values}
    ratios = {}
    for algebra in (Errors, broken):
        v, e = Plan(tape, algebra(rules), sizes)(inputs)
        actual = Plan(tape, Emulated(rules, rng, "extreme"), sizes)(moved)
        with np.errstate(divide="ignore"):
            ratios[algebra] = (np.abs(actual - v) / e).max()
    assert ratios[Errors] <= 1.0 + EVALUATION < ratios[broken]


@pytest.mark.parametrize("name", ["add", "mul", "div", "sum", "dot", "exp", "mark", "where"])
def test_deviations_cover_random_roundings(name: str) -> None:
    """The allowance from the variance lies above every one of 400 runs with random roundings."""
    rng = np.random.default_rng(1)
    tape, sizes = compiled(one(REAL[name])), {"n": ROWS, "k": TERMS}
    values = {a: snapped(drawn(rng, -1, 2), "float32") for a in ("x", "y")}
    values["y"] += 0.5 * np.sign(values["y"]) + 0.25
    for dtype in ("float32", "bfloat16"):
        rules = contract(dtype)
        with np.errstate(all="ignore"):
            v, e, deviation = Plan(tape, deviations_of(rules), sizes)(values)
            pair = Plan(tape, errors_of(rules), sizes)(values)
        assert np.array_equal(pair[1], e)
        allowance = np.minimum(e, DEVIATIONS * deviation)
        worst = 0.0
        for _ in range(200):
            for style in ("uniform", "extreme"):
                actual = Plan(tape, Emulated(rules, rng, style), sizes)(values)
                assert (np.abs(actual - v) <= allowance * (1.0 + EVALUATION)).all()
                with np.errstate(all="ignore"):
                    worst = max(worst, np.nanmax(np.abs(actual - v) / (deviation + 1e-300)))
        assert worst > 1.0  # deviations are not padded: runs leave one standard deviation


def test_a_huge_gap_leaves_a_softmax_that_can_be_judged() -> None:
    """Where an exponential vanishes, its error does too, however uncertain its argument."""
    shifted = sp.exp(x - Maximum(x, TERMS_J))
    made = Definition("gap", shifted / sp.Sum(shifted, TERMS_J), ((I, N), (J, K)), (X,), (N, K))
    for dtype in ("float64", "float32", "bfloat16"):
        rules = contract(dtype)
        for huge in (8e37, -8e37):
            plan = Plan(compiled(made), errors_of(rules), {"n": 1, "k": 3})
            v, e = plan({"x": np.array([[0.0, 1.0, huge]])})
            assert np.isfinite(v).all()
            assert (e <= 0.1).all()
