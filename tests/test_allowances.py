"""The allowances of whole definitions: certified values, no violation on the families of inputs on
which error bounds were tightened, none under a search for one, and no slack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attnspec.impls.rope import rope, rope_apply, rope_apply_half, rope_complex, rope_half
from attnspec.impls.softmax import softmax, softmax_online
from attnspec.oracle.balls import BALLS, BOTH_FORMS, midpoints, precision, radii
from attnspec.oracle.compiler import compiled
from attnspec.oracle.deviations import deviations_of
from attnspec.oracle.errors import errors_of
from attnspec.oracle.float64 import FLOAT64
from attnspec.oracle.plan import planned
from attnspec.oracle.precision import DEVIATIONS, EVALUATION, Contract, contract, snapped
from attnspec.spec import rope_definition, softmax_definition
from attnspec.spec.definition import Definition
from tests.emulation import STYLES, Emulated

torch = pytest.importorskip("torch")

Array = np.ndarray[Any, Any]
ALL = (softmax_definition.DEFINITION, *rope_definition.definitions())
HALVES = ("float32", "bfloat16", "float16")
EXACT = contract("float64", {"angles": "float64"})

FAMILIES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": lambda g, s: g.standard_normal(s),
    "scaled": lambda g, s: g.standard_normal(s) * 2.0 ** g.integers(-8, 6),
    "heavy-tailed": lambda g, s: np.clip(g.standard_t(1.5, s), -1000, 1000),
    "mean and noise": lambda g, s: 200.0 + 0.01 * g.standard_normal(s),
    "sparse": lambda g, s: g.standard_normal(s) * (g.random(s) < 0.2),
    "cancelling": lambda g, s: (
        np.where(np.arange(s[-1]) % 2, -1.0, 1.0 + 2.0**-7) * g.random((*s[:-1], 1))
    ),
    "spike": lambda g, s: np.where(g.random(s) < 1.5 / s[-1], 300.0, g.standard_normal(s)),
    "constant": lambda g, s: np.full(s, g.standard_normal()),
    "tiny": lambda g, s: g.standard_normal(s) * 2.0**-20,
    "midpoints": lambda g, s: (
        (1.0 + (2 * g.integers(0, 128, s) + 1) * 2.0**-8) * g.choice([-1.0, 1.0], s)
    ),
    "coherent": lambda g, s: 1.0 + g.random(s),
    "equal": lambda g, s: np.broadcast_to(g.standard_normal(s[-1]), s),
}


def sizes(made: Definition, g: np.random.Generator) -> dict[str, Any]:
    """A shape and parameters for a definition."""
    d = 2 * int(g.integers(1, 9))
    drawn = {
        "rows": int(g.integers(1, 6)),
        "n": int(g.choice([1, 2, 3, 5, 8, 17, 33, 64])),
        "batch": int(g.integers(1, 3)),
        "heads": int(g.integers(1, 3)),
        "length": int(g.integers(1, 7)),
        "d": d,
        "r": 2 * int(g.integers(1, d // 2 + 1)),
        "base": float(g.choice([10000.0, 500000.0, 2.0, 100.0])),
    }
    drawn["tables"] = drawn["batch"]
    return {str(p): drawn[str(p)] for p in made.parameters}


def arrays(
    made: Definition, shape: dict[str, Any], g: np.random.Generator, family: str, dtype: str
) -> dict[str, Array]:
    fill = FAMILIES[family]
    if made.name == "softmax":
        return {"x": snapped(fill(g, (shape["rows"], shape["n"])), dtype)}
    b, h, n, d = (shape[k] for k in ("batch", "heads", "length", "d"))
    x = snapped(fill(g, (b, h, n, d)), dtype)
    if made.name.startswith("rope_apply"):
        angle = g.uniform(-4, 4, (b, n, d // 2))
        return {"x": x, "cos": snapped(np.cos(angle), dtype), "sin": snapped(np.sin(angle), dtype)}
    top = int(g.choice([2, 300, 3000, 2**17]))
    return {"x": x, "positions": g.integers(0, top, (b, n))}


@pytest.mark.parametrize("made", ALL, ids=lambda d: d.name)
def test_float64_lies_in_the_enclosure_widened_by_its_own_bound(made: Definition) -> None:
    g = np.random.default_rng(7)
    tape = compiled(made)
    for turn in range(150):
        shape = sizes(made, g)
        given = arrays(made, shape, g, list(FAMILIES)[turn % len(FAMILIES)], "float64")
        key = tuple(shape.items())
        with precision(128):
            balls = planned(tape, BALLS, key)(given)
            planned(tape, BOTH_FORMS, key)(given)  # forms that differ raise
        with np.errstate(all="ignore"):
            value = planned(tape, FLOAT64, key)(given)
            v, own = planned(tape, errors_of(EXACT), key)(given)
        high, low = midpoints(balls)
        for found in (value, v):
            assert (np.abs((found - high) - low) <= own * (1 + EVALUATION) + radii(balls)).all()
        assert (radii(balls) <= 2.0**-70 * (np.abs(high) + 2.0**-40)).all()


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("made", ALL, ids=lambda d: d.name)
def test_no_emulated_rounding_leaves_the_allowance(made: Definition, dtype: str) -> None:
    """All families, each mark and operation rounded at random and as badly as possible."""
    g = np.random.default_rng(11)
    tape, worst = compiled(made), 0.0
    declared: list[Any] = [None, "strict", {"tables": "float16", "angles": "bfloat16"}]
    for turn in range(8 * len(FAMILIES)):
        rules = contract(dtype, declared[turn % 3])
        shape = sizes(made, g)
        key = tuple(shape.items())
        given = arrays(made, shape, g, list(FAMILIES)[turn % len(FAMILIES)], dtype)
        with np.errstate(all="ignore"):
            v, e = planned(tape, errors_of(rules), key)(given)
            for style in STYLES:
                actual = _emulated(tape, rules, g, style, shape, given)
                room = e * (1 + EVALUATION)
                assert (np.abs(actual - v) <= room).all(), (turn, style)
                ratio = np.abs(actual - v)[room > 0] / room[room > 0]
                worst = max(worst, float(ratio[np.isfinite(ratio)].max(initial=0.0)))
    assert worst > 0.5


def _emulated(tape: Any, rules: Contract, g: Any, style: str, shape: Any, given: Any) -> Array:
    from attnspec.oracle.plan import Plan

    result: Array = Plan(tape, Emulated(rules, g, style), shape)(given)
    return result


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", ["normal", "coherent", "mean and noise"])
@pytest.mark.parametrize("made", ALL[:2], ids=lambda d: d.name)
def test_deviations_cover_the_largest_of_many_emulations(
    made: Definition, family: str, dtype: str
) -> None:
    """64 runs with random roundings: all lie within the allowance, and so the 99.9 % quantile."""
    g = np.random.default_rng(13)
    tape, rules = compiled(made), contract(dtype)
    shape = sizes(made, g) | ({"n": 33} if made.name == "softmax" else {"length": 5})
    given = arrays(made, shape, g, family, dtype)
    with np.errstate(all="ignore"):
        v, e, deviation = planned(tape, deviations_of(rules), tuple(shape.items()))(given)
    allowance = np.minimum(e, DEVIATIONS * deviation) * (1 + EVALUATION)
    for style in ("uniform", "extreme"):
        for _ in range(32):
            error = np.abs(_emulated(tape, rules, g, style, shape, given) - v)
            assert np.quantile(error - allowance, 0.999) <= 0.0
            assert (error <= allowance).all()


def _call(function: Any, dtype: str, given: dict[str, Array], shape: dict[str, Any]) -> Array:
    kind = getattr(torch, dtype)
    tensors = {k: torch.from_numpy(np.array(v)) for k, v in given.items()}
    tensors = {k: v.to(kind) if v.is_floating_point() else v for k, v in tensors.items()}
    options = {"base": shape["base"], "rotary_dim": shape["r"]} if "r" in shape else {}
    result: Array = function(*tensors.values(), **options).to(torch.float64).numpy()
    return result


def by_steps(x: Any) -> Any:
    """Softmax as eager code writes it: a tensor after every step, the sum kept wide."""
    numerator = torch.exp(x - x.amax(-1, keepdim=True))
    total = numerator.sum(-1, keepdim=True, dtype=torch.promote_types(x.dtype, torch.float32))
    return (numerator / total).to(x.dtype)


def by_logarithm(x: Any) -> Any:
    """Softmax by way of the log-sum-exp in float32 or wider."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return torch.exp(wide - torch.logsumexp(wide, -1, keepdim=True)).to(x.dtype)


