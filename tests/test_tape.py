"""The compiler and its plans: what it accepts, what it refuses, and its printed source."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sympy as sp

from attnspec.oracle.balls import BALLS, midpoints, precision
from attnspec.oracle.compiler import compiled
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import Plan, planned
from attnspec.oracle.rationals import RATIONALS
from attnspec.oracle.source import source
from attnspec.oracle.tape import UnsupportedError
from attnspec.spec import rope_definition, softmax_definition
from attnspec.spec.definition import Definition, Maximum, rnd

I, J, K = sp.symbols("i j k", integer=True, nonnegative=True)  # noqa: E741
N, M, D = sp.symbols("n m d", integer=True, positive=True)
X, Y = sp.IndexedBase("x", real=True), sp.IndexedBase("y", real=True)
P = sp.IndexedBase(sp.Symbol("p", integer=True))
ALL = (softmax_definition.DEFINITION, *rope_definition.definitions())


def definition(expression: Any, *axes: Any, arrays: Any = (X, Y), more: Any = ()) -> Definition:
    return Definition("probe", expression, axes or ((I, N),), arrays, (N, M, D, *more))


def value(expression: Any, *axes: Any, sizes: Any = None, **arrays: Any) -> Any:
    given = tuple(a for a in (X, Y, P) if str(a.label) in arrays)
    made = definition(expression, *axes, arrays=given)
    return Plan(compiled(made), FLOAT64, sizes or {"n": 3, "m": 4, "d": 5})(arrays)


@pytest.mark.parametrize(
    ("expression", "node"),
    [
        (sp.gamma(X[I]), "gamma"),
        (sp.erf(X[I]), "erf"),
        (sp.Heaviside(X[I]), "Heaviside"),
        (sp.Integral(X[I], (K, 0, 1)), "Integral"),
        (sp.Product(X[K], (K, 0, N - 1)), "Product"),
        (X[I] ** Y[I], "Pow"),
        (sp.floor(X[I]), "floor"),
        (sp.Mod(X[I], 2), "Mod"),
        (sp.Symbol("unknown") * X[I], "Symbol"),
        (sp.Sum(X[K], (K, 1, N - 1)), "Sum"),
        (sp.Piecewise((X[I], X[I] > 0)), "Piecewise"),
        (sp.IndexedBase("other")[I], "Indexed"),
        (X[I / 2], "Indexed"),
        (sp.KroneckerDelta(I, K), "KroneckerDelta"),
    ],
)
def test_unsupported_node_is_named(expression: Any, node: str) -> None:
    with pytest.raises(UnsupportedError, match=f"probe: cannot compile {node} `"):
        compiled(definition(expression))


def test_an_index_with_two_ranges_is_refused() -> None:
    twice = sp.Sum(X[K], (K, 0, N - 1)) * sp.Sum(Y[K], (K, 0, M - 1))
    with pytest.raises(UnsupportedError, match="index k has two ranges, n and m"):
        compiled(definition(twice * X[I]))


def test_an_index_that_is_nowhere_bound_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="neither an index nor a parameter"):
        compiled(definition(X[K]))


def test_a_bound_index_of_the_same_name_as_an_axis_keeps_its_meaning() -> None:
    x = np.arange(3.0)
    softmax = sp.exp(X[I]) / sp.Sum(sp.exp(X[I]), (I, 0, N - 1))
    assert np.allclose(value(softmax, x=x), np.exp(x) / np.exp(x).sum())


def test_a_mask_under_a_reused_index_is_kept() -> None:
    x, y = np.arange(9.0).reshape(3, 3), np.ones((3, 3))
    seen = sp.Sum(sp.Piecewise((X[I, K] * Y[I, K], K <= I), (0, True)), (K, 0, N - 1))
    total = value(seen / sp.Sum(X[I, K], (K, 0, N - 1)), x=x, y=y)
    assert np.allclose(total, np.tril(x).sum(1) / x.sum(1))


def test_sum_of_products_is_one_contraction() -> None:
    dot = sp.Sum(X[I, K] * Y[J, K], (K, 0, D - 1))
    tape = compiled(definition(dot, (I, N), (J, M)))
    assert [op.name for op in tape.ops].count("dot") == 1
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((3, 5)), rng.standard_normal((4, 5))
    assert np.allclose(value(dot, (I, N), (J, M), x=x, y=y), x @ y.T)


def test_masked_contraction_is_taken_apart_again() -> None:
    """Sympy pulls the factor into the Piecewise; the tape must not broadcast a cube."""
    masked = sp.Sum(sp.Piecewise((X[I, K] * Y[K, J], K <= I), (0, True)), (K, 0, N - 1))
    made = Definition("probe", masked, ((I, N), (J, M)), (X, Y), (N, M))
    tape = compiled(made)
    assert [op.name for op in tape.ops].count("dot") == 1
    x, y = np.arange(9.0).reshape(3, 3), np.arange(12.0).reshape(3, 4)
    result = Plan(tape, FLOAT64, {"n": 3, "m": 4})({"x": x, "y": y})
    assert np.allclose(result, np.tril(x) @ y)


def test_sum_over_an_axis_that_the_summand_lacks_multiplies() -> None:
    x = np.arange(3.0)
    assert np.allclose(value(sp.Sum(X[I], (K, 0, D - 1)), x=x), 5 * x)


def test_contraction_over_two_axes_and_a_batch() -> None:
    inner = sp.Sum(X[I, J, K] * Y[I, J, K], (J, 0, M - 1), (K, 0, D - 1))
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((3, 4, 5)), rng.standard_normal((3, 4, 5))
    assert np.allclose(value(inner, x=x, y=y), (x * y).sum((1, 2)))


def test_an_untaken_branch_outside_of_the_array_shows_as_nan() -> None:
    shifted = sp.Piecewise((X[I + 1], I < N - 1), (X[I], True))
    assert np.array_equal(value(shifted, x=np.arange(3.0)), [1.0, 2.0, 2.0])
    wrong = value(X[I + 1] * 1, x=np.arange(3.0))
    assert np.isnan(wrong[-1])


def test_indices_that_come_from_an_array_gather() -> None:
    x, p = np.array([10.0, 20.0, 30.0]), np.array([2, 0, 1])
    assert np.array_equal(value(X[P[I]], x=x, p=p), [30.0, 10.0, 20.0])


def test_integers_are_exact_in_every_algebra() -> None:
    """Counts and buckets: floor, Mod, powers and comparisons of integers beyond 2^53."""
    count = sp.Sum(sp.Piecewise((1, 3**K * 7**20 <= 11**I * 5**20), (0, True)), (K, 0, 99))
    made = Definition("count", sp.Mod(count, 10) + sp.floor(I / 2), ((I, N),), (), (N,))
    expected = [
        sum(3**k * 7**20 <= 11**i * 5**20 for k in range(100)) % 10 + i // 2 for i in range(30)
    ]
    for algebra in (FLOAT64, RATIONALS):
        assert [int(v) for v in Plan(compiled(made), algebra, {"n": 30})({})] == expected
    with precision():
        balls = Plan(compiled(made), BALLS, {"n": 30})({})
    assert [int(v) for v in midpoints(balls)[0]] == expected


def test_a_power_of_integers_that_is_none_is_refused() -> None:
    """Sympy writes 1 / 2^n as 2^(-n): exact integers would have rounded it down to 0."""
    with pytest.raises(ValueError, match="negative exponent"):
        value(X[I] * 2**-I, x=np.arange(3.0))


def test_printed_source_keeps_integers_exact_and_sizes_whole() -> None:
    """A size that is rounded down, and powers past 64 bits; no arrays at all."""
    count = sp.Sum(3 ** (K + 40), (K, 0, sp.floor(N / 2) - 1))
    made = Definition("count", sp.Mod(count, 1000), ((I, N),), (), (N,))
    scope: dict[str, Any] = {"np": np}
    exec(source(compiled(made)), scope)  # the text is ours: running it is the test
    assert scope["count"](n=7).tolist() == [sum(3 ** (k + 40) for k in range(3)) % 1000] * 7


def test_rationals_are_exact_and_refuse_what_leaves_them() -> None:
    mean = sp.Sum(X[K], (K, 0, N - 1)) / N + sp.Rational(1, 3) - Maximum(X[K], (K, 0, N - 1))
    made = Definition("mean", mean * P[I], ((I, N),), (X, P), (N,))
    x, p = np.array([0.5, 0.25, 0.1]), np.array([1, 2, 3])
    result = Plan(compiled(made), RATIONALS, {"n": 3})({"x": x, "p": p})
    from fractions import Fraction

    total = sum(map(Fraction, x.tolist()), Fraction(0)) / 3 + Fraction(1, 3) - Fraction(0.5)
    assert list(result) == [total, 2 * total, 3 * total]
    with pytest.raises(TypeError, match="Rationals has no operation 'exp'"):
        Plan(compiled(definition(sp.exp(X[I]))), RATIONALS, {"n": 3, "m": 1, "d": 1})


def test_an_unknown_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown mark tabels; allowed: scores"):
        rnd(X[I], "tabels")


def test_a_missing_array_is_named() -> None:
    plan = Plan(compiled(definition(X[I] * Y[I])), FLOAT64, {"n": 3, "m": 1, "d": 1})
    with pytest.raises(ValueError, match="probe needs the array 'y'"):
        plan({"x": np.zeros(3)})


def test_what_depends_on_no_array_is_computed_once() -> None:
    tape = compiled(rope_definition.rope("interleaved", "forward"))
    still = [op.name for op in tape.ops if not op.varies]
    assert {"pow", "mod", "floordiv", "lt"} <= set(still)
    assert not {"cos", "sin"} & set(still)


def sizes_of(made: Definition) -> dict[str, Any]:
    given = {"rows": 3, "n": 5, "batch": 2, "heads": 3, "length": 4, "d": 8, "r": 6,
             "tables": 2}  # fmt: skip
    return {str(p): given.get(str(p), 10000.0) for p in made.parameters}


def arrays_of(made: Definition, sizes: dict[str, Any]) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    if made.name == "softmax":
        return {"x": rng.standard_normal((3, 5))}
    b, h, n, d = (sizes[k] for k in ("batch", "heads", "length", "d"))
    x = rng.standard_normal((b, h, n, d))
    if made.name.startswith("rope_apply"):
        return {"x": x, **{k: rng.standard_normal((b, n, d // 2)) for k in ("cos", "sin")}}
    return {"x": x, "positions": rng.integers(0, 1000, (b, n))}


@pytest.mark.parametrize("made", ALL, ids=lambda d: d.name)
def test_printed_source_computes_what_the_tape_does(made: Definition) -> None:
    text = source(compiled(made))
    scope: dict[str, Any] = {"np": np}
    exec(text, scope)  # the text is ours: running it is the test
    sizes = sizes_of(made)
    arrays = arrays_of(made, sizes)
    printed = scope[made.name.replace(".", "_")](*arrays.values(), **sizes)
    run = planned(compiled(made), FLOAT64, tuple(sizes.items()))(arrays)
    assert np.array_equal(printed, run)
    assert "may be rounded as output" in text


def by_hand(node: Any, scope: dict[Any, Any]) -> Any:
    """A second evaluator, over mpmath, that knows nothing of tapes."""
    import mpmath

    if node in scope:
        return scope[node]
    name = type(node).__name__
    if node.is_Number:
        return mpmath.mpf(node.p) / node.q if node.is_Rational else mpmath.mpf(str(node))
    if name == "Indexed":
        at = tuple(int(by_hand(i, scope)) for i in node.indices)
        return mpmath.mpf(float(scope[node.base.label][at]))
    if name in ("Sum", "Maximum"):
        ((k, low, high),) = node.limits
        ends = (int(by_hand(low, scope)), int(by_hand(high, scope)))
        terms = [by_hand(node.function, {**scope, k: v}) for v in range(ends[0], ends[1] + 1)]
        return mpmath.fsum(terms) if name == "Sum" else max(terms)
    if name == "Piecewise":
        return next(by_hand(v, scope) for v, c in node.args if c == True or by_hand(c, scope))  # noqa: E712
    args = [by_hand(a, scope) for a in (node.args[:1] if name in ("rnd", "weights") else node.args)]
    known: dict[str, Any] = {
        "rnd": lambda a: a,
        "weights": lambda a: a,
        "either": lambda a, b: a,
        "Add": lambda *a: mpmath.fsum(a),
        "Mul": lambda *a: mpmath.fprod(a),
        "Pow": lambda a, b: a**b,
        "exp": mpmath.exp,
        "log": mpmath.log,
        "cos": mpmath.cos,
        "sin": mpmath.sin,
        "floor": lambda a: int(mpmath.floor(a)),
        "Mod": lambda a, b: int(a) % int(b),
        "StrictLessThan": lambda a, b: a < b,
        "Equality": lambda a, b: a == b,
    }
    return known[name](*args)


@pytest.mark.parametrize("made", ALL, ids=lambda d: d.name)
def test_mpmath_agrees_on_tiny_shapes(made: Definition) -> None:
    """Element by element, straight from the sympy expression, in 40 digits."""
    import mpmath

    sizes = {
        **sizes_of(made),
        "rows": 2,
        "n": 3,
        "batch": 1,
        "heads": 1,
        "length": 2,
        "d": 4,
        "r": 2,
    }
    sizes = {k: v for k, v in sizes.items() if k in {str(p) for p in made.parameters}}
    arrays = arrays_of(made, {**sizes, "rows": 2, "n": 3})
    if made.name == "softmax":
        arrays = {"x": arrays["x"][:2, :3]}
    with precision(150):
        balls = planned(compiled(made), BALLS, tuple(sizes.items()))(arrays)
    with mpmath.workdps(40):
        scope: dict[Any, Any] = {a.label: arrays[str(a.label)] for a in made.arrays}
        scope |= {p: mpmath.mpf(sizes[str(p)]) for p in made.parameters}
        for at in np.ndindex(balls.shape):
            here = scope | {axis: mpmath.mpf(i) for (axis, _), i in zip(made.axes, at, strict=True)}
            exact = by_hand(made.expression, here)
            middle = mpmath.mpf(str(balls[at].mid().str(45, radius=False)))
            assert abs(exact - middle) <= mpmath.mpf(10) ** -36 * max(1, abs(exact)), at
    assert math.prod(balls.shape) > 1
