"""The proofs of gradients can fail: a wrong formula leaves a residual, and the normal form on which
they rest keeps an expression's value, collapses nothing out of range and captures no index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import sympy as sp

from attnspec.oracle.compiler import compiled
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import planned
from attnspec.spec import claim, rope_gradients
from attnspec.spec.claim import is_closed
from attnspec.spec.closed_gradients import Head, attention, by_heads, gradients
from attnspec.spec.derivatives import derivative, plain
from attnspec.spec.normal import exponential, normal

_a, _i, _j, _k, _l = sp.symbols("a i j k l", integer=True, nonnegative=True)
_n, _m = sp.symbols("n m", integer=True, positive=True)
_c = sp.Symbol("c", real=True)
_x, _y, _w = (sp.IndexedBase(name, real=True) for name in "xyw")
_Q, _K, _V, _BIAS, _SEEN, _UPSTREAM = attention("q").arrays


def _over(index: sp.Symbol, size: sp.Expr = _n) -> tuple[sp.Symbol, int, sp.Expr]:
    return (index, 0, size - 1)


def _right(name: str) -> Callable[[Head], sp.Expr]:
    """A formula as it is, out of reach of the patches."""
    formula: Callable[[Head], sp.Expr] = vars(Head)[name].fget
    return formula


_of_query, _of_weight, _of_value = (_right(f"of_{name}") for name in ("query", "weight", "value"))


def _of_another_key(head: Head) -> sp.Expr:
    """The gradient of a weight, from the value of key i instead of j."""
    return _of_weight(head).replace(
        lambda node: isinstance(node, sp.Indexed) and node.base == _V,
        lambda node: node.xreplace({_j: _i}),
    )


WRONG: Mapping[str, tuple[str, Callable[[Head], sp.Expr], tuple[str, ...]]] = {
    "no delta": (
        "of_score",
        lambda head: head.weight * head.of_weight,
        ("gradient_of_bias", "gradient_of_queries", "gradient_of_keys", "gradient_rows_vanish"),
    ),
    "no scale": (
        "of_query",
        lambda head: _of_query(head) / sp.Symbol("scale", positive=True),
        ("gradient_of_queries", "scores_adjoint"),
    ),
    "another key": ("of_weight", _of_another_key, ("gradient_of_bias", "gradient_of_keys")),
    "no slope of the cap": ("slope", lambda _: sp.S.One, ("gradient_with_softcap",)),
    "weights twice": (
        "of_value",
        lambda head: _of_value(head) * head.weight,
        ("gradient_of_values", "values_adjoint", "long_sum_of_equal_weights"),
    ),
    "no mask": (
        "numerator",
        lambda head: sp.exp(head.score - head.largest),
        ("gradient_of_masked_keys_vanishes", "gradients_are_of_definition"),
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_formula_leaves_a_residual(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, formula, claims = WRONG[wrong]
    monkeypatch.setattr(Head, name, property(formula))
    for conclusion in claims:
        derivation = claim(f"attention.{conclusion}").derivation
        assert derivation is not None
        assert not all(is_closed(step) for step in derivation()), conclusion


def test_a_wrong_direction_leaves_a_residual(monkeypatch: pytest.MonkeyPatch) -> None:
    def opposite(name: str) -> str:
        forward = "forward" in name
        return name.replace(*("forward", "backward") if forward else ("backward", "forward"))

    same = {name: gradients()[opposite(name)] for name in gradients() if name.startswith("rope")}
    monkeypatch.setattr(rope_gradients, "gradients", lambda: same)
    turned = claim("rope.gradient_is_opposite_rotation").derivation
    tables = claim("rope_apply.gradient_of_tables").derivation
    assert turned is not None
    assert tables is not None
    assert not any(is_closed(step) for step in turned() if "pair" in step.says)
    assert {step.says.split()[4] for step in tables() if not is_closed(step)} == {"sin,"}


def test_a_shift_of_the_numerator_alone_matters() -> None:
    shift = sp.Symbol("M", real=True)
    softmax = sp.exp(_x[_j] - shift) / sp.Sum(sp.exp(_x[_k]), _over(_k))
    loss = sp.Sum(_y[_j] * softmax, _over(_j))
    assert normal(sp.diff(loss, shift), {}) == normal(-loss, {}) != 0


def test_a_delta_picks_an_entry_in_range() -> None:
    total = sp.Sum(_x[_i] ** 2, _over(_i))
    slope = derivative(total, _x[_a])
    assert normal(slope, {_a: _n}) == 2 * _x[_a]
    first = derivative(total, _x[0])
    assert normal(first, {}) == 2 * _x[0]


@pytest.mark.parametrize(
    ("terms", "entry", "ranges"),
    [
        (_x[_i], _x[_a], {}),
        (_x[_i], _x[_a], {_a: _m}),
        (_x[_i], _x[_n], {}),
        (_x[_i + 1], _x[_a], {_a: _n}),
        (_x[2 * _i], _x[_a], {_a: _n}),
    ],
    ids=["unknown", "another range", "one too far", "shifted", "every other"],
)
def test_a_delta_out_of_range_is_refused(
    terms: sp.Expr, entry: sp.Indexed, ranges: dict[sp.Symbol, sp.Expr]
) -> None:
    slope = derivative(sp.Sum(terms, _over(_i)), entry)
    with pytest.raises(ValueError, match="known to be in range"):
        normal(slope, ranges)


def test_a_delta_in_a_function_is_no_factor() -> None:
    inside = sp.Sum(sp.tanh(_x[_i] * sp.KroneckerDelta(_i, _a)), _over(_i))
    assert normal(inside, {_a: _n}) != normal(sp.tanh(_x[_a]), {_a: _n})


def test_what_has_no_normal_form_is_refused() -> None:
    with pytest.raises(ValueError, match="depends on another index"):
        normal(sp.Sum(_x[_j], (_j, 0, _i), _over(_i)), {})
    with pytest.raises(TypeError, match="no normal form for StrictLessThan"):
        normal(sp.Sum(_x[_j], _over(_j)) < 1, {})


def test_an_index_that_is_bound_is_not_differentiated_by() -> None:
    with pytest.raises(ValueError, match="is bound in what is differentiated"):
        derivative(sp.Sum(_x[_i] ** 2, _over(_i)), _x[_i])


_inner = sp.Sum(_x[_i, _k] * _y[_k, _j], _over(_k))
EQUAL: Mapping[str, tuple[sp.Expr, sp.Expr]] = {
    "order of sums": (
        sp.Sum(sp.Sum(_x[_i, _j] * _w[_i] * _w[_j], _over(_j)), _over(_i)),
        sp.Sum(sp.Sum(_x[_i, _j] * _w[_i], _over(_i)) * _w[_j], _over(_j)),
    ),
    "a sum within a sum": (
        sp.Sum(_w[_i] * sp.Sum(_x[_i, _j], _over(_j)), _over(_i)),
        sp.Sum(_w[_i] * _x[_i, _j], _over(_i), _over(_j)),
    ),
    "a free factor": (sp.Sum(_c * _x[_i, _a], _over(_i)), _c * sp.Sum(_x[_i, _a], _over(_i))),
    "the square of a sum": (
        sp.Sum(_w[_i], _over(_i)) ** 2,
        sp.Sum(_w[_i] * _w[_j], _over(_i), _over(_j)),
    ),
    "an unused index": (sp.Sum(_c, _over(_i)), _c * _n),
    "the same index inside": (
        sp.Sum(_w[_j] / sp.Sum(_w[_j], _over(_j)), _over(_j)),
        sp.S.One,
    ),
    "a shift": (
        sp.exp(_w[_a] - _c) / sp.Sum(sp.exp(_w[_i] - _c), _over(_i)),
        sp.exp(_w[_a]) / sp.Sum(sp.exp(_w[_j]), _over(_j)),
    ),
    "sums in exponents": (
        sp.Sum(sp.exp(_c * _inner), _over(_i), _over(_j)),
        sp.Sum(sp.exp(sp.Sum(_c * _x[_i, _l] * _y[_l, _j], _over(_l))), _over(_j), _over(_i)),
    ),
}


def _value(expression: sp.Expr, size: int) -> sp.Expr:
    """The expression with that many entries to each index, as a number."""
    entries: dict[str, Callable[..., int]] = {
        "x": lambda i, j: i + 3 * j + 1,
        "y": lambda i, j: 2 - i * j,
        "w": lambda i: 1 + i * i,
    }
    at = expression.subs({_n: size, _a: 1, _c: sp.Rational(1, 3)}).doit()
    known = at.replace(
        lambda node: isinstance(node, sp.Indexed),
        lambda node: sp.Integer(entries[str(node.base.label)](*node.indices)),
    )
    return known.replace(exponential, sp.exp)


@pytest.mark.parametrize("name", EQUAL)
def test_equal_sums_have_one_normal_form_and_its_value(name: str) -> None:
    left, right = EQUAL[name]
    form = normal(left, {_a: _n})
    assert form == normal(right, {_a: _n})
    for size in (2, 3):
        assert sp.simplify(_value(form, size) - _value(left, size)) == 0


def test_different_sums_have_different_normal_forms() -> None:
    kept = sp.Sum(_x[_i, _j] * _w[_j], _over(_i), _over(_j))
    assert normal(kept, {}) != normal(sp.Sum(_x[_i, _j] * _w[_i], _over(_i), _over(_j)), {})
    assert normal(kept, {}) != normal(sp.Sum(_x[_i, _i] * _w[_i], _over(_i)), {})
    assert normal(kept, {}) != normal(kept.subs(_n, _m), {})


SIZES = {"batch": 2, "groups": 2, "members": 2, "queries": 3, "keys": 4, "d": 2, "e": 3}
STEP = 1e-30
"""Of a derivative by a complex step, which has no cancellation: exact to rounding."""


def _drawn() -> dict[str, Any]:
    draw = np.random.default_rng(7)
    batch, groups, members, queries, keys, d, e = SIZES.values()
    heads = groups * members
    seen = (draw.random((batch, heads, queries, keys)) < 0.6).astype(float)
    seen[..., 0] = 1.0
    return {
        "q": draw.normal(size=(batch, heads, queries, d)),
        "k": draw.normal(size=(batch, groups, keys, d)),
        "v": draw.normal(size=(batch, groups, keys, e)),
        "bias": draw.normal(size=seen.shape),
        "m": seen,
        "upstream": draw.normal(size=(batch, heads, queries, e)),
    }


def _summed(arrays: Mapping[str, Any], cap: float | None) -> Any:
    """The sum of upstream times attention, in numpy."""
    shared = [head // SIZES["members"] for head in range(arrays["q"].shape[1])]
    scores = 0.7 * np.einsum("bhil,bhjl->bhij", arrays["q"], arrays["k"][:, shared])
    if cap is not None:
        scores = cap * np.tanh(scores / cap)
    numerators = arrays["m"] * np.exp(scores + arrays["bias"])
    weights = numerators / numerators.sum(-1, keepdims=True)
    return np.einsum("bhic,bhij,bhjc->", arrays["upstream"], weights, arrays["v"][:, shared])


@pytest.mark.parametrize("cap", [None, 1.5], ids=["no cap", "cap"])
@pytest.mark.parametrize("of", ["q", "k", "v", "bias"])
def test_a_closed_formula_is_the_derivative_in_numbers(of: str, cap: float | None) -> None:
    arrays = _drawn()
    parameters = {**SIZES, "scale": 0.7, **({} if cap is None else {"cap": cap})}
    name = f"attention.{'' if cap is None else 'softcap.'}{of}"
    closed = planned(compiled(gradients()[name]), FLOAT64, tuple(parameters.items()))(arrays)
    slopes = np.zeros_like(arrays[of])
    for place in np.ndindex(slopes.shape):
        moved = arrays[of].astype(complex)
        moved[place] += 1j * STEP
        slopes[place] = _summed({**arrays, of: moved}, cap).imag / STEP
    assert closed.shape == slopes.shape
    assert np.abs(closed - slopes).max() < 2.0**-48


def test_both_forms_of_delta_are_in_the_formula() -> None:
    """A tape holds an implementation to either way of computing delta."""
    ops = [op.name for op in compiled(gradients()["attention.q"]).ops]
    assert "either" in ops
    first, second = by_heads().deltas
    assert plain(first, _Q) != plain(second, _Q)