def by_log_softmax(x: Any) -> Any:
    """Log-probabilities stored in the dtype of x, then their exponentials."""
    shifted = x - x.amax(-1, keepdim=True)
    wide = shifted.to(torch.promote_types(x.dtype, torch.float32))
    return (wide - wide.exp().sum(-1, keepdim=True).log()).to(x.dtype).exp()


def by_merged_parts(x: Any) -> Any:
    """The log-sum-exp merged from parts of 32, as split keys are."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    merged, *parts = (torch.logsumexp(p, -1, keepdim=True) for p in wide.split(32, -1))
    for part in parts:
        merged = torch.logaddexp(merged, part)
    return torch.exp(wide - merged).to(x.dtype)


def by_powers_of_two(x: Any) -> Any:
    """Logits times log2(e) first, as kernels do that fold it into a scale."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32)) * float(np.log2(np.e))
    powers = torch.exp2(wide - wide.amax(-1, keepdim=True))
    return (powers / powers.sum(-1, keepdim=True)).to(x.dtype)


def rotated_by_two_tables(x: Any, positions: Any, *, base: float, rotary_dim: int) -> Any:
    """Sine and cosine of position = 256 high + low by adding angles, in float32."""
    frequency = base ** (-torch.arange(0, rotary_dim, 2, dtype=torch.float32) / rotary_dim)
    high = (positions // 256 * 256).to(torch.float32)[:, None, :, None] * frequency
    low = (positions % 256).to(torch.float32)[:, None, :, None] * frequency
    cos = high.cos() * low.cos() - high.sin() * low.sin()
    sin = high.sin() * low.cos() + high.cos() * low.sin()
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    first, second = wide[..., 0:rotary_dim:2], wide[..., 1:rotary_dim:2]
    turned = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return torch.cat((turned.flatten(-2).to(x.dtype), x[..., rotary_dim:]), dim=-1)


def rotated_by_steps(x: Any, positions: Any, *, base: float, rotary_dim: int) -> Any:
    """RoPE as model code writes it: tables in the dtype of x, a tensor after every step."""
    r = rotary_dim
    frequency = 1.0 / base ** (torch.arange(0, r, 2, dtype=torch.float32) / r)
    angle = positions[:, None, :, None].to(torch.float32) * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., 0:r:2], x[..., 1:r:2]
    turned = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return torch.cat((turned.flatten(-2), x[..., r:]), dim=-1)


