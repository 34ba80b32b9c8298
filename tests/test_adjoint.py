"""The adjoint tape against three other ways to a gradient: the closed formulas that sympy proved,
differences in ball arithmetic, and torch in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import flint
import numpy as np
import pytest
import sympy as sp

from attnspec.oracle.adjoint import gradients
from attnspec.oracle.balls import BALLS, precision
from attnspec.oracle.compiler import compiled
from attnspec.oracle.errors import errors_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import planned
from attnspec.oracle.precision import contract
from attnspec.oracle.tape import UnsupportedError
from attnspec.spec import closed_gradients, rope_definition, softmax_definition
from attnspec.spec.definition import Definition, rnd
from tests.attention_cases import KINDS, Case, case

torch = pytest.importorskip("torch")

Array = np.ndarray[Any, Any]


def balls(definition: Any, key: Any, arrays: dict[str, Any]) -> Any:
    return planned(definition, BALLS, key)(arrays)


def wholly_seen(g: np.random.Generator, kind: str) -> Case:
    """A case of which every row sees a key, as the closed formulas ask."""
    while True:
        call = case(g, kind, "float64")
        if not call.options.ranges and not call.options.bias:
            mask = call.arrays["mask"]
            mask[..., 0] = 1
            return call


def closed_arrays(call: Case) -> tuple[dict[str, Any], dict[str, Any]]:
    p, a = call.parameters, call.arrays
    shape = (p["batch"], p["heads"], p["t"], p["s"])
    sizes = {
        "batch": p["batch"], "groups": p["groups"], "members": p["heads"] // p["groups"],
        "queries": p["t"], "keys": p["s"], "d": p["d"], "e": p["e"], "scale": p["scale"],
        **({"cap": p["cap"]} if call.options.softcap else {}),
    }  # fmt: skip
    seen = a["mask"].astype(np.float64) if call.options.mask else np.ones(shape)
    return sizes, {**a, "bias": np.zeros(shape), "m": seen}


def test_closed_formulas_of_attention_are_the_adjoint_tape() -> None:
    g = np.random.default_rng(3)
    for turn in range(12):
        call = wholly_seen(g, KINDS[turn % len(KINDS)])
        tape = gradients(call.definition, ("q", "k", "v"))
        sizes, arrays = closed_arrays(call)
        with precision(200):
            right = balls(tape, call.key, call.arrays)
            for name, mine in zip(("q", "k", "v"), right, strict=True):
                made = closed_gradients.attention(
                    name, call.options.head_order, softcap=call.options.softcap
                )
                other = balls(compiled(made), tuple(sizes.items()), arrays)
                _same(mine, other)


@pytest.mark.parametrize("order", ["grouped", "tiled"])
def test_closed_formula_of_the_bias_is_the_adjoint_tape(order: str) -> None:
    g = np.random.default_rng(5)
    call = wholly_seen(g, "normal")
    call = call._replace(options=replace(call.options, bias=True, mask=False, head_order=order))
    p = call.parameters
    shape = (p["batch"], p["heads"], p["t"], p["s"])
    names = ("bias_b", "bias_h", "bias_t", "bias_s")
    call.parameters.update(zip(names, shape, strict=True))
    call.arrays["bias"] = g.standard_normal(shape)
    sizes, arrays = closed_arrays(call)
    arrays["bias"] = call.arrays["bias"]
    made = closed_gradients.attention("bias", order, softcap=call.options.softcap)
    with precision(200):
        mine = balls(gradients(call.definition, ("bias",)), call.key, call.arrays)
        _same(mine, balls(compiled(made), tuple(sizes.items()), arrays))


def _same(first: Array, second: Array) -> None:
    assert first.shape == second.shape
    for a, b in zip(first.ravel(), second.ravel(), strict=True):
        assert a.overlaps(b)
        assert float(a.rad()) <= 2.0**-100 * (1.0 + abs(float(a.mid())))


def test_differences_in_balls_are_the_adjoint_tape() -> None:
    """Central differences at 400 bits with a step of 2^-120: right to 2^-200 of the values."""
    g = np.random.default_rng(9)
    step = flint.arb(2) ** -120
    for turn in range(10):
        call = case(g, KINDS[turn % len(KINDS)], "float64")
        forward, names = compiled(call.definition), call.names
        with precision(400):
            right = balls(gradients(call.definition, names), call.key, call.arrays)
            lifted = {n: BALLS.lift(call.arrays[n]) for n in (*names, "upstream")}
            for name, gradient in zip(names, right, strict=True):
                for _ in range(3):
                    at = tuple(int(g.integers(n)) for n in gradient.shape)
                    if not lifted[name][at].is_finite():
                        continue
                    ends = []
                    for sign in (1, -1):
                        moved = lifted[name].copy()
                        moved[at] = moved[at] + sign * step
                        given = {**call.arrays, name: moved}
                        ends.append(np.sum(balls(forward, call.key, given) * lifted["upstream"]))
                    slope = (ends[0] - ends[1]) / (2 * step)
                    assert abs(float(slope - gradient[at])) <= 2.0**-120


def test_torch_in_float64_is_the_adjoint_tape() -> None:
    g = np.random.default_rng(15)
    for turn in range(24):
        call = case(g, KINDS[turn % len(KINDS)], "float64")
        names = call.names
        tensors = {n: torch.tensor(call.arrays[n], requires_grad=True) for n in names}
        output = by_torch(call, tensors)
        upstream = torch.tensor(call.arrays["upstream"])
        theirs = torch.autograd.grad(output, list(tensors.values()), upstream)
        rules = errors_of(contract("float64"))
        mine = planned(gradients(call.definition, names), rules, call.key)(call.arrays)
        for name, (v, e), other in zip(names, mine, theirs, strict=True):
            finite = np.isfinite(call.arrays[name])
            found = np.where(finite, other.numpy(), 0.0)
            assert (np.abs(found - v) <= 2.0 * e).all(), (name, call.options)


def by_torch(call: Case, tensors: dict[str, Any]) -> Any:
    """Attention in torch, written anew: masked scores with a guard for empty rows."""
    p, options = call.parameters, call.options
    heads = torch.arange(p["heads"])
    per_group = p["heads"] // p["groups"]
    read = heads // per_group if options.head_order == "grouped" else heads % p["groups"]
    k, v = tensors["k"][:, read], tensors["v"][:, read]
    z = torch.einsum("bhid,bhjd->bhij", tensors["q"], k) * p["scale"]
    if options.softcap:
        z = p["cap"] * torch.tanh(z / p["cap"])
    seen = torch.ones_like(z, dtype=torch.bool)
    if options.bias:
        bias = tensors["bias"]
        seen = seen & (bias != -torch.inf)
        z = z + torch.where(bias == -torch.inf, 0.0, bias)
    if options.mask:
        seen = seen & torch.tensor(call.arrays["mask"] != 0)
    if options.ranges:
        i = torch.arange(p["t"])[:, None] + p["offset"]
        j = torch.arange(p["s"])
        seen = seen & (j <= i + p["right"]) & (j >= i - p["left"])
    some = seen.any(-1, keepdim=True)
    z = torch.where(some, z.masked_fill(~seen, -torch.inf), 0.0)
    return torch.where(seen, torch.softmax(z, -1), 0.0) @ v


@pytest.mark.parametrize("layout", rope_definition.LAYOUTS)
@pytest.mark.parametrize("direction", rope_definition.DIRECTIONS)
def test_the_gradient_of_rope_turns_back(layout: str, direction: str) -> None:
    g = np.random.default_rng(21)
    sizes = {"batch": 2, "heads": 3, "length": 4, "d": 8, "r": 6, "base": 100.0}
    shape = (2, 3, 4, 8)
    arrays = {"x": g.standard_normal(shape), "positions": g.integers(0, 50, (2, 4))}
    arrays["upstream"] = g.standard_normal(shape)
    opposite = "backward" if direction == "forward" else "forward"
    tape = gradients(rope_definition.rope(layout, direction), ("x",))
    back = compiled(rope_definition.rope(layout, opposite))
    with precision(200):
        turned = balls(back, tuple(sizes.items()), {**arrays, "x": arrays["upstream"]})
        _same(balls(tape, tuple(sizes.items()), arrays), turned)


def test_the_gradient_of_softmax_is_its_closed_formula() -> None:
    g = np.random.default_rng(25)
    tape = gradients(softmax_definition.DEFINITION, ("x",))
    for n in (1, 2, 7, 33):
        arrays = {"x": 4.0 * g.standard_normal((3, n)), "upstream": g.standard_normal((3, n))}
        key = (("rows", 3), ("n", n))
        closed = compiled(closed_gradients.softmax())
        with precision(200):
            _same(balls(tape, key, arrays), balls(closed, key, arrays))


_i, _n = sp.Symbol("i", integer=True, nonnegative=True), sp.Symbol("n", integer=True, positive=True)
_x, _y = (sp.IndexedBase(name, shape=(_n,), real=True) for name in "xy")


def made(expression: sp.Expr) -> Definition:
    return Definition("test", expression, ((_i, _n),), (_x, _y), (_n,))


FUNCTIONS = {
    "exp": sp.exp(_x[_i]), "log": sp.log(_x[_i]), "sqrt": sp.sqrt(_x[_i]),
    "tanh": sp.tanh(_x[_i]), "sin": sp.sin(_x[_i]), "cos": sp.cos(_x[_i]),
    "division": _y[_i] / _x[_i], "both": _x[_i] / (1 + _x[_i] * _y[_i]),
    "branches": sp.Piecewise((_x[_i] * _y[_i], _i < 2), (-(_x[_i] ** 2), True)),
    "inverse root": 1 / sp.sqrt(_x[_i] ** 2 + _y[_i]),
    "mean": _x[_i] - sp.Sum(_x[sp.Symbol("k", integer=True, nonnegative=True)] / _n,
                            (sp.Symbol("k", integer=True, nonnegative=True), 0, _n - 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_operation_has_its_derivative(name: str) -> None:
    """Against differences in float64 of a sum with random weights."""
    g = np.random.default_rng(31)
    definition = made(FUNCTIONS[name])
    n = 5
    arrays = {"x": 0.5 + g.random(n), "y": 0.5 + g.random(n), "upstream": g.standard_normal(n)}
    key = (("n", n),)
    gradient = planned(gradients(definition, ("x",)), FLOAT64, key)(arrays)
    forward = planned(compiled(definition), FLOAT64, key)
    step = 2.0**-20
    for at in range(n):
        ends = []
        for sign in (1.0, -1.0):
            moved = arrays["x"].copy()
            moved[at] += sign * step
            ends.append(float(np.sum(forward({**arrays, "x": moved}) * arrays["upstream"])))
        slope = (ends[0] - ends[1]) / (2.0 * step)
        assert abs(slope - gradient[at]) < 2.0**-25


def test_what_has_no_derivative_is_named() -> None:
    with pytest.raises(UnsupportedError, match="no derivative of 'abs'"):
        gradients(made(sp.Abs(_x[_i])), ("x",))
    with pytest.raises(UnsupportedError, match="no gradient reaches y"):
        gradients(made(sp.exp(_x[_i])), ("y",))


def test_contributions_to_what_is_stored_are_marked() -> None:
    """A sum of two contributions to an input is stored, and each of the two; the upstream isn't,
    and what an addition passes on isn't stored twice."""
    tape = gradients(made(rnd(rnd(_x[_i] * _y[_i], "scores") + _x[_i], "output")), ("x",))
    marks = [op.extra for op in tape.ops if op.name == "rnd"]
    assert marks.count("activations") == 2
    assert marks.count("output") == 2
    plain = gradients(made(rnd(_x[_i] + _y[_i], "output")), ("x",))
    assert [op.extra for op in plain.ops if op.name == "rnd"] == ["output", "output"]


def test_products_are_stored_before_they_are_added_over_a_broadcast_axis() -> None:
    """Eager code forms G x for every head and then adds: cos and sin of one table for two heads."""
    x = torch.tensor(
        [[[[-1.296875, -1.0703125]], [[-1.9296875, 0.92578125]]]], dtype=torch.bfloat16
    )
    upstream = torch.tensor([[[[0.062255859375, 1.96875]], [[0.7421875, -1.4140625]]]]).to(x)
    sizes = {"batch": 1, "heads": 2, "length": 1, "d": 2, "tables": 1}
    zeros = np.zeros((1, 1, 1))
    arrays = {
        "x": x.double().numpy(), "cos": zeros, "sin": zeros,
        "upstream": upstream.double().numpy(),
    }  # fmt: skip
    tape = gradients(rope_definition.rope_apply("interleaved", "forward"), ("sin",))
    v, e = planned(tape, errors_of(contract("bfloat16")), tuple(sizes.items()))(arrays)
    across = torch.stack((-x[..., 1], x[..., 0]), dim=-1)
    eager = (upstream * across).sum()
    assert abs(float(eager) - float(v.item())) <= float(e.item())