HALF = rope_definition.rope("half", "forward")
PLAIN = rope_definition.rope("interleaved", "forward")
RIGHT: list[tuple[str, Any, Definition, str, float, float]] = [
    # name, function, definition, contract that it keeps, floors of the worst ratio: float32, others
    ("softmax", softmax, ALL[0], "strict", 0.05, 0.9),
    ("softmax_online", softmax_online, ALL[0], "strict", 0.05, 0.9),
    ("torch.softmax", lambda x: torch.softmax(x, -1), ALL[0], "strict", 0.05, 0.9),
    ("softmax by steps", by_steps, ALL[0], "eager", 0.05, 0.4),
    ("softmax by log-softmax", by_log_softmax, ALL[0], "eager", 0.05, 0.5),
    ("softmax by merged parts", by_merged_parts, ALL[0], "strict", 0.05, 0.9),
    ("softmax by powers of two", by_powers_of_two, ALL[0], "strict", 0.05, 0.9),
    ("softmax by log-sum-exp", by_logarithm, ALL[0], "strict", 0.05, 0.9),
    ("rope", rope, PLAIN, "strict", 0.2, 0.9),
    ("rope_complex", rope_complex, PLAIN, "strict", 0.2, 0.9),
    ("rope_half", rope_half, HALF, "strict", 0.2, 0.9),
    ("rope by two tables", rotated_by_two_tables, PLAIN, "strict", 0.2, 0.9),
    ("rope by steps", rotated_by_steps, PLAIN, "eager", 0.2, 0.5),
    ("rope_apply", rope_apply, ALL[5], "strict", 0.5, 0.9),
    ("rope_apply_half", rope_apply_half, ALL[7], "strict", 0.5, 0.9),
]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("case", RIGHT, ids=lambda c: c[0])
def test_right_code_stays_within_and_comes_near(case: Any, dtype: str) -> None:
    """Families, then a hill climb on the inputs that looks for a violation; and a floor, so that
    the allowance cannot have grown slack unnoticed."""
    _, function, made, preset, *floors = case
    g = np.random.default_rng(17)
    tape, rules, worst = compiled(made), contract(dtype, preset), 0.0

    def ratio(given: dict[str, Array], shape: dict[str, Any]) -> float:
        with np.errstate(all="ignore"):
            v, e = planned(tape, errors_of(rules), tuple(shape.items()))(given)
            error = np.abs(_call(function, dtype, given, shape) - v)
        assert (error <= e * (1 + EVALUATION)).all(), shape
        judged = np.isfinite(e) & (e > 0) & (np.abs(v) > 2.0**-14)
        return float((error[judged] / e[judged]).max(initial=0.0))

    for turn in range(5 * len(FAMILIES)):
        shape = sizes(made, g)
        given = arrays(made, shape, g, list(FAMILIES)[turn % len(FAMILIES)], dtype)
        worst = max(worst, ratio(given, shape))
    for start in range(2):
        shape = sizes(made, g)
        given = arrays(made, shape, g, ("normal", "midpoints")[start], dtype)
        best = ratio(given, shape)
        for _ in range(60):
            x = given["x"]
            some = g.random(x.shape) < 0.3
            moved = x * (1.0 + 0.3 * some * g.standard_normal(x.shape))
            tried = given | {"x": snapped(moved, dtype)}
            found = ratio(tried, shape)
            if found >= best:
                best, given = found, tried
        worst = max(worst, best)
    assert worst >= floors[dtype != "float32"], worst
